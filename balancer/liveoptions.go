package balancer

import (
	"log/slog"
	"reflect"
	"time"

	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/health"
)

// liveOptions are the options of a Router that may change while RPCs run. Immutable.
type liveOptions struct {
	keepLastEndpoints      bool
	health                 *health.Registry
	failAllUnhealthy       bool
	admission              admission.Admission
	refuseUnknownSelectors bool
	badResultsUseP2C       bool
	retireTimeout          time.Duration
}

func (o *RouterOptions) live() *liveOptions {
	l := &liveOptions{
		o.KeepLastEndpoints, o.Health, o.FailAllUnhealthy, o.Admission, o.RefuseUnknownSelectors, o.BadResultsUseP2C, o.RetireTimeout,
	}
	if l.retireTimeout <= 0 {
		l.retireTimeout = DefaultRetireTimeout
	}
	return l
}

// SetOptions puts options in force while RPCs run: Connections, KeepLastEndpoints,
// Health, FailAllUnhealthy, Admission, RefuseUnknownSelectors, BadResultsUseP2C and
// RetireTimeout. The others stay what NewRouter was given.
//
// Another registry starts with what it knows of the endpoints, and when SetOptions
// has returned the one before is not asked any more. Another Admission starts without
// memory; attempts in flight are reported to the one that admitted them.
//
// The error lists everything that is wrong with Connections, and then nothing has
// changed, or is ErrClosed.
func (r *Router) SetOptions(o RouterOptions) error {
	if err := r.SetConnections(o.Connections); err != nil {
		return err
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	before, now := r.live.Load(), o.live()
	guards := !sameAdmission(before.admission, now.admission)
	now.admission = before.admission
	if guards {
		now.admission = o.Admission
	}
	was, is := *before, *now
	was.admission, is.admission = nil, nil // which may not be comparable
	same := !guards && was == is
	if !same {
		r.live.Store(now)
	}
	routes := r.allRoutes()
	r.mu.Unlock()
	if same {
		return nil
	}
	for _, rt := range routes {
		rt.watchHealth(now.health)
		rt.post(func(in *inbox) { in.options, in.guards = true, in.guards || guards })
	}
	return nil
}

// sameAdmission is == where that does not panic.
func sameAdmission(a, b admission.Admission) bool {
	if a == nil || b == nil || reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() {
		return a == b
	}
	return reflect.DeepEqual(a, b)
}

// applyOptions has the endpoints follow the newest options.
func (p *policy) applyOptions(guards bool) {
	if guards {
		for _, ep := range p.view.endpoints {
			ep.admitBy(p.route.router.live.Load().admission, p.route.router)
		}
		p.replan()
	}
	p.setTargets()
	if p.eager {
		for _, ep := range p.view.endpoints {
			p.markReady(ep)
		}
	}
	p.useful = true
}

// admitBy has a, which may be nil, admit attempts. r is told of a breaker's edges.
func (ep *endpoint) admitBy(a admission.Admission, r *Router) {
	if a == nil {
		ep.guard.Store(nil)
		return
	}
	g := r.guardOf(a, ep.name)
	ep.guard.Store(&g)
}

// watchHealth has reg, which may be nil, probe the endpoints of the route. The policy
// says who they are, in setTargets.
func (rt *route) watchHealth(reg *health.Registry) {
	rt.viewing.Lock()
	defer rt.viewing.Unlock()
	if rt.registry == reg || rt.ended && reg != nil {
		return
	}
	if rt.health != nil {
		rt.health.Close()
	}
	rt.health, rt.registry = nil, reg
	if reg == nil {
		return
	}
	var err error
	if rt.health, err = reg.NewView(rt.healthChanged); err != nil {
		rt.log().Warn("the health registry is closed; endpoints are not probed", slog.Any("error", err))
	}
}
