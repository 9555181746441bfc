package balancer

import (
	"cmp"
	"slices"

	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/selection"
)

// This file is the part of the policy that keeps what selectors choose from: the
// table of READY endpoints and the membership. All of it belongs to the policy's
// goroutine.

// addEndpoint makes an endpoint that has just appeared.
func (p *policy) addEndpoint(name string) *endpoint {
	ep := newEndpoint(name)
	ep.admitBy(p.route.router.live.Load().admission, p.route.router)
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
		p.replan()
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

// defaultPolicy is the policy of the default selector while nobody has published
// one.
func (c *Config) defaultPolicy() selection.Policy {
	if c.Sharded() {
		return selection.Sliced(selection.Policy{})
	}
	return selection.P2C()
}
