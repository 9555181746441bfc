package balancer

import (
	"fmt"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/balancer/assignment"
)

// view is the endpoints of one resolver update, in its order.
type view struct {
	endpoints []*endpoint
	byName    map[string]*endpoint
	// ready and idle hold positions in endpoints. They trail the endpoints' own
	// states by a moment: the policy's goroutine stores, picks load.
	ready, idle *bitset
	// failing and connecting count the endpoints in TRANSIENT_FAILURE and in
	// CONNECTING, likewise.
	failing, connecting atomic.Int32
}

// published is what picks read: one immutable value behind one pointer. The
// policy's goroutine makes a new one when the assignment, the endpoint list or
// the config changes, never when an endpoint's state does.
type published struct {
	// fail, if set, is the answer to every pick.
	fail error

	target string // the channel's, for errors
	route  *route // nil before the first update
	config *Config
	// oldHeaders are the key headers of earlier configs, for calls that put their
	// key on the wire while one was in force.
	oldHeaders []string
	phase      assignment.Phase
	err        error                  // why there is no assignment, in phase Failed
	slices     *assignment.Assignment // in phase Assigned
	view       *view
	// byDefault is what the default selector has in force while nobody has published
	// a policy: it goes with config, of which two policies on one Router have two.
	byDefault *inForce
	// owners maps positions in the assignment's endpoint list to live endpoints;
	// nil where the resolver does not know the name (A119: dropped).
	owners []*endpoint
	// unknown counts the entries of owners that are nil.
	unknown int
}

// own is what picks by p use where a selector has f in force.
func (p *published) own(f *inForce) *inForce {
	if f.rule.source == FromDefault && p.byDefault != nil {
		return p.byDefault
	}
	return f
}

// resolveOwners fills the small table between the assignment and the view. It
// is the only work a resolver update costs the assignment: the key index stays.
func (p *published) resolveOwners() {
	if p.slices == nil {
		return
	}
	p.owners = make([]*endpoint, len(p.slices.Endpoints))
	for i, name := range p.slices.Endpoints {
		p.owners[i] = p.view.byName[name]
		if p.owners[i] == nil {
			p.unknown++
		}
	}
}

// routable says whether an RPC with some key can be routed.
func (p *published) routable() bool {
	switch {
	case p.fail != nil:
		return false
	case !p.config.Sharded():
		return true
	case p.phase == assignment.Failed:
		return p.config.EnableFallback
	case p.phase != assignment.Assigned:
		return false
	}
	return p.config.EnableFallback || p.unknown < len(p.owners)
}

// strangers says which names do not match, with one of each side. It is only
// asked when some are unknown.
func (p *published) strangers() string {
	theirs := p.slices.Endpoints[slices.Index(p.owners, nil)]
	ours := "none"
	if len(p.view.endpoints) > 0 {
		ours = fmt.Sprintf("%q", p.view.endpoints[0].name)
	}
	return fmt.Sprintf("%d of %d endpoints of the assignment are unknown to the name resolver: the assignment names %q, the resolver %s; "+
		"both have to use the hostname attribute, or, where the resolver sets none, the first address",
		p.unknown, len(p.owners), theirs, ours)
}

// namedEndpoint is one usable endpoint of a resolver update.
type namedEndpoint struct {
	name   string
	target resolver.Endpoint
}

// usableEndpoints returns the endpoints of s, copied and in order: those without
// addresses are skipped, of several with one name the first one stays.
func usableEndpoints(s resolver.State) []namedEndpoint {
	names := endpointNames(s)
	if a := attachedFrom(s); a != nil {
		a.restore(names, s.Endpoints)
	}
	seen := make(map[string]bool, len(s.Endpoints))
	usable := make([]namedEndpoint, 0, len(s.Endpoints))
	for i, e := range s.Endpoints {
		if len(e.Addresses) == 0 || seen[names[i]] {
			continue
		}
		seen[names[i]] = true
		e.Addresses = slices.Clone(e.Addresses)
		usable = append(usable, namedEndpoint{names[i], e})
	}
	return usable
}

// newView makes a view over eps and gives each its index. Called by the
// policy's goroutine with endpoints whose counted state is current.
func newView(eps []*endpoint) *view {
	v := &view{
		endpoints: eps,
		byName:    make(map[string]*endpoint, len(eps)),
		ready:     newBitset(len(eps)),
		idle:      newBitset(len(eps)),
	}
	for i, ep := range eps {
		ep.index = i
		v.byName[ep.name] = ep
		v.mark(ep, ep.usable(false))
		v.count(ep.counted, 1)
	}
	return v
}

// count adds n to the endpoints in a state.
func (v *view) count(state connectivity.State, n int32) {
	switch state {
	case connectivity.TransientFailure:
		v.failing.Add(n)
	case connectivity.Connecting:
		v.connecting.Add(n)
	}
}

// mark stores ep's counted state in the sets. One that is not usable is in none.
func (v *view) mark(ep *endpoint, usable bool) {
	ready := usable && ep.counted == connectivity.Ready
	// One that is unhealthy may be connected: else its probes could never tell better.
	idle := ep.flags.Load()&barred == 0 && ep.counted == connectivity.Idle
	if idle { // into one set before out of the other: a pick must find it somewhere
		v.idle.set(ep.index, true)
	}
	v.ready.set(ep.index, ready)
	v.idle.set(ep.index, idle)
}
