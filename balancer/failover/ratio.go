package failover

import (
	"sync/atomic"
	"time"
)

// Ratio judges a target by the share of its calls that fail (G-50): the signal
// [ByErrorRatio] of a [Machine].
//
// Any number of goroutines may call [Ratio.Record] and [Ratio.Counts] at any time.
// The other methods belong to one goroutine, the one that drives the machine. When
// Record says so, it calls [Ratio.Judge] and tells the machine the verdict, and it
// does so when [Ratio.Next] is due and after each [Ratio.Probed].
//
// A target is condemned when enough calls of the window failed. It's good again
// when it has been condemned for the hold, and as many probes in a row have passed
// as the options say; then the window starts empty (G-51, G-52). All a condemned
// target's calls may say is in [Ratio.Counts]; they do not bring it back.
type Ratio struct {
	// measure is loaded by each call; SetOptions stores it.
	measure atomic.Pointer[measure]
	// told says that a Record has asked for a Judge that has not come yet. Of many
	// calls that fail at once, the first asks.
	told atomic.Bool
	// out is whether the target is condemned; Judge stores it.
	out atomic.Bool

	start    time.Time // bucket numbers count from here
	since    time.Time // of the verdict
	until    time.Time // while condemned: the end of the hold
	returned time.Time // when it was last good again; else zero
	doubled  int       // how often the hold is doubled
	passed   int       // probes in a row
}

// measure is how calls are counted. Its fields do not change, what ring points to
// does.
type measure struct {
	options  RatioOptions
	failures uint64        // the codes as a set, see RatioOptions.failures
	step     time.Duration // of a bucket
	ring     *ring
}

func (o RatioOptions) measure(counted *ring) *measure {
	return &measure{options: o, failures: o.failures(), step: o.Window / buckets, ring: counted}
}

// NewRatio makes a Ratio whose window is empty and whose verdict is good. It is an
// error if a setting is not allowed.
func NewRatio(o RatioOptions, now time.Time) (*Ratio, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Ratio{start: now, since: now}
	r.measure.Store(o.measure(new(ring)))
	return r, nil
}

// Record counts a call that ended with a gRPC status code. One that its caller
// cancelled says nothing of the target and is not counted (G-55). It says whether
// it is time for [Ratio.Judge]. It neither locks nor allocates.
func (r *Ratio) Record(code uint32, callerCancelled bool, now time.Time) (judge bool) {
	if callerCancelled {
		return false
	}
	m := r.measure.Load()
	failed := code <= maxCode && m.failures>>code&1 == 1
	at := r.bucket(m, now)
	m.ring.add(at, failed)
	// Only a failure condemns. It is counted before it is summed, so that of several
	// that race the last to be counted sees all.
	if !failed || r.out.Load() || r.told.Load() || !m.condemns(m.ring.sum(at)) {
		return false
	}
	return r.told.CompareAndSwap(false, true)
}

// Judge is the verdict now. Told that a target is good, a machine that knows so
// does nothing; the same for bad.
func (r *Ratio) Judge(now time.Time) (good bool) {
	m := r.measure.Load()
	// Before summing, so that a failure that's not in the sum asks again.
	r.told.Store(false)
	switch out := r.out.Load(); {
	case !out && m.condemns(m.ring.sum(r.bucket(m, now))):
		r.condemn(m, now)
	case out && !now.Before(r.until) && (m.options.OnTrial || r.passed >= m.options.Probes):
		m.ring.clear()
		r.since, r.returned = now, now
		r.out.Store(false)
	}
	return !r.out.Load()
}

func (r *Ratio) condemn(m *measure, now time.Time) {
	switch again := !r.returned.IsZero() && now.Sub(r.returned) <= m.options.Window; {
	case !again:
		r.doubled = 0
	case r.doubled < maxDoublings:
		r.doubled++
	}
	r.since, r.passed = now, 0
	r.until = now.Add(r.hold(m))
	r.out.Store(true)
}

func (r *Ratio) hold(m *measure) time.Duration { return m.options.Hold << r.doubled }

// Probed tells how a probe of the target ended, and is the verdict after it. A
// probe counts while the target is condemned, before the hold is over too.
func (r *Ratio) Probed(ok bool, now time.Time) (good bool) {
	switch {
	case !ok || !r.out.Load():
		r.passed = 0
	default:
		r.passed++
	}
	return r.Judge(now)
}

// Next is when Judge is due, false while only calls and probes can change the
// verdict.
func (r *Ratio) Next() (time.Time, bool) {
	o := &r.measure.Load().options
	if !r.out.Load() || !(o.OnTrial || r.passed >= o.Probes) {
		return time.Time{}, false
	}
	return r.until, true
}

// SetOptions changes the settings and is the verdict under them. A hold that is
// running ends as if the new one had been there when it began. Another Window
// starts empty; a verdict and passed probes stay. If a setting is not allowed,
// nothing changes.
func (r *Ratio) SetOptions(o RatioOptions, now time.Time) (good bool, err error) {
	o, err = o.withDefaults()
	if err != nil {
		return !r.out.Load(), err
	}
	counted := new(ring)
	if old := r.measure.Load(); old.options.Window == o.Window {
		counted = old.ring
	}
	m := o.measure(counted)
	r.measure.Store(m)
	if r.out.Load() {
		r.until = r.since.Add(r.hold(m))
	}
	return r.Judge(now), nil
}

// Counts are the calls in the window that ends now and how many of them failed.
// Each counts once; a very busy window counts a share of its calls.
func (r *Ratio) Counts(now time.Time) (failures, calls int) {
	m := r.measure.Load()
	return m.ring.sum(r.bucket(m, now))
}

// RatioState is what a [Ratio] knows.
type RatioState struct {
	Condemned bool
	Since     time.Time     // of the verdict
	Until     time.Time     // of the hold, while condemned; else zero
	Hold      time.Duration // how long that is
	Passed    int           // probes in a row, while condemned
	Failures  int           // in the window
	Calls     int           // in the window
	Ratio     float64       // failures by calls; 0 of none
}

// State is what is known now.
func (r *Ratio) State(now time.Time) RatioState {
	s := RatioState{Condemned: r.out.Load(), Since: r.since}
	if s.Condemned {
		s.Until, s.Hold, s.Passed = r.until, r.hold(r.measure.Load()), r.passed
	}
	if s.Failures, s.Calls = r.Counts(now); s.Calls > 0 {
		s.Ratio = float64(s.Failures) / float64(s.Calls)
	}
	return s
}

func (r *Ratio) bucket(m *measure, now time.Time) uint64 {
	return uint64(max(0, now.Sub(r.start)) / m.step)
}

func (m *measure) condemns(failures, calls int) bool {
	// The quotient and the setting are both the nearest to their fraction; a product
	// may be off.
	return failures >= m.options.MinFailures && float64(failures)/float64(calls) >= m.options.Threshold
}
