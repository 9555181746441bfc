package balancer

import (
	"cmp"
	"slices"
	"time"
)

// scale follows the settings and the load, once there is a connection that is READY.
func (p *policy) scale(ep *endpoint, ready []*childConn, use int, wishes uint32, now time.Time, w *work) {
	pl := &ep.pool
	limits := pl.limits
	use -= pl.shed(use-limits.Max, w)
	mayOpen := !now.Before(pl.notBefore)
	more := func() {
		if pl.reuse() {
			use++
		} else if mayOpen {
			p.open(ep, nil, inUse, w)
			use++
		}
	}
	full := func(c *childConn) bool { return c.active.Load() >= int64(limits.Streams) }
	if wishes&grow != 0 && use < limits.Max && use == len(ready) && !slices.ContainsFunc(ready, func(c *childConn) bool { return !full(c) }) {
		before := use
		more()
		ready[0].totals().scaledUp.Add(uint64(use - before))
		pl.sampled = 0
	}
	for use < limits.Min {
		before := use
		if more(); use == before {
			break
		}
	}
	if need := pl.needed(ep.member.Pending(), use, now); need < use {
		pl.shed(use-need, w)
	}
}

// shed drains so many connections: those that are not READY first, then those with
// the fewest RPCs, the oldest of equals. It says how many.
func (pl *pool) shed(n int, w *work) int {
	if n <= 0 {
		return 0
	}
	var list []*childConn
	for _, c := range pl.conns {
		if c.serves() {
			list = append(list, c)
		}
	}
	load := func(c *childConn) int64 {
		if c.ready == nil {
			return -1
		}
		return c.active.Load()
	}
	slices.SortStableFunc(list, func(a, b *childConn) int { return cmp.Compare(load(a), load(b)) })
	list = list[:min(n, len(list)-1)]
	for _, c := range list {
		if c.heir != nil && c.heir.ready == nil {
			pl.stop(c.heir, closedByScaling, w)
		}
		c.leave(closedByScaling)
		c.totals().scaledDown.Add(1)
		if c.ready == nil || c.active.Load() == 0 {
			pl.stop(c, closedByScaling, w)
		}
	}
	return len(list)
}

// needed is how many connections the load needs, given how many there are. It is
// fewer only if all samples of ScaleDownAfter say so: one that is full would ask for
// another at once.
func (pl *pool) needed(pending, use int, now time.Time) int {
	if use <= pl.limits.Min {
		pl.rest()
		return use
	}
	step := max(pl.limits.ScaleDownAfter/samplesKept, time.Millisecond)
	if pl.nextSample.IsZero() {
		pl.sampled, pl.nextSample = 0, now.Add(step)
		pl.most.Store(int64(pending))
		return use
	}
	if now.Before(pl.nextSample) {
		return use
	}
	pl.nextSample = now.Add(step)
	pl.samples[pl.sampled%samplesKept] = max(int64(pending), pl.most.Swap(int64(pending)))
	if pl.sampled++; pl.sampled < samplesKept {
		return use
	}
	need := max(int(slices.Max(pl.samples[:]))/pl.limits.Streams+1, pl.limits.Min)
	if need < use {
		pl.sampled = 0
	}
	return need
}

// rest takes no samples until there is something to scale down again.
func (pl *pool) rest() { pl.sampled, pl.nextSample = 0, time.Time{} }
