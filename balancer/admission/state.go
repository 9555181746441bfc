package admission

import (
	"fmt"
	"time"
)

// State is what a [Circuit] does with calls.
type State uint8

// The states.
const (
	Closed   State = iota // admits all
	HalfOpen              // admits trial calls
	Open                  // refuses all
)

// String is the name for logs and labels.
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case HalfOpen:
		return "half_open"
	case Open:
		return "open"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Edge is one change of a circuit's state.
//
// The observer is told each edge once, those of one endpoint in order and one at
// a time, those of different endpoints concurrently. It is called with no lock
// held, by the goroutine of an RPC and maybe inside a pick, so it must not
// block; it may use the circuit, and what that changes is told after it returns.
// A panic of it is not recovered here; the next edge is told again.
type Edge struct {
	Endpoint string
	From, To State
	// Failures of Calls are what opened it; 0 unless To is Open.
	Failures, Calls int
	// RetryAfter is how long it will refuse; 0 unless To is Open.
	RetryAfter time.Duration
}

// String is a sentence for logs.
func (e Edge) String() string {
	s := fmt.Sprintf("breaker of %s: %v to %v", e.Endpoint, e.From, e.To)
	if e.To == Open {
		s += fmt.Sprintf(", %d of %d calls failed, next trial in %v", e.Failures, e.Calls, e.RetryAfter)
	}
	return s
}

// tell tells the observer of a move, or leaves it to the goroutine that is
// telling now, which sees that there is one more.
func (c *Circuit) tell() {
	if c.edges.Add(1) > 1 {
		return
	}
	n := int64(1)
	defer func() {
		if n > 0 { // the observer panicked
			c.edges.Store(0)
		}
	}()
	for ; n > 0; n = c.edges.Add(-n) {
		c.tellUpTo(c.phase.Load())
	}
}

// tellUpTo tells the edges from the last told to p, oldest first. Telling may
// find more than it was raised for; the rounds for those find nothing.
func (c *Circuit) tellUpTo(p *phase) {
	if p == c.told {
		return
	}
	c.tellUpTo(p.prev)
	e := Edge{Endpoint: c.endpoint, From: p.prev.state, To: p.state, Failures: p.failures, Calls: p.of}
	if p.state == Open {
		e.RetryAfter = p.openFor
	}
	p.prev = nil
	c.told = p
	if c.watcher != nil {
		c.watcher(e)
	}
	if c.breaker.options.Observer != nil {
		c.breaker.options.Observer(e)
	}
}
