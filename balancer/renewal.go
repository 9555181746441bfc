package balancer

import (
	"slices"
	"sync/atomic"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// renew makes connections in place of those that are too old or do not answer. An
// old one goes on until its heir is READY, and of the old ones one is replaced at a
// time (row G-42).
func (p *policy) renew(ep *endpoint, ready []*childConn, now time.Time, w *work) {
	pl := &ep.pool
	if now.Before(pl.notBefore) {
		return
	}
	rolling := slices.ContainsFunc(pl.conns, func(c *childConn) bool { return c.because == closedByAge })
	var oldest *childConn
	for _, c := range ready {
		if c.heir != nil {
			continue
		}
		if u := c.watch.Load(); u == nil {
			c.suspect.Store(false)
		} else if c.suspect.Load() {
			p.open(ep, c, closedUnresponsive, w)
			c.heir.window.Store(c.nextWindow(u))
			continue
		}
		if pl.limits.MaxAge > 0 && !now.Before(c.expires(pl.limits)) && (oldest == nil || c.since.Before(oldest.since)) {
			oldest = c
		}
	}
	if oldest != nil && !rolling {
		p.open(ep, oldest, closedByAge, w)
	}
}

// expires is when c is too old. Connections that were made together do not end
// together.
func (c *childConn) expires(limits *Connections) time.Time {
	return c.since.Add(time.Duration(float64(limits.MaxAge) * c.jitter))
}

// silence is how long a connection has not answered. Times count from the
// connection's born, in nanoseconds.
type silence struct {
	answered  atomic.Int64
	deadlines atomic.Int64 // RPCs that timed out since
	window    atomic.Int64 // 0 is the settings' own
	suspect   atomic.Bool  // a fresh connection was asked for
}

// nextWindow is the window of the connection that takes this one's place.
func (s *silence) nextWindow(u *Unresponsive) int64 {
	base := int64(u.Window)
	return min(2*max(base, s.window.Load()), windowGrowth*base)
}

// heard takes the end of an attempt that began at a time, and asks for a fresh
// connection when this one has been silent for too long (row G-38).
func (c *childConn) heard(u *Unresponsive, began time.Time, info lb.DoneInfo) {
	now := int64(time.Since(c.born))
	if info.BytesReceived {
		c.answered.Store(now)
		if c.deadlines.Load() != 0 {
			c.deadlines.Store(0)
			c.suspect.Store(false) // if its heir is lost, there need not be another one
		}
		if c.window.Load() != 0 {
			c.window.Store(0)
		}
		return
	}
	answered := c.answered.Load()
	// A deadline that the server says has passed comes with bytes.
	if info.Err == nil || status.Code(info.Err) != codes.DeadlineExceeded || int64(began.Sub(c.born)) < answered {
		return
	}
	window := max(int64(u.Window), c.window.Load())
	if c.deadlines.Add(1) >= int64(u.Deadlines) && now-answered >= window && c.suspect.CompareAndSwap(false, true) {
		c.totals().unresponsive.Add(1)
		c.endpoint.wish(c.policy, tick)
	}
}
