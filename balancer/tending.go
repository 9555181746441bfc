package balancer

import (
	"slices"
	"time"

	"google.golang.org/grpc/connectivity"
)

// This file is the part of the policy that looks after the connections of an
// endpoint. All of it belongs to the policy's goroutine.

const (
	// reconnectGap is the least time between two connections of which the first was
	// lost.
	reconnectGap = time.Second
	// samplesKept is into how many samples ScaleDownAfter is divided.
	samplesKept = 4
)

// work is what follows from a look at a pool, for when its lock is free again: no
// child is called under it.
type work struct{ start, stop []*childConn }

// tend looks at ep's connections: after each change of state, when a pick or the end
// of an RPC asked for it, and when a timer says so.
func (p *policy) tend(ep *endpoint) {
	pl := &ep.pool
	if len(pl.conns) == 0 || pl.closed {
		return
	}
	wishes := pl.wishes.Load()
	if len(pl.conns) == 1 && wishes == 0 && !pl.limits.counted() && pl.limits.Min == 1 {
		return
	}
	pl.wishes.And(^wishes)
	var w work
	now := time.Now()
	pl.mu.Lock()
	pl.settle(&w)
	if !ep.removed {
		if ready, use := pl.serving(); len(ready) > 0 {
			p.renew(ep, ready, now, &w)
			p.scale(ep, ready, use, wishes, now, &w)
		} else {
			pl.rest() // else the next sample would be due for ever
		}
	}
	ep.publish()
	due := pl.nextDue(now)
	pl.mu.Unlock()
	p.carryOut(w)
	p.useful = p.useful || wishes != 0 || len(w.start) > 0 // RPCs may wait for this answer
	if !ep.removed {
		p.schedule(ep, due, now)
	}
}

// carryOut makes and closes children.
func (p *policy) carryOut(w work) {
	for _, c := range w.stop {
		if c.child != nil {
			c.child.Close() // RPCs in flight finish
		}
		p.mustReport = true // a pick may hold it
	}
	for _, c := range w.start {
		c.child = pickFirst.Build(c, p.opts)
		c.update(p)
	}
}

// schedule has ep looked at again when something is due.
func (p *policy) schedule(ep *endpoint, due, now time.Time) {
	pl := &ep.pool
	if due.Equal(pl.due) && due.After(now) {
		return
	}
	pl.due = due
	switch {
	case due.IsZero():
		if pl.timer != nil {
			pl.timer.Stop()
		}
	case pl.timer == nil:
		pl.timer = time.AfterFunc(due.Sub(now), func() { ep.wish(p, tick) })
	default:
		pl.timer.Reset(due.Sub(now))
	}
}

// settle brings the list up to what has happened to its connections. What is
// leaving goes when it is empty; an heir that is READY takes its place; of several
// of which none is READY one stays, as an endpoint with one connection would be; one
// that was lost beside a READY one is given up.
func (pl *pool) settle(w *work) {
	pl.takeBack()
	var keep *childConn // where none is READY
	ready := false
	for _, c := range pl.conns {
		if c.leaving == inUse {
			ready = ready || c.ready != nil
			if keep == nil || c.rank() > keep.rank() {
				keep = c
			}
		}
	}
	for _, c := range pl.conns {
		switch {
		case c.closed: // it went with another
		case c.leaving != inUse:
			if c.ready == nil || c.active.Load() == 0 {
				pl.stop(c, c.leaving, w)
			}
		case !ready:
			if c != keep {
				pl.stop(c, closedByScaling, w)
			}
		case c.replaces != nil && c.ready != nil:
			old, why := c.replaces, c.because
			old.leave(why)
			if old.ready == nil || old.active.Load() == 0 {
				pl.stop(old, why, w)
			}
		case c.state.ConnectivityState == connectivity.Idle:
			pl.notBefore = c.born.Add(reconnectGap)
			pl.stop(c, closedLost, w)
		}
	}
	if keep != nil && !ready {
		keep.unlink()
	}
}

// takeBack uses a connection again that was to go for want of load, when it is the
// only one that is READY.
func (pl *pool) takeBack() {
	for _, c := range pl.conns {
		if c.leaving == inUse && c.ready != nil {
			return
		}
	}
	pl.reuse()
}

// reuse keeps the newest connection that was to go for want of load and is READY;
// it says whether there was one.
func (pl *pool) reuse() bool {
	for _, c := range slices.Backward(pl.conns) {
		if c.leaving == closedByScaling && c.ready != nil {
			c.stay()
			c.totals().reused.Add(1)
			return true
		}
	}
	return false
}

func (pl *pool) stop(c *childConn, why closeReason, w *work) {
	if i := slices.Index(w.start, c); i >= 0 {
		w.start = slices.Delete(w.start, i, i+1) // it has no child yet
	} else {
		w.stop = append(w.stop, c)
	}
	pl.drop(c, why)
}

// serving returns the connections that picks may use, and how many there are with
// those that are on their way.
func (pl *pool) serving() (ready []*childConn, use int) {
	for _, c := range pl.conns {
		if !c.serves() {
			continue
		}
		use++
		if c.ready != nil {
			ready = append(ready, c)
		}
	}
	return ready, use
}

// open makes one more connection, in place of old unless that is nil.
func (p *policy) open(ep *endpoint, old *childConn, why closeReason, w *work) {
	c := newChildConn(p, ep)
	if old != nil {
		old.heir, c.replaces, c.because = c, old, why
	}
	ep.pool.add(c)
	w.start = append(w.start, c)
}

// nextDue is when the pool is to be looked at again though nothing happens, zero for
// never. pl.mu is held.
func (pl *pool) nextDue(now time.Time) (due time.Time) {
	at := func(t time.Time) {
		if due.IsZero() || t.Before(due) {
			due = t
		}
	}
	if !pl.nextSample.IsZero() {
		at(pl.nextSample)
	}
	if pl.notBefore.After(now) {
		at(pl.notBefore)
	}
	if pl.limits.MaxAge > 0 && !slices.ContainsFunc(pl.conns, func(c *childConn) bool { return c.because == closedByAge }) {
		for _, c := range pl.conns {
			if c.serves() && c.ready != nil && c.heir == nil {
				if t := c.expires(pl.limits); t.After(pl.notBefore) {
					at(t)
				} else {
					at(pl.notBefore)
				}
			}
		}
	}
	return due
}
