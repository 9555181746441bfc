package balancer

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

// childConn is one connection of an endpoint: a pick_first child, and the
// ClientConn that this child calls into. gRPC and pick_first call UpdateState from
// goroutines of theirs.
type childConn struct {
	lb.ClientConn
	policy   *policy
	endpoint *endpoint
	child    lb.Balancer // the policy's goroutine makes and calls it
	born     time.Time
	jitter   float64 // the age limit is multiplied by it
	// done gives back what a pick counted; made once, so that a pick allocates
	// nothing.
	done func(lb.DoneInfo)
	// watch is when the connection is held for dead, nil for never. Stored under the
	// pool's lock, loaded by picks.
	watch atomic.Pointer[Unresponsive]

	// The endpoint's pool has the lock of the fields below.

	state  lb.State
	ready  *readyConn // while READY
	last   lb.SubConn // the one of the newest connection
	since  time.Time  // when it was READY first after it was not connected, else zero
	closed bool
	// leaving is why it gets no new picks, inUse while it does.
	leaving closeReason
	// heir is the connection that takes this one's place once it is READY, and
	// replaces and because say the same of the heir.
	heir, replaces *childConn
	because        closeReason

	silence

	_      [64]byte // what picks write must not take what they read from other cores
	active atomic.Int64
	// emptying says that somebody waits for active to be 0.
	emptying atomic.Bool
	_        [64]byte
}

func newChildConn(p *policy, ep *endpoint) *childConn {
	c := &childConn{
		ClientConn: p.cc, policy: p, endpoint: ep, born: time.Now(), jitter: 0.9 + 0.2*rand.Float64(),
		state: lb.State{ConnectivityState: connectivity.Connecting}, // which it is as soon as it has a child
	}
	c.done = c.ended
	return c
}

// readyConn is a connection while it is READY. A pick's result holds it in place
// of the SubConn until the pick is sent, see endpoint.send.
type readyConn struct {
	lb.SubConn
	conn *childConn
}

// UpdateState publishes the endpoint's state: one store that picks see at once,
// and one entry in the policy's inbox.
func (c *childConn) UpdateState(s lb.State) {
	var sc lb.SubConn
	if s.ConnectivityState == connectivity.Ready {
		if res, err := s.Picker.Pick(lb.PickInfo{Ctx: context.Background()}); err == nil {
			sc = res.SubConn
		}
	}
	ep := c.endpoint
	ep.pool.mu.Lock()
	if c.closed {
		ep.pool.mu.Unlock()
		return
	}
	lost := c.state.ConnectivityState == connectivity.Ready
	c.state, c.ready = s, nil
	switch s.ConnectivityState {
	case connectivity.Ready:
		c.ready = &readyConn{sc, c}
		if sc != c.last && !c.since.IsZero() { // its address has changed
			c.disconnected(closedRemoved)
			c.window.Store(0)
		}
		c.last = sc
		c.connected()
	case connectivity.Idle:
		c.disconnected(closedLost)
	}
	old := ep.cur.Load()
	now := ep.publish()
	ep.pool.mu.Unlock()
	if lost || old.connectivity == connectivity.Ready && now.connectivity != connectivity.Ready {
		ep.leftReady.Store(true)
	}
	c.policy.endpointChanged(ep)
}

// connected counts one connection that was made. It may be READY again after it
// was unhealthy, which is the same connection.
func (c *childConn) connected() {
	if !c.since.IsZero() {
		return
	}
	c.since = time.Now()
	c.answered.Store(int64(c.since.Sub(c.born)))
	c.deadlines.Store(0)
	c.suspect.Store(false)
	c.totals().opened.Add(1)
}

func (c *childConn) disconnected(why closeReason) {
	if c.since.IsZero() {
		return
	}
	c.since = time.Time{}
	c.totals().closed[why].Add(1)
}

// nowhere is where connections of policies without a Router are counted.
var nowhere connectionTotals

func (c *childConn) totals() *connectionTotals {
	if rt := c.policy.route; rt != nil { // set before there is any connection
		return &rt.router.connectionTotals
	}
	return &nowhere
}

// update hands the endpoint's addresses to the child, which connects as soon as it
// has some.
func (c *childConn) update(p *policy) {
	state := resolver.State{Endpoints: []resolver.Endpoint{c.endpoint.target}, Attributes: p.attributes}
	// pick_first refuses only an empty list, and endpoints without addresses
	// are not taken.
	_ = c.child.UpdateClientConnState(lb.ClientConnState{ResolverState: state})
}

// ended is the end of an attempt on c that nothing else has to be remembered of.
func (c *childConn) ended(info lb.DoneInfo) {
	c.release()
	c.endpoint.ended(info)
}

// release gives back what a pick reserved. Whoever waits for c to be empty has set
// emptying before it looked at active.
func (c *childConn) release() {
	if c.active.Add(-1) == 0 && c.emptying.Load() {
		c.endpoint.wish(c.policy, tick)
	}
}
