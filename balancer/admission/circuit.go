package admission

import (
	"sync/atomic"
	"time"
)

// Circuit is the breaker of one endpoint; it is the [Guard] that a [Breaker]
// makes.
//
// Closed, it admits everything and counts. Enough failures among enough calls
// open it: it refuses everything for a time. Then it is half open: it admits a
// few trial calls, and closes when they succeed or opens again when one fails. It
// is a call that opens it or asks it that moves it on, nothing else does.
//
// A trial call that was cancelled or not sent gives its permit back. One that
// ran out of time does not, since an endpoint that hangs should not be given one
// call after the other; nor does one that is never reported. So that these cannot
// keep the breaker from closing, a permit lapses OpenFor after the last was
// granted, and another call is let through. What a call whose permit lapsed says
// in the end counts, as long as the breaker is still half open: calls that take
// longer than OpenFor close it too.
type Circuit struct {
	// phase is loaded by every pick and report; whoever moves the circuit on swaps
	// it. Phases are never used again, so a report that comes late changes at most
	// one that is over.
	phase    atomic.Pointer[phase]
	endpoint string
	breaker  *Breaker

	watcher func(Edge) // see Watch; nil without

	edges atomic.Int64 // moves that were not told to the observer yet
	told  *phase       // the last that was; the goroutine that raised edges from 0 owns it
}

// phase is one stay in a state. Its plain fields but prev do not change.
type phase struct {
	state    State
	epoch    uint64        // counts the phases of the circuit
	calls    *window       // of a closed one
	until    time.Duration // of an open one, on the breaker's clock
	openFor  time.Duration // of an open one, until until
	then     *phase        // of an open one: what follows, made here so that no pick has to
	trials   trials        // of a half-open one
	failures int           // of an open one: what opened it
	of       int
	prev     *phase // until the observer was told, whose teller clears it; nil where there is none
}

// A token holds the epoch of its phase and, in a half-open one, the round of its
// permit.
func (p *phase) token(round uint64) Token { return Token(p.epoch<<roundBits | round) }

func (t Token) epoch() uint64 { return uint64(t) >> roundBits }
func (t Token) round() uint64 { return uint64(t) & (1<<roundBits - 1) }

// TryAcquire implements [Guard]. It neither locks nor allocates, and while the
// circuit is closed it is one atomic load. The method is not looked at.
func (c *Circuit) TryAcquire(string) (Token, bool) {
	p := c.phase.Load()
	if p.state == Closed {
		return p.token(0), true
	}
	return c.tryTrial(p)
}

func (c *Circuit) tryTrial(p *phase) (Token, bool) {
	o := &c.breaker.options
	for now := o.Clock(); ; p = c.phase.Load() {
		switch p.state {
		case Closed:
			return p.token(0), true
		case HalfOpen:
			round, ok := p.trials.acquire(now, o)
			return p.token(round), ok
		}
		if now < p.until {
			return 0, false
		}
		c.move(p, p.then)
	}
}

// Report implements [Guard]. A report of an earlier phase is ignored. It does
// not lock; it allocates only when it opens or closes the circuit.
func (c *Circuit) Report(t Token, outcome Outcome) {
	p := c.phase.Load()
	if t.epoch() != p.epoch {
		return
	}
	o := &c.breaker.options
	verdict := o.verdict(outcome)
	if p.state == HalfOpen {
		switch {
		case verdict == Failure:
			c.open(p, o.Clock(), 1, p.trials.passed()+1)
		case verdict == Success:
			if p.trials.pass(t.round()) >= o.HalfOpenCalls {
				c.move(p, c.next(p, Closed))
			}
		case !outcome.timedOut():
			p.trials.giveBack(t.round())
		}
		return
	}
	if verdict == Ignore {
		return
	}
	now := o.Clock()
	at := bucketAt(now, o.Window)
	p.calls.add(at, verdict == Failure)
	if verdict != Failure {
		return // only a failure opens
	}
	failures, calls := p.calls.sum(at)
	// The quotient and the setting are both the nearest to their fraction, so that
	// 3 of 30 are 0.1; a product may be off.
	if calls >= o.MinThroughput && float64(failures)/float64(calls) >= o.FailureRatio {
		c.open(p, now, failures, calls)
	}
}

// RetryAfter implements [Guard].
func (c *Circuit) RetryAfter() time.Duration {
	o := &c.breaker.options
	switch p := c.phase.Load(); p.state {
	case Open:
		return max(0, p.until-o.Clock())
	case HalfOpen:
		return p.trials.retryAfter(o.Clock(), o)
	}
	return 0
}

// State is the state now. An open circuit whose time is over stays so until it
// is asked.
func (c *Circuit) State() State { return c.phase.Load().state }

// Watch tells f of each edge too, as BreakerOptions.Observer is told. It is called
// once at most, before the circuit is used.
func (c *Circuit) Watch(f func(Edge)) { c.watcher = f }

func (c *Circuit) observed() bool { return c.breaker.options.Observer != nil || c.watcher != nil }

// open moves from p to a phase that is open.
func (c *Circuit) open(p *phase, now time.Duration, failures, of int) {
	to := c.next(p, Open)
	to.openFor = c.breaker.options.openFor()
	to.until = now + to.openFor
	to.failures, to.of = failures, of
	to.then = c.next(to, HalfOpen)
	c.move(p, to)
}

// next is a phase that may follow p.
func (c *Circuit) next(p *phase, s State) *phase {
	to := &phase{state: s, epoch: p.epoch + 1}
	if s == Closed {
		to.calls = new(window)
	}
	if c.observed() {
		to.prev = p
	}
	return to
}

// move goes from one phase to the next, unless someone else left it first. It
// tells the observer if there is one.
func (c *Circuit) move(from, to *phase) {
	if c.phase.CompareAndSwap(from, to) && c.observed() {
		c.tell()
	}
}
