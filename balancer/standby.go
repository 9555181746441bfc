package balancer

import (
	"time"

	"google.golang.org/grpc/connectivity"
)

// keepReady connects endpoints until MinReady of them are READY or on the way, the
// first in the resolver's order (row G-34). One that fails does not count, so
// another one takes its place; it retries by itself (A62). The look ends with the
// last one that is needed, which is nearly always among the first.
func (p *policy) keepReady() {
	want := p.limits().MinReady
	if p.route != nil && p.route.probing.Load() && len(p.view.endpoints) > 0 {
		want = max(1, want)
	}
	if want == 0 {
		return
	}
	if p.connectUpTo(want) {
		p.route.probing.Store(false)
	}
}

// connectUpTo does that, and says whether one endpoint at least is READY or on the
// way.
func (p *policy) connectUpTo(want int) bool {
	all := want
	var idle []*endpoint
	for _, ep := range p.view.endpoints {
		if ep.flags.Load()&barred != 0 {
			continue
		}
		switch ep.cur.Load().connectivity {
		case connectivity.Ready:
			if ep.usable(p.allIll) {
				want--
			}
		case connectivity.Connecting:
			want--
		case connectivity.Idle:
			idle = append(idle, ep)
		}
		if want == 0 {
			return true
		}
	}
	now := time.Now()
	var wait time.Duration
	for _, ep := range idle {
		if want == 0 {
			break
		}
		// A server that hangs up at once is not dialled all the time.
		if left := ep.dialled.Add(reconnectGap).Sub(now); left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		ep.connect(p)
		want--
	}
	if want == 0 || wait == 0 {
		return want < all
	}
	if p.standbyTimer == nil {
		p.standbyTimer = time.AfterFunc(wait, func() { p.post(func(*inbox) {}) })
	} else {
		p.standbyTimer.Reset(wait)
	}
	return want < all
}

// ConnectOne has one endpoint of the channel connected, if none is or is on its way,
// though no RPC wants one: that is how to find out whether a target works again which
// nobody calls because it failed. It returns at once. Without an endpoint, or while
// the channel is idle, the wish is kept. It may be called concurrently.
func (r *Router) ConnectOne() {
	for _, rt := range r.routes() {
		rt.probing.Store(true)
		if p := rt.policy.Load(); p != nil {
			p.post(func(*inbox) {})
		}
	}
}
