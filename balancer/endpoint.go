package balancer

import (
	"slices"
	"sync/atomic"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/experimental/balancer/weight"
	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
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
	id   uint32 // unlike any other endpoint's of the process, and not 0
	// member is what selection policies see of it, its counts among them.
	member *selection.Member
	// done gives back what a pick counted; made once, so that a pick allocates
	// nothing.
	done func(lb.DoneInfo)
	// guard admits attempts, nil if every attempt is admitted. Set before a pick
	// can find the endpoint.
	guard admission.Guard
	// cell is what probes found, nil if nobody probes. The policy stores, picks load.
	cell atomic.Pointer[health.Cell]

	// flags keep picks away: barred is stored by whoever enables and disables
	// endpoints, draining too, retired by the policy; picks load.
	flags atomic.Uint32
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
	// The fields below belong to the policy's goroutine.

	index   int // in the current view
	readyAt int // in the policy's table of READY endpoints, -1 if not in it
	target  resolver.Endpoint
	child   lb.Balancer        // nil until a connection is first wanted
	counted connectivity.State // the state that is in the policy's counts
	removed bool
	class   class // as counted by the policy
}

// Flags of an endpoint.
const (
	barred   = 1 << iota // disabled by an operator: no pick at all
	draining             // somebody waits until nothing is in flight
	retired              // out of the membership: no new connection
	ended                // closed
)

// endpointIDs is the id of the newest endpoint of the process.
var endpointIDs atomic.Uint32

func newEndpoint(name string) *endpoint {
	ep := &endpoint{name: name, id: endpointIDs.Add(1), counted: connectivity.Idle, readyAt: -1}
	ep.member = selection.NewMember(name, selection.Info{Weight: 1}, ep)
	ep.done = ep.ended
	ep.cur.Store(&childState{connectivity: connectivity.Idle, since: time.Now()})
	return ep
}

// level says in which round of a pick an endpoint may be chosen.
type level uint8

const (
	fit       level = iota // in the first
	unhealthy              // its probes fail, or have not passed yet
	tried                  // if there is no other: an attempt of this call was sent there
	never
)

// level is how fit ep is for an attempt of call, which may be nil.
func (ep *endpoint) level(call *callinfo.Call) level {
	if ep.flags.Load()&barred != 0 {
		return never
	}
	if call != nil && call.Tried.Has(ep.id) {
		return tried
	}
	if !ep.cell.Load().Healthy() {
		return unhealthy
	}
	return fit
}

// endpointInfo is what policies are told of an endpoint.
func endpointInfo(t resolver.Endpoint) selection.Info {
	info := selection.Info{Address: t.Addresses[0].Addr, Weight: 1}
	if t.Attributes != nil {
		info.Attributes = t.Attributes
		if w := weight.FromEndpoint(t); w != (weight.EndpointInfo{}) {
			info.Weight = w.Weight
		}
	}
	return info
}

// setTarget gives the endpoint its addresses; it says whether they changed.
func (ep *endpoint) setTarget(t resolver.Endpoint) bool {
	same := slices.EqualFunc(ep.target.Addresses, t.Addresses, resolver.Address.Equal) &&
		ep.target.Attributes.Equal(t.Attributes)
	ep.target = t
	ep.member.SetInfo(endpointInfo(t))
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
	ep.flags.Or(retired | ended)
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
