package admission_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/admission"
)

// together runs f on n goroutines that start at once, and waits for them.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gate
			f(i)
		})
	}
	close(gate)
	wg.Wait()
}

func TestS20HalfOpenAdmitsExactlyOneOf64(t *testing.T) {
	var now atomic.Int64
	for _, calls := range []int{1, 3} {
		c := newCircuit(t, admission.BreakerOptions{
			MinThroughput: 1, HalfOpenCalls: calls,
			Clock: func() time.Duration { return time.Duration(now.Load()) },
		})
		fail := func() {
			token, _ := c.TryAcquire(method)
			c.Report(token, failed)
		}
		// admitted lets 64 ask at once and returns the tokens.
		admitted := func() (tokens []admission.Token) {
			var mu sync.Mutex
			together(64, func(int) {
				if token, ok := c.TryAcquire(method); ok {
					mu.Lock()
					defer mu.Unlock()
					tokens = append(tokens, token)
				}
			})
			if len(tokens) != calls {
				t.Fatalf("%d of 64 concurrent calls were admitted half open, want %d", len(tokens), calls)
			}
			return tokens
		}
		fail()
		for range 100 {
			now.Add(int64(10 * time.Second))
			first := admitted() // open to half open
			together(len(first), func(i int) { c.Report(first[i], notSent) })
			admitted() // given back
			now.Add(int64(11 * time.Second))
			last := admitted() // lapsed
			c.Report(last[0], failed)
		}
	}
}

// Each report counts once: with one success less than enough the last failure
// opens, whatever raced.
func TestS20ReportsCountExactlyOnce(t *testing.T) {
	const goroutines, each = 16, 200
	for _, spare := range []int{0, 1} {
		var edges []admission.Edge
		c := newCircuit(t, admission.BreakerOptions{
			MinThroughput: 2*goroutines*each + spare, FailureRatio: .5,
			Clock:    func() time.Duration { return time.Hour },
			Observer: func(e admission.Edge) { edges = append(edges, e) },
		})
		report := func(o admission.Outcome) func(int) {
			return func(int) {
				for range each {
					token, _ := c.TryAcquire(method)
					c.Report(token, o)
				}
			}
		}
		together(goroutines, report(worked))
		together(goroutines, report(failed))
		if spare == 1 {
			if len(edges) != 0 {
				t.Errorf("opened one call too early: %v", edges)
			}
			continue
		}
		if len(edges) != 1 || edges[0].Failures != goroutines*each || edges[0].Calls != 2*goroutines*each {
			t.Errorf("edges are %v, want one, with %d of %d", edges, goroutines*each, 2*goroutines*each)
		}
	}
}

// Everything at once: the observer sees one path through the states, at the end
// of which is the state, and the circuit still works.
func TestS20EdgesKeepTheirOrder(t *testing.T) {
	var now atomic.Int64
	var edges []admission.Edge // only the observer, which is never called twice at a time
	c := newCircuit(t, admission.BreakerOptions{
		MinThroughput: 1, HalfOpenCalls: 2, OpenFor: time.Millisecond,
		Clock:    func() time.Duration { return time.Duration(now.Load()) },
		Observer: func(e admission.Edge) { edges = append(edges, e) },
	})
	outcomes := []admission.Outcome{worked, failed, notSent, worked, gaveUp, late, worked}
	together(16, func(i int) {
		for n := range 2000 {
			now.Add(int64(50 * time.Microsecond))
			if token, ok := c.TryAcquire(method); ok {
				c.Report(token, outcomes[(i*7+n*n)%len(outcomes)])
			}
			c.RetryAfter()
		}
	})
	if len(edges) < 10 {
		t.Fatalf("%d edges, too few to say anything", len(edges))
	}
	state := admission.Closed
	for i, e := range edges {
		if e.From != state || e.To == state {
			t.Fatalf("edge %d is %v after %v", i, e, state)
		}
		state = e.To
	}
	if got := c.State(); got != state {
		t.Errorf("the circuit is %v, the last edge went to %v", got, state)
	}
	for range 3 { // whatever was left unreported lapses
		now.Add(int64(time.Second))
		if token, ok := c.TryAcquire(method); ok {
			c.Report(token, worked)
		}
	}
	if got := c.State(); got != admission.Closed {
		t.Errorf("the circuit is %v after three calls that worked, want closed", got)
	}
}
