package health

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options are the settings of a [Registry]. Only Checker has no default.
type Options struct {
	// Checker probes. It is one for all targets of the registry; a [Func] may choose by
	// target.
	Checker Checker
	// Interval is the time from the start of a probe to the start of the next one of
	// the same target; default 10 s, at least 10 ms. A new target is probed at once.
	Interval time.Duration
	// MaxInterval has the probes of a target that goes on failing come more seldom: once
	// it is Unhealthy each failure doubles the interval, up to so much; a probe that
	// passes ends that. It saves probes of servers that are gone, at the price of finding
	// out later that they are back. Default: Interval, that is no such backoff.
	MaxInterval time.Duration
	// IntervalOf gives the interval of one target; 0 is Interval, and it must not be
	// shorter than Timeout. Of targets with equal keys the shortest counts. It is called
	// by View.Set, in the caller's goroutine, and holds from the next probe on. Nil is
	// Interval for all.
	IntervalOf func(Target) time.Duration
	// Jitter is by how much an interval may be longer or shorter, as a fraction of it:
	// default 0.1, at most 0.5, negative for none. It is drawn for each probe, so that
	// targets and processes that started together drift apart.
	Jitter float64
	// Timeout is each probe's own deadline; default 1 s, or Interval if that is
	// shorter. It must not be longer than Interval.
	Timeout time.Duration
	// FailAfter and PassAfter are how many probes in a row have to fail, or to pass,
	// for the state to change; default 1 each.
	FailAfter, PassAfter int
	// Workers is how many probes may run at once; default 16.
	Workers int
	// Initial is the state of a target that appears; default Healthy. A target that no
	// view contributes any more is forgotten: if it comes back, it starts here. Over
	// live connections ([GRPC]) nothing is learned of a server before a client connects.
	Initial State
	// Equivalence gives the key of a target. Targets with equal keys are probed once
	// and are healthy or not together. Default: the address, or the name of a target
	// without address. It is called by View.Set, in the caller's goroutine.
	Equivalence func(Target) string
	// Observer is told of each change of state, once, in order, outside all locks and
	// by one goroutine of its own: it may call anything here but Registry.Close, which
	// waits for it. A slow one delays itself; when 16,384 changes wait, further ones
	// are left out and counted.
	Observer func(Flip)
	// Logger gets changes of state and what is odd about a server. Default: nothing is
	// logged.
	Logger *slog.Logger
}

const (
	defaultInterval = 10 * time.Second
	defaultTimeout  = time.Second
	defaultJitter   = 0.1
	defaultWorkers  = 16
	leastInterval   = 10 * time.Millisecond // below it, probing would be load
)

func (o Options) withDefaults() (Options, error) {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if err := validateChecker(o.Checker); err != nil {
		errs = append(errs, err)
	}
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.Interval < leastInterval {
		refuse("Interval is %v, allowed is %v and more", o.Interval, leastInterval)
	}
	if o.MaxInterval == 0 {
		o.MaxInterval = o.Interval
	}
	if o.MaxInterval < o.Interval {
		refuse("MaxInterval is %v, allowed is the interval of %v and more, or 0 for that", o.MaxInterval, o.Interval)
	}
	if o.Timeout == 0 {
		o.Timeout = min(defaultTimeout, o.Interval)
	}
	if o.Timeout < 0 || o.Timeout > o.Interval {
		refuse("Timeout is %v, allowed is more than 0 up to the interval of %v", o.Timeout, o.Interval)
	}
	if o.Jitter == 0 {
		o.Jitter = defaultJitter
	}
	o.Jitter = max(o.Jitter, 0)
	if !(o.Jitter <= 0.5) { // NaN is refused too
		refuse("Jitter is %v, allowed is up to 0.5, or a negative number for none", o.Jitter)
	}
	for _, n := range []struct {
		name     string
		value    *int
		standard int
	}{
		{"FailAfter", &o.FailAfter, 1}, {"PassAfter", &o.PassAfter, 1}, {"Workers", &o.Workers, defaultWorkers},
	} {
		if *n.value == 0 {
			*n.value = n.standard
		}
		if *n.value < 0 {
			refuse("%s is %d, allowed is 1 and more, or 0 for %d", n.name, *n.value, n.standard)
		}
	}
	if o.Initial > Unknown {
		refuse("Initial is %v, allowed are Healthy, Unhealthy and Unknown", o.Initial)
	}
	if o.Equivalence == nil {
		o.Equivalence = addressOrName
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if len(errs) > 0 {
		return o, fmt.Errorf("health: %w", errors.Join(errs...))
	}
	return o, nil
}

func addressOrName(t Target) string {
	if t.Address != "" {
		return t.Address
	}
	return t.Name
}
