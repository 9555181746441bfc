package admission

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// BreakerOptions are the settings of a [Breaker]. A zero field has its default.
type BreakerOptions struct {
	// MinThroughput is how many calls the window must hold before their failures
	// can open the breaker. 20 by default, at most 1,000,000.
	MinThroughput int
	// FailureRatio is the share of failures, reached or exceeded, that opens it.
	// 0.5 by default; above 0, at most 1.
	FailureRatio float64
	// Window is how far back calls count. It moves on in 16 steps, so a call counts
	// for at least 15/16 of it. 30 s by default; 1 s to 24 h.
	Window time.Duration
	// OpenFor is how long an open breaker refuses everything. 10 s by default; 1 ms
	// to 24 h.
	OpenFor time.Duration
	// OpenJitter is by how much a time of OpenFor may be longer or shorter, as a
	// fraction of it, drawn for each: so that the clients of a server whose breakers
	// opened together do not all try it again together. None by default, at most 0.5.
	OpenJitter float64
	// SlowAfter has a call that lasted longer count as a failure, however it ended,
	// unless it was cancelled or not sent: FailureRatio is then that of slow calls as
	// well. A stream lasts from its start to its end, so this is for channels whose
	// calls are unary. Off by default.
	SlowAfter time.Duration
	// HalfOpenCalls is how many trial calls are let through after that, all of
	// which must succeed to close the breaker. 1 by default, at most 31.
	HalfOpenCalls int
	// Codes are the gRPC status codes that are failures, beside connections that are
	// lost; each 1 to 63. By default they are those of [Outcome.Verdict].
	Codes []uint32
	// Judge replaces [Outcome.Verdict] and Codes as what counts as a failure. It is called by
	// the goroutine of each RPC that ends.
	Judge func(Outcome) Verdict
	// Observer is told of each change of state, see [Edge].
	Observer func(Edge)
	// Clock replaces the process's monotonic clock, for tests and simulations. It
	// counts from any start, is never negative and never goes back.
	Clock func() time.Duration
}

const (
	minWindow      = time.Second
	minOpenFor     = time.Millisecond
	maxDuration    = 24 * time.Hour
	maxJitter      = 0.5
	maxThroughput  = 1_000_000
	maxTrialCalls  = 1<<trialBits - 1
	maxCode        = 63
	defaultCalls   = 20
	defaultRatio   = 0.5
	defaultWindow  = 30 * time.Second
	defaultOpenFor = 10 * time.Second
)

// withDefaults fills in what is zero and reports everything that is not allowed.
func (o BreakerOptions) withDefaults() (BreakerOptions, error) {
	o.MinThroughput = or(o.MinThroughput, defaultCalls)
	o.FailureRatio = or(o.FailureRatio, defaultRatio)
	o.Window = or(o.Window, defaultWindow)
	o.OpenFor = or(o.OpenFor, defaultOpenFor)
	o.HalfOpenCalls = or(o.HalfOpenCalls, 1)
	failures := uint64(0)
	for _, c := range o.Codes {
		failures |= 1 << (c & maxCode)
	}
	switch {
	case o.Judge != nil:
	case failures != 0:
		o.Judge = func(out Outcome) Verdict { return out.verdictBy(failures) }
	default:
		o.Judge = Outcome.Verdict
	}
	if o.Clock == nil {
		start := time.Now()
		o.Clock = func() time.Duration { return time.Since(start) }
	}

	var problems []error
	wrong := func(field string, is, allowed any) {
		problems = append(problems, fmt.Errorf("admission: BreakerOptions.%s is %v; allowed is %v, or 0 for the default", field, is, allowed))
	}
	if o.MinThroughput < 1 || o.MinThroughput > maxThroughput {
		wrong("MinThroughput", o.MinThroughput, fmt.Sprintf("1 to %d calls", maxThroughput))
	}
	if !(o.FailureRatio > 0 && o.FailureRatio <= 1) { // so that NaN is refused
		wrong("FailureRatio", o.FailureRatio, "above 0 and at most 1")
	}
	if o.Window < minWindow || o.Window > maxDuration {
		wrong("Window", o.Window, fmt.Sprintf("%v to %v", minWindow, maxDuration))
	}
	if o.OpenFor < minOpenFor || o.OpenFor > maxDuration {
		wrong("OpenFor", o.OpenFor, fmt.Sprintf("%v to %v", minOpenFor, maxDuration))
	}
	if !(o.OpenJitter >= 0 && o.OpenJitter <= maxJitter) {
		wrong("OpenJitter", o.OpenJitter, fmt.Sprintf("0 to %v", maxJitter))
	}
	if o.SlowAfter < 0 {
		wrong("SlowAfter", o.SlowAfter, "above 0")
	}
	if o.HalfOpenCalls < 1 || o.HalfOpenCalls > maxTrialCalls {
		wrong("HalfOpenCalls", o.HalfOpenCalls, fmt.Sprintf("1 to %d calls", maxTrialCalls))
	}
	for i, c := range o.Codes {
		if c < 1 || c > maxCode {
			problems = append(problems, fmt.Errorf("admission: BreakerOptions.Codes[%d] is %d; allowed is 1 to %d, or no codes at all for the default", i, c, maxCode))
		}
	}
	return o, errors.Join(problems...)
}

// verdict is what an outcome counts as.
func (o *BreakerOptions) verdict(outcome Outcome) Verdict {
	if o.SlowAfter > 0 && outcome.Elapsed > o.SlowAfter {
		switch outcome.Kind {
		case OK, RemoteError, ConnectionClosed, SendFailure, Deadline:
			return Failure
		}
	}
	return o.Judge(outcome)
}

// openFor is the time that a breaker which opens now refuses calls.
func (o *BreakerOptions) openFor() time.Duration {
	if o.OpenJitter == 0 {
		return o.OpenFor
	}
	return time.Duration(float64(o.OpenFor) * (1 + o.OpenJitter*(2*rand.Float64()-1)))
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
