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

// childState is what the child policies of an endpoint last said. Immutable.
type childState struct {
	connectivity connectivity.State
	picker       lb.Picker
	since        time.Time
}

// endpoint is one backend from name resolution, with a connection or several, each
// a pick_first child. The first is made when one is wanted (A119, interactions with
// pick_first).
type endpoint struct {
	name string
	id   uint32 // unlike any other endpoint's of the process, and not 0
	// member is what selection policies see of it, its counts among them.
	member *selection.Member
	// done gives back what a pick counted; made once, so that a pick allocates
	// nothing.
	done func(lb.DoneInfo)
	// guard admits attempts, nil if every attempt is admitted. The policy stores, picks
	// load.
	guard atomic.Pointer[admission.Guard]
	// cell is what probes found, nil if nobody probes. The policy stores, picks load.
	cell atomic.Pointer[health.Cell]

	// flags keep picks away: barred is stored by whoever enables and disables
	// endpoints, draining too, retired by the policy; picks load.
	flags atomic.Uint32
	// cur is stored by the children's state updates and loaded by picks.
	cur atomic.Pointer[childState]
	// connectAsked is set by the pick that asks for a connection and cleared by
	// the policy once it has acted, so that a crowd of picks asks once.
	connectAsked atomic.Bool
	// leftReady is set by the children's state updates when a connection stops being
	// READY, and cleared by the policy: it may be READY again when the policy looks.
	leftReady atomic.Bool
	// changePending is set while the endpoint waits in the policy's inbox.
	changePending atomic.Bool
	// The fields below belong to the policy's goroutine.

	index   int // in the current view
	readyAt int // in the policy's table of READY endpoints, -1 if not in it
	target  resolver.Endpoint
	counted connectivity.State // the state that is in the policy's counts
	removed bool
	class   class     // as counted by the policy
	dialled time.Time // when a connection was wanted last

	// pool is its connections. Last, since picks seldom look there.
	pool pool
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
	ep.pool.limits = oneConnection
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

// connect asks for a connection to ep, which has none that is READY or on its way.
func (ep *endpoint) connect(p *policy) {
	ep.dialled = time.Now()
	var w work
	var idle *childConn
	ep.pool.mu.Lock()
	for _, c := range ep.pool.conns {
		if c.leaving == inUse && (idle == nil || c.rank() > idle.rank()) {
			idle = c
		}
	}
	if idle == nil {
		p.open(ep, nil, inUse, &w)
	}
	ep.pool.mu.Unlock()
	if idle != nil {
		idle.child.ExitIdle()
	}
	p.carryOut(w)
}

// moved hands new addresses to the connections. Those that are leaving end, which
// cuts no RPC: they must not connect anew.
func (ep *endpoint) moved(p *policy) {
	var w work
	ep.pool.mu.Lock()
	for _, c := range ep.pool.conns {
		if c.leaving != inUse {
			ep.pool.stop(c, c.leaving, &w)
		}
	}
	ep.pool.mu.Unlock()
	p.carryOut(w)
	for _, c := range ep.pool.conns {
		c.update(p)
	}
}

// leaves ends what ep, which has left, must not do any more: nothing new is
// connected (field case EC-07), and picks wait for nothing new.
func (ep *endpoint) leaves(p *policy) {
	pl := &ep.pool
	ep.removed = true
	ep.flags.Or(retired)
	if pl.timer != nil {
		pl.timer.Stop()
	}
	var w work
	pl.mu.Lock()
	for _, c := range pl.conns {
		if c.leaving == inUse && c.ready == nil && len(pl.conns) > 1 {
			pl.stop(c, closedRemoved, &w)
		}
	}
	ep.publish()
	pl.mu.Unlock()
	p.carryOut(w)
}

// close ends all connections; RPCs in flight on them finish.
func (ep *endpoint) close() {
	ep.removed = true
	ep.flags.Or(retired | ended)
	pl := &ep.pool
	if pl.timer != nil {
		pl.timer.Stop()
	}
	pl.mu.Lock()
	conns := pl.conns
	for _, c := range conns {
		pl.drop(c, closedRemoved)
	}
	pl.closed = true
	pl.mu.Unlock()
	for _, c := range conns {
		if c.child != nil {
			c.child.Close()
		}
	}
}

var pickFirst = lb.Get(pickfirst.Name)
