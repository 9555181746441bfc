package balancer

import (
	"runtime"
	"sync/atomic"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// counters count what became of the picks of one selector. They belong to the
// Router, so they go on over idle mode. Picks add from any goroutine.
type counters struct {
	ready     tally // chose an endpoint
	queued    atomic.Uint64
	failed    atomic.Uint64
	dropped   atomic.Uint64
	keyless   atomic.Uint64 // chose any endpoint because keys are optional
	refused   atomic.Uint64 // candidates that admission refused
	retries   atomic.Uint64 // chose an endpoint for a call that had been sent before
	fallbacks [reasons]atomic.Uint64
}

// add adds what another has counted.
func (c *counters) add(o *counters) {
	c.ready.addMany(o.ready.load())
	c.queued.Add(o.queued.Load())
	c.failed.Add(o.failed.Load())
	c.dropped.Add(o.dropped.Load())
	c.keyless.Add(o.keyless.Load())
	c.refused.Add(o.refused.Load())
	c.retries.Add(o.retries.Load())
	for i := range c.fallbacks {
		c.fallbacks[i].Add(o.fallbacks[i].Load())
	}
}

// sent counts an attempt of a pick that has no more of s than its plan.
func (s *Selector) sent(call *callinfo.Call, ep *endpoint) {
	s.counts.sent(call, ep)
	runtime.KeepAlive(s) // see removedCounts
}

// refused counts a candidate of such a pick.
func (s *Selector) refused() {
	s.counts.refused.Add(1)
	runtime.KeepAlive(s)
}

// faults count what the name resolver got wrong, and updates what it said.
type faults struct {
	updates, resolverErrors, emptyUpdates, configErrors atomic.Uint64
}

// removedCounts is what selectors had counted that are removed. The Router's mu
// guards it.
type removedCounts struct {
	sum counters
	// open are counts that may still grow: a pick that began before the removal, or a
	// user's handle, still leads to their selector. Picks keep their selector alive until
	// they have counted.
	open map[*counters]bool
}

// keep takes in the counts of s, which is removed. They are added up once nothing
// can lead a pick to s any more.
func (rc *removedCounts) keep(r *Router, s *Selector) {
	if rc.open == nil {
		rc.open = make(map[*counters]bool)
	}
	rc.open[s.counts] = true
	runtime.AddCleanup(s, func(c *counters) {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(rc.open, c)
		rc.sum.add(c)
	}, s.counts)
}

func (rc *removedCounts) counts() PickCounts {
	total := rc.sum.counts()
	for c := range rc.open {
		total.add(c.counts())
	}
	return total
}
