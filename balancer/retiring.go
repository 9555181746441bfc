package balancer

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/connectivity"
)

// retiree is an endpoint that has left while data of a selector still leads to it.
// Retirees belong to the policy's goroutine.
type retiree struct {
	endpoint   *endpoint
	generation uint64 // of the first membership without it
	until      time.Time
}

// leave closes the endpoints that are gone, or has them wait until no selector's
// data leads to them (seed row P-08): gRPC would close their connections, and a
// pick by older data would fail.
func (p *policy) leave(gone []*endpoint) {
	generation := p.route.endpoints.Load().generation
	if len(gone) == 0 {
		return
	}
	if p.route.caughtUp(generation) {
		for _, ep := range gone {
			ep.close()
		}
		p.route.router.left.prune()
		return
	}
	wait := p.route.router.live.Load().retireTimeout
	for _, ep := range gone {
		ep.leaves(p)
		p.retiring = append(p.retiring, retiree{ep, generation, time.Now().Add(wait)})
	}
	if p.retireTimer == nil {
		p.retireTimer = time.AfterFunc(wait, func() { p.post(func(in *inbox) { in.retired = true }) })
	}
	p.barRetiring()
	p.retire(false)
}

// barRetiring bars those that were disabled after they had left.
func (p *policy) barRetiring() {
	for _, r := range p.retiring {
		if _, off := (*p.route.router.disabled.Load())[r.endpoint.name]; off {
			r.endpoint.flags.Or(barred)
		}
	}
}

// retire closes endpoints that no data leads to any more, those that are too many,
// which are the ones that left first (seed row S-25), and, if overdue is set, those
// whose time is over.
func (p *policy) retire(overdue bool) {
	if len(p.retiring) == 0 {
		return
	}
	now := time.Now()
	closing := false
	select {
	case <-p.closing:
		closing = true
	default:
	}
	tooMany := len(p.retiring) - p.maxRetiring()
	p.retiring = slices.DeleteFunc(p.retiring, func(r retiree) bool {
		over := closing || tooMany > 0 || overdue && !now.Before(r.until) || p.route.caughtUp(r.generation)
		if over {
			tooMany--
			r.endpoint.close()
			// Data from before may still lead to it: its child says no more, and picks must
			// not wait for a connection that is closed.
			r.endpoint.cur.Store(&childState{connectivity: connectivity.Shutdown, since: now})
			p.mustReport = true
		}
		return over
	})
	p.route.router.left.prune()
}

// maxRetiring is how many endpoints may retire at once.
func (p *policy) maxRetiring() int {
	if n := p.route.router.options.MaxRetiring; n > 0 {
		return n
	}
	return max(leastMaxRetiring, len(p.view.endpoints))
}

// leastMaxRetiring is what RouterOptions.MaxRetiring is at least by default.
const leastMaxRetiring = 64

// departed are endpoints that have left and are not over: older data leads to them,
// or RPCs are in flight there. Any goroutine may use it.
type departed struct {
	mu        sync.Mutex // guards endpoints
	endpoints []*endpoint
}

// over says whether an endpoint that has left is closed and nothing is in flight
// there. A pick by an older view may still count for a moment; gRPC sends it
// elsewhere.
func over(ep *endpoint) bool { return ep.flags.Load()&ended != 0 && ep.member.Pending() == 0 }

// add notes endpoints that are about to leave, before picks see the list without
// them: who looks there first and then here finds them at any time.
func (d *departed) add(eps []*endpoint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endpoints = append(d.endpoints, eps...)
}

// prune forgets those that are over.
func (d *departed) prune() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endpoints = slices.DeleteFunc(d.endpoints, over)
}

// count is how many there are.
func (d *departed) count() int {
	d.prune()
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.endpoints)
}

// named returns those of a name.
func (d *departed) named(name string) []*endpoint {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []*endpoint
	for _, ep := range d.endpoints {
		if ep.name == name {
			found = append(found, ep)
		}
	}
	return found
}
