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
	runtime.KeepAlive(s) // see bygone
}

// refused counts a candidate of such a pick.
func (s *Selector) refused() {
	s.counts.refused.Add(1)
	runtime.KeepAlive(s)
}

// bygone is what the picks of selectors have counted that were removed. A pick that
// had found its selector before counts when it is over, so the counters stay apart
// until nobody has the selector any more, which the garbage collector knows. So picks
// keep their selector alive until they have counted. The Router's mu guards it.
type bygone struct {
	total counters
	late  map[*counters]struct{}
}

// part takes over the counters of a selector that is removed. Called under mu.
func (r *Router) part(s *Selector) {
	if r.bygone.late == nil {
		r.bygone.late = make(map[*counters]struct{})
	}
	r.bygone.late[s.counts] = struct{}{}
	runtime.AddCleanup(s, r.forgotten, s.counts)
}

// forgotten adds up the counters of a selector that nobody has any more.
func (r *Router) forgotten(c *counters) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bygone.total.add(c)
	delete(r.bygone.late, c)
}

// counts is their sum.
func (b *bygone) counts() PickCounts {
	n := b.total.counts()
	for c := range b.late {
		n.add(c.counts())
	}
	return n
}

// faults count what the name resolver got wrong, and updates what it said.
type faults struct {
	updates, resolverErrors, emptyUpdates, configErrors atomic.Uint64
}
