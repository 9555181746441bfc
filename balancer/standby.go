package balancer

import (
	"context"
	"time"

	"google.golang.org/grpc/connectivity"
)

// Revive keeps one endpoint connected without any RPC, as if MinReady were at least
// 1, until it is told not to. It is for who sends no RPC to a target that has failed
// and would never learn that it works again. It may be called concurrently.
func (r *Router) Revive(on bool) {
	if r.revived.Swap(on) == on || !on {
		return
	}
	for _, rt := range r.routes() {
		rt.post(func(*inbox) {}) // which has it look
	}
}

// WaitReported waits until the channel's state is what its endpoints have told so
// far, or for ctx: picks may fail for an endpoint's state before it is. It may be
// called concurrently.
func (r *Router) WaitReported(ctx context.Context) {
	p := r.main.Load().policy.Load()
	if p == nil {
		return
	}
	done := make(chan struct{})
	p.post(func(in *inbox) { in.reported = append(in.reported, done) })
	select {
	case <-done:
	case <-p.closing:
	case <-ctx.Done():
	}
}

// keepReady connects endpoints until MinReady of them are READY or on the way, the
// first in the resolver's order (row G-34). One that fails does not count, so
// another one takes its place; it retries by itself (A62). The look ends with the
// last one that is needed, which is nearly always among the first.
func (p *policy) keepReady() {
	want := p.limits().MinReady
	if p.route != nil && p.route.router.revived.Load() {
		want = max(want, 1)
	}
	if want == 0 {
		return
	}
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
			return
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
		return
	}
	if p.standbyTimer == nil {
		p.standbyTimer = time.AfterFunc(wait, func() { p.post(func(*inbox) {}) })
	} else {
		p.standbyTimer.Reset(wait)
	}
}
