package balancer

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/selection"
)

// This file is the part of the policy that keeps what selectors choose from: the
// table of READY endpoints, the membership, and endpoints that have left it. All
// of it belongs to the policy's goroutine.

// addEndpoint makes an endpoint that has just appeared.
func (p *policy) addEndpoint(name string) *endpoint {
	ep := newEndpoint(name)
	if a := p.route.router.options.Admission; a != nil {
		ep.guard = a.Guard(name)
	}
	ep.pool.limits = p.limits()
	p.counts[ep.counted]++
	return ep
}

// connectAll is the wish of the first pick that chooses among all endpoints that
// are READY: they are connected, and kept so, as round_robin does. Before that a
// selector costs no connection.
func (p *policy) connectAll() {
	p.eager, p.useful = true, true
	for _, ep := range p.view.endpoints {
		p.markReady(ep)
		p.keepConnected(ep)
	}
}

func (p *policy) keepConnected(ep *endpoint) {
	if !ep.removed && ep.flags.Load()&barred == 0 && ep.cur.Load().connectivity == connectivity.Idle {
		ep.connect(p)
	}
}

// markReady puts ep into the table, or takes it out. It copies a small part of
// the table, however long that is.
func (p *policy) markReady(ep *endpoint) {
	if ep.counted == connectivity.Ready && ep.usable(p.allIll) {
		if ep.readyAt < 0 {
			ep.readyAt = p.ready.Len()
			p.ready = p.ready.With(ep.member)
		}
		return
	}
	p.removeReady(ep)
}

func (p *policy) removeReady(ep *endpoint) {
	if ep.readyAt < 0 {
		return
	}
	table, moved := p.ready.Without(ep.readyAt)
	if moved != nil {
		moved.Handle().(*endpoint).readyAt = ep.readyAt
	}
	p.ready, ep.readyAt = table, -1
}

var noneReady = selection.NewTable(nil)

// storeReady lets picks see the table.
func (p *policy) storeReady() {
	if !p.eager {
		return
	}
	table := p.ready
	if table == nil {
		table = noneReady
	}
	if p.picker.ready.Load() != table {
		p.picker.ready.Store(table)
	}
}

// offerMembership tells the selectors who the endpoints are. The same endpoints
// in another order are the same membership (seed row P-18).
func (p *policy) offerMembership() {
	next := p.route.endpoints.Load()
	if next == nil || !next.is(p.view.endpoints) {
		next = next.successor(p.view.endpoints)
		p.route.endpoints.Store(next)
		p.route.router.changes.send()
	}
	for _, sl := range p.route.slots.Load().all() {
		sl.setMembership(next)
	}
}

// is says whether eps, in any order, are the endpoints of m and have not changed.
func (m *membership) is(eps []*endpoint) bool {
	if !slices.Equal(m.resolved, eps) {
		if len(m.resolved) != len(eps) || !slices.Equal(m.endpoints, byName(eps)) {
			return false
		}
	}
	for i, ep := range m.endpoints {
		if !sameInfo(m.infos[i], ep.member.Info()) {
			return false
		}
	}
	return true
}

// successor is the membership of eps after m, which may be nil.
func (m *membership) successor(eps []*endpoint) *membership {
	next := &membership{generation: 1, resolved: eps, endpoints: byName(eps)}
	if m != nil {
		next.generation = m.generation + 1
	}
	for _, ep := range next.endpoints {
		next.members = append(next.members, ep.member)
		next.infos = append(next.infos, ep.member.Info())
	}
	return next
}

func byName(eps []*endpoint) []*endpoint {
	return slices.SortedFunc(slices.Values(eps), func(a, b *endpoint) int { return cmp.Compare(a.name, b.name) })
}

func sameInfo(a, b selection.Info) bool { return a.Address == b.Address && a.Weight == b.Weight }

// retiree is an endpoint that has left while data of a selector still leads to it.
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
		return
	}
	wait := p.route.router.options.RetireTimeout
	for _, ep := range gone {
		ep.leaves(p)
		p.retiring = append(p.retiring, retiree{ep, generation, time.Now().Add(wait)})
	}
	if p.retireTimer == nil {
		p.retireTimer = time.AfterFunc(wait, func() { p.post(func(in *inbox) { in.retired = true }) })
	}
	p.barRetiring()
}

// barRetiring bars those that were disabled after they had left.
func (p *policy) barRetiring() {
	for _, r := range p.retiring {
		if _, off := (*p.route.router.disabled.Load())[r.endpoint.name]; off {
			r.endpoint.flags.Or(barred)
		}
	}
}

// retire closes endpoints that no data leads to any more, and, if overdue is set,
// those whose time is over.
func (p *policy) retire(overdue bool) {
	now := time.Now()
	closing := false
	select {
	case <-p.closing:
		closing = true
	default:
	}
	p.retiring = slices.DeleteFunc(p.retiring, func(r retiree) bool {
		over := closing || overdue && !now.Before(r.until) || p.route.caughtUp(r.generation)
		if over {
			r.endpoint.close()
			// Data from before RetireTimeout may still lead to it: its child says no more,
			// and picks must not wait for a connection that is closed.
			r.endpoint.cur.Store(&childState{connectivity: connectivity.Shutdown, since: now})
			p.mustReport = true
		}
		return over
	})
}

// defaultPolicy is the policy of the default selector while nobody has published
// one.
func (c *Config) defaultPolicy() selection.Policy {
	if c.Sharded() {
		return selection.Sliced(selection.Policy{})
	}
	return selection.P2C()
}

// publishPolicies puts the policies in force that the LB config asks for, and a
// default one where nobody has published any.
func (p *policy) publishPolicies() {
	router := p.route.router
	_, _ = router.defaultSelector().Publish(p.config.defaultPolicy(), FromDefault) // of a closed Router nobody asks
	for name, policy := range p.config.Selectors {
		var err error
		if s := router.Selector(name); s != nil {
			_, err = s.Publish(policy, FromResolver)
		} else {
			_, err = router.AddSelector(name, policy, FromResolver)
		}
		if err != nil && !errors.Is(err, ErrClosed) {
			p.route.log().Warn("a selector of the LB config was refused", slog.Any("error", err))
		}
	}
}
