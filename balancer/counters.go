package balancer

import "sync/atomic"

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

// faults count what the name resolver got wrong, and updates what it said.
type faults struct {
	updates, resolverErrors, emptyUpdates, configErrors atomic.Uint64
}
