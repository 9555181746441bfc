package balancer

import (
	"slices"
	"sync/atomic"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

// childState is what the child policy of an endpoint last said. Immutable.
type childState struct {
	connectivity connectivity.State
	picker       lb.Picker
	since        time.Time
}

// endpoint is one backend from name resolution, with a pick_first child that
// is made when a connection is first wanted (A119, interactions with
// pick_first).
type endpoint struct {
	name string

	// cur is stored by the child's state updates and loaded by picks.
	cur atomic.Pointer[childState]
	// connectAsked is set by the pick that asks for a connection and cleared by
	// the policy once it has acted, so that a crowd of picks asks once.
	connectAsked atomic.Bool
	// leftReady is set by the child's state updates when the endpoint stops being
	// READY, and cleared by the policy: it may be READY again when the policy looks.
	leftReady atomic.Bool
	// changePending is set while the endpoint waits in the policy's inbox.
	changePending atomic.Bool
	// addr is the first address, for operators.
	addr atomic.Pointer[string]

	// The fields below belong to the policy's goroutine.

	index   int // in the current view
	target  resolver.Endpoint
	child   lb.Balancer        // nil until a connection is first wanted
	counted connectivity.State // the state that is in the policy's counts
	removed bool

	// picks counts the picks that chose this endpoint. Last, for its padding keeps
	// the fields above apart from what picks write.
	picks tally
}

func newEndpoint(name string) *endpoint {
	ep := &endpoint{name: name, counted: connectivity.Idle}
	ep.cur.Store(&childState{connectivity: connectivity.Idle, since: time.Now()})
	return ep
}

// setTarget gives the endpoint its addresses; it says whether they changed.
func (ep *endpoint) setTarget(t resolver.Endpoint) bool {
	same := slices.EqualFunc(ep.target.Addresses, t.Addresses, resolver.Address.Equal) &&
		ep.target.Attributes.Equal(t.Attributes)
	ep.target = t
	ep.addr.Store(&t.Addresses[0].Addr)
	return !same
}

// connect asks the child for a connection, making the child first if need be.
func (ep *endpoint) connect(p *policy) {
	if ep.child != nil {
		ep.child.ExitIdle()
		return
	}
	ep.child = pickFirst.Build(&childConn{ClientConn: p.cc, policy: p, endpoint: ep}, p.opts)
	ep.updateChild(p) // pick_first connects as soon as it is given its endpoint
}

// updateChild hands the current addresses to the child.
func (ep *endpoint) updateChild(p *policy) {
	state := resolver.State{Endpoints: []resolver.Endpoint{ep.target}, Attributes: p.attributes}
	// pick_first refuses only an empty list, and endpoints without addresses
	// are not taken.
	_ = ep.child.UpdateClientConnState(lb.ClientConnState{ResolverState: state})
}

// mayAnswer says whether the connection that a pick asked ep for is still on its
// way, so that a change that wakes queued picks lies ahead. The wish is loaded
// before the state, because the policy clears it after it has acted.
func (ep *endpoint) mayAnswer() bool {
	asked := ep.connectAsked.Load()
	switch ep.cur.Load().connectivity {
	case connectivity.Connecting:
		return true
	case connectivity.Idle:
		return asked
	}
	return false
}

// close ends the child; RPCs in flight on its connection finish.
func (ep *endpoint) close() {
	ep.removed = true
	if ep.child != nil {
		ep.child.Close()
	}
}

var pickFirst = lb.Get(pickfirst.Name)

// childConn is the ClientConn of one endpoint's child. gRPC and pick_first
// call UpdateState from goroutines of theirs.
type childConn struct {
	lb.ClientConn
	policy   *policy
	endpoint *endpoint
}

// UpdateState publishes the endpoint's state: one store that picks see at once,
// and one entry in the policy's inbox.
func (c *childConn) UpdateState(s lb.State) {
	next := &childState{connectivity: s.ConnectivityState, picker: s.Picker, since: time.Now()}
	old := c.endpoint.cur.Load()
	if old.connectivity == s.ConnectivityState {
		next.since = old.since
	}
	c.endpoint.cur.Store(next)
	if old.connectivity == connectivity.Ready {
		c.endpoint.leftReady.Store(true)
	}
	c.policy.endpointChanged(c.endpoint)
}
