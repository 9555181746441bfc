package balancer

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// Disabled says that no pick may choose an endpoint, and why.
type Disabled struct {
	Reason string
	Since  time.Time
}

// SetEnabled lets no pick choose the endpoint of that name, from the next one on
// and in all selectors, or ends that. Its connection stays and RPCs in flight go
// on. It holds for endpoints that are not there yet or come back later, until it is
// ended (seed row P-20). reason is for operators.
func (r *Router) SetEnabled(endpoint string, enabled bool, reason string) {
	r.mu.Lock()
	old := *r.disabled.Load()
	_, was := old[endpoint]
	if was == enabled {
		next := maps.Clone(old)
		if enabled {
			delete(next, endpoint)
		} else {
			next[endpoint] = Disabled{reason, time.Now()}
		}
		r.disabled.Store(&next)
	}
	routes := r.allRoutes()
	r.mu.Unlock()
	if was != enabled {
		return
	}
	r.options.Logger.Info("an endpoint was enabled or disabled by hand",
		slog.String("endpoint", endpoint), slog.Bool("enabled", enabled), slog.String("reason", reason))
	for _, rt := range routes {
		p := rt.policy.Load()
		for _, ep := range rt.named(endpoint) {
			ep.applyDisabled(r)
			if p != nil {
				p.endpointChanged(ep)
			}
		}
		rt.wakeUp() // for those that have left and wait for data to be built
	}
}

// named returns the endpoint of a name that picks may find, and an older one with
// its name that a selector's data still leads to (seed row P-07).
func (rt *route) named(name string) []*endpoint {
	var found []*endpoint
	add := func(ep *endpoint) {
		if ep != nil && !slices.Contains(found, ep) {
			found = append(found, ep)
		}
	}
	if pub := rt.current.Load(); pub != nil {
		add(pub.view.byName[name])
	}
	for _, sl := range rt.slots.Load().all() {
		if f := sl.cur.Load(); f != nil {
			i, ok := slices.BinarySearchFunc(f.members, name, func(ep *endpoint, name string) int { return cmp.Compare(ep.name, name) })
			if ok {
				add(f.members[i])
			}
		}
	}
	return found
}

// applyDisabled makes ep's flag what the Router says now.
func (ep *endpoint) applyDisabled(r *Router) {
	r.mu.Lock() // two changes of one endpoint must not overtake each other
	defer r.mu.Unlock()
	if _, off := (*r.disabled.Load())[ep.name]; off {
		ep.flags.Or(barred)
	} else {
		ep.flags.And(^uint32(barred | draining))
	}
}

// applyDisabled bars endpoints that have just appeared. It runs after picks can
// find them, so that SetEnabled either finds them too or has been seen here.
func (p *policy) applyDisabled() {
	for name := range *p.route.router.disabled.Load() {
		if ep := p.view.byName[name]; ep != nil && ep.flags.Load()&barred == 0 {
			ep.applyDisabled(p.route.router)
			p.handleChange(ep)
		}
	}
}

// Drain disables an endpoint and waits until no RPC is in flight there, also where
// it has left the name resolver's list before or leaves it meanwhile. The error
// wraps ctx's and says how many are; the endpoint stays disabled. A name that
// nobody knows has nothing in flight.
func (r *Router) Drain(ctx context.Context, name, reason string) error {
	r.SetEnabled(name, false, reason)
	found := make(map[*endpoint]bool) // it may leave meanwhile
	for {
		changed := drained.wait()
		note := func(eps []*endpoint) {
			for _, ep := range eps {
				ep.flags.Or(draining)
				found[ep] = true
			}
		}
		for _, rt := range r.routes() {
			note(rt.named(name))
		}
		note(r.left.named(name)) // last: see departed.add
		pending := 0
		for ep := range found {
			pending += ep.member.Pending()
		}
		if pending == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("slicewire: endpoint %q still has %d RPCs in flight: %w", name, pending, ctx.Err())
		}
	}
}
