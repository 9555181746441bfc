package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// outcome is how one probe ended.
type outcome struct {
	kind     verdict
	err      error // nil if passed, but for an oddity
	timedOut bool
	odd      oddity
	stack    []byte // of a panic
}

type verdict uint8

const (
	passed verdict = iota
	failed
	noVerdict
)

var errGoexit = errors.New("the checker ended its goroutine (runtime.Goexit)")

// failure holds the text of a checker's error from when it was classified, so that
// a method of it that panics does so there and nowhere else.
type failure struct {
	text  string
	cause error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.cause }

// classify runs in the worker, which survives its panics: an error's methods are
// foreign code.
func (r *Registry) classify(ctx context.Context, err error) outcome {
	if err == nil {
		return outcome{kind: passed}
	}
	f := &failure{text: err.Error(), cause: err}
	switch {
	case errors.Is(err, ErrNoHealthService):
		return outcome{kind: passed, err: f, odd: oddNoHealthService}
	case errors.Is(err, ErrNoVerdict):
		return outcome{kind: noVerdict, err: f}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return r.noAnswer(f)
	}
	return outcome{kind: failed, err: f}
}

// noAnswer is the outcome at a probe's deadline; err is what the checker made of it.
func (r *Registry) noAnswer(err *failure) outcome {
	f := &failure{text: fmt.Sprintf("no answer within %v", r.options.Timeout), cause: context.DeadlineExceeded}
	if err != nil {
		f = &failure{text: f.text + ": " + err.text, cause: errors.Join(f.cause, err)}
	}
	return outcome{kind: failed, err: f, timedOut: true}
}

// panicked is called where the panic was recovered, so its stack is still there.
func panicked(v any) outcome {
	return outcome{kind: failed, err: fmt.Errorf("the checker panicked: %v", v), odd: oddPanic, stack: debug.Stack()}
}

// verdict takes the outcome of a probe, once.
func (r *Registry) verdict(p *run, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || p.judged {
		return
	}
	p.judged = true
	now := time.Now()
	r.judge(p.entry, o, now)
	r.put(p.entry, later(now, p.start.Add(r.interval(p.entry))))
	r.advance()
}

// judge counts an outcome and decides whether the state changes. The lock is held.
func (r *Registry) judge(e *entry, o outcome, now time.Time) {
	if !e.probed {
		e.probed = true
		r.unprobed--
	}
	r.count(o)
	r.warn(e, o)
	e.at, e.err = now, o.err
	switch o.kind {
	case noVerdict:
	case passed:
		e.err = nil
		e.oddities &^= oddPanic
		e.streak = max(e.streak, 0) + 1
		if e.streak >= r.options.PassAfter {
			r.become(e, Healthy, now)
		}
	case failed:
		e.streak = min(e.streak, 0) - 1
		if -e.streak >= r.options.FailAfter {
			r.become(e, Unhealthy, now)
		}
	}
}

func (r *Registry) count(o outcome) {
	switch o.kind {
	case passed:
		r.counts.Passed++
	case failed:
		r.counts.Failed++
	case noVerdict:
		r.counts.NoVerdict++
	}
	if o.timedOut {
		r.counts.TimedOut++
	}
	if o.odd == oddPanic {
		r.counts.Panics++
	}
	if o.odd == oddNoHealthService {
		r.counts.NoHealthService++
	}
}

// warn has an oddity logged, once per target; a panic again after a probe passed.
func (r *Registry) warn(e *entry, o outcome) {
	if o.odd == 0 || e.oddities&o.odd != 0 {
		return
	}
	e.oddities |= o.odd
	w := event{details: []slog.Attr{slog.String("target", e.key), slog.Any("error", o.err)}}
	switch o.odd {
	case oddNoHealthService:
		w.oddity = "a server has no health service and is taken for healthy"
	case oddPanic:
		w.oddity = "a health checker panicked, which counts as a failed probe"
		w.details = append(w.details, slog.String("stack", string(o.stack)))
	}
	r.events.put(w)
}

// become is an edge if the state is another: one store, then those who want to know.
func (r *Registry) become(e *entry, to State, now time.Time) {
	from := e.cell.State()
	if from == to {
		return
	}
	e.cell.state.Store(uint32(to))
	e.since = now
	probes := e.streak
	if to == Healthy {
		r.counts.ToHealthy++
	} else {
		r.counts.ToUnhealthy++
		probes = -probes
	}
	if !e.notifying {
		e.notifying = r.changed.put(e)
	}
	told := r.events.put(event{isFlip: true, flip: Flip{
		Key: e.key, Names: e.names(), From: from, To: to, Probes: probes, Err: e.err, At: now,
	}})
	if !told {
		r.counts.EventsLost++
	}
}
