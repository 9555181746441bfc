package balancer

import (
	"errors"
	"sync/atomic"

	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// look is a pick that nobody makes: it loads once what picks of a selector read now
// (seed 001, request flow 2), and goes by their rules without doing what they do.
// Nothing is connected, counted, woken or taken from admission, and no policy's
// turn is used up but that of weighted.
type look struct {
	route   *route
	pub     *published
	policy  *policy
	slot    *slot
	inForce *inForce // nil while it is not built
	ready   *selection.Table
	state   *selection.State
	call    callinfo.Call

	// What a pick would have noted:

	counts   *counters
	anywhere *atomic.Uint64 // that of counts which a choice among all endpoints moves
	picked   *endpoint
}

var errAsleep = errors.New("the channel is idle or the name resolver has not answered")

// looking loads what is in force for picks of s with key.
func (s *Selector) looking(key string) (*look, error) {
	rt := s.router.main.Load()
	l := &look{route: rt, pub: rt.current.Load(), policy: rt.policy.Load(), slot: rt.slots.Load().find(s)}
	switch {
	case l.slot == nil:
		return nil, ErrNoSelector
	case l.pub == nil || l.policy == nil:
		return nil, errAsleep
	}
	if f := l.slot.cur.Load(); f != nil {
		l.inForce = l.pub.own(f)
	}
	l.ready, l.state = l.policy.picker.ready.Load(), s.state.Copy()
	l.call.Key, l.call.HasKey = key, true
	if l.pub.config != nil {
		l.call.Header = l.pub.config.KeyHeader // what the picker trusts
	}
	return l, nil
}

// take is what an attempt's take would come to.
func (l *look) take(ep *endpoint) taking {
	cur := ep.cur.Load()
	if cur.connectivity != connectivity.Ready {
		return unready(cur.connectivity)
	}
	if s, several := cur.picker.(*spread); several && s.holds() {
		return isFull
	}
	if g := ep.guard.Load(); ep.flags.Load()&barred != 0 || g != nil && (*g).RetryAfter() > 0 {
		return notAdmitted
	}
	l.picked = ep
	return taken
}

// state is what the selector's policies share; a look has a copy.
func (a *attempt) state() *selection.State {
	if a.wish.look != nil {
		return a.wish.look.state
	}
	return &a.slot.selector.state
}

// report is the selector's report, unless this is a look.
func (a *attempt) report(count *atomic.Uint64, policy *selection.Policy, what string) {
	if a.wish.look == nil {
		a.slot.selector.report(count, policy, what)
	}
}

// wantAll is the policy's wantAll, unless this is a look.
func (p *picker) wantAll(a *attempt) {
	if a.wish.look == nil {
		p.policy.wantAll()
	}
}
