package balancer

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/connectivity"
)

// pool is the connections of one endpoint. The policy's goroutine alone makes and
// ends them (scaling.go); their states come from gRPC's goroutines, and each change
// is published at once as one childState of the endpoint.
type pool struct {
	mu sync.Mutex // guards the fields up to the next comment; no child is called under it
	// conns are in the order in which they were made. The policy's goroutine changes
	// the list under mu, and reads it without.
	conns  []*childConn
	limits *Connections
	closed bool
	// notBefore holds back the next connection beside others, so that a server that
	// hangs up on each new one is not dialled all the time.
	notBefore time.Time

	// wishes are set by picks and by the ends of RPCs, and taken by the policy;
	// asked says that the endpoint waits in the inbox for that.
	wishes atomic.Uint32
	asked  atomic.Bool
	// most is the most RPCs that were in flight at once since the last sample.
	most atomic.Int64

	// The rest belongs to the policy's goroutine.

	samples    [samplesKept]int64 // values of most, the newest at sampled-1
	sampled    int
	nextSample time.Time // zero while there is nothing to scale down
	timer      *time.Timer
	due        time.Time // of the timer, zero if it does not run
}

// Wishes to the policy.
const (
	grow = 1 << iota // all connections are full
	tick             // it is time to look at them
)

// closeReason is why a connection ended or is to end.
type closeReason uint8

const (
	inUse closeReason = iota // it is not to end
	closedByScaling
	closedByAge
	closedUnresponsive
	closedRemoved
	closedLost
	closeReasons
)

var closeReasonNames = [closeReasons]string{"", "scale_down", "max_age", "unresponsive", "removed", "lost"}

// connectionTotals count over all endpoints of a Router, idle times included.
type connectionTotals struct {
	opened                       atomic.Uint64
	closed                       [closeReasons]atomic.Uint64
	scaledUp, scaledDown, reused atomic.Uint64
	unresponsive                 atomic.Uint64
}

// wish asks the policy to look at ep's connections. Any goroutine may call it.
func (ep *endpoint) wish(p *policy, what uint32) {
	ep.pool.wishes.Or(what)
	if ep.pool.asked.CompareAndSwap(false, true) {
		p.add(&p.inbox.tend, ep)
	}
}

func (pl *pool) setLimits(limits *Connections) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.limits = limits
	for _, c := range pl.conns {
		pl.watch(c)
	}
}

// watch gives c the settings by which it is held for dead. pl.mu is held.
func (pl *pool) watch(c *childConn) {
	if u := &pl.limits.Unresponsive; u.Deadlines > 0 {
		c.watch.Store(u)
	} else {
		c.watch.Store(nil)
	}
}

// add puts a new connection into the pool. pl.mu is held.
func (pl *pool) add(c *childConn) {
	pl.watch(c)
	pl.conns = append(slices.Clip(pl.conns), c)
}

// drop takes c out and counts why. pl.mu is held.
func (pl *pool) drop(c *childConn, why closeReason) {
	c.unlink()
	c.closed, c.ready = true, nil
	c.disconnected(why)
	pl.conns = slices.DeleteFunc(slices.Clone(pl.conns), func(o *childConn) bool { return o == c })
}

// unlink ends what c is to another connection. The pool's lock is held.
func (c *childConn) unlink() {
	if c.heir != nil {
		c.heir.replaces, c.heir.because, c.heir = nil, inUse, nil
	}
	if c.replaces != nil {
		c.replaces.heir, c.replaces, c.because = nil, nil, inUse
	}
}

// leave drains c: it gets no new picks, and ends when it is empty. The pool's lock
// is held.
func (c *childConn) leave(why closeReason) {
	c.unlink()
	c.leaving = why
	c.emptying.Store(true)
}

// stay ends that. The pool's lock is held.
func (c *childConn) stay() {
	c.leaving = inUse
	c.emptying.Store(false)
}

// serves says whether c counts: it is not leaving and not an heir that waits. The
// pool's lock is held.
func (c *childConn) serves() bool { return c.leaving == inUse && c.replaces == nil }

// rank orders connections by how much can be hoped of them.
func (c *childConn) rank() int {
	switch c.state.ConnectivityState {
	case connectivity.Ready:
		return 3
	case connectivity.Connecting:
		return 2
	case connectivity.Idle:
		return 1
	}
	return 0
}

// growPatience bounds how long RPCs wait for a connection beside those that are
// full. An unreachable port must not hold up what a busy connection could carry.
const growPatience = time.Second

// publish stores what picks see of ep and returns it: READY if any connection is,
// else CONNECTING if any is, else IDLE if any is, else the failure of the first. One
// that fails beside a READY one is nobody's concern (field case EC-05). ep.pool.mu
// is held.
func (ep *endpoint) publish() *childState {
	pl := &ep.pool
	old := ep.cur.Load()
	if pl.closed || len(pl.conns) == 0 {
		return old
	}
	var best *childConn
	var ready []*readyConn
	use, pending := 0, 0
	var until time.Time // picks wait for those on their way
	for _, c := range pl.conns {
		if c.leaving != inUse {
			continue
		}
		if best == nil || c.rank() > best.rank() {
			best = c
		}
		if c.replaces == nil {
			use++
			if c.ready == nil {
				pending++
				if patience := c.born.Add(growPatience); c.state.ConnectivityState == connectivity.Connecting && patience.After(until) {
					until = patience
				}
			}
		}
		if c.ready != nil && (c.heir == nil || c.heir.ready == nil) {
			ready = append(ready, c.ready)
		}
	}
	if best == nil { // cannot be: one always stays
		return old
	}
	now := time.Now()
	next := &childState{connectivity: best.state.ConnectivityState, picker: best.state.Picker, since: now}
	if len(ready) > 1 || len(ready) == 1 && pl.limits.counted() {
		s := &spread{endpoint: ep, policy: best.policy, ready: ready, until: until}
		if pl.limits.Max > 1 {
			s.full = int64(pl.limits.Streams)
			s.room = pending == 0 && use < pl.limits.Max && !now.Before(pl.notBefore) && ep.flags.Load()&retired == 0
		}
		next.picker = s
	}
	if old.connectivity == next.connectivity {
		next.since = old.since
	}
	ep.cur.Store(next)
	return next
}
