package balancer

import (
	lb "google.golang.org/grpc/balancer"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// plan is all that a pick reads which goes as nearly every one does: a policy of
// ours that is not sliced names an endpoint, and that takes the attempt. It is one
// immutable value behind one pointer, made anew by whoever has stored another part
// of it, so that a policy that can be replaced costs a pick no more than one that
// is fixed (seed row S-24). There is none where a pick has more to ask.
//
// A plan may be a moment older than its parts. Picks that find nothing by it never
// fail or queue by it either: they go on from the parts, in full.
type plan struct {
	selector *Selector
	policy   *selection.Policy

	// table is the READY endpoints, of a direct policy. several says that there is
	// something to choose: no policy is asked for one endpoint.
	table   *selection.Table
	several bool

	// Of a policy that gives an order:

	rule    *inForce // nil for direct ones
	order   selection.Order
	members []*endpoint
	// keyInHeader says that a call without a record of its key may have one on the
	// wire alone.
	keyInHeader bool
}

// newPlan makes the plan of a selector that has f in force, for picks by p; nil if
// there is none.
func newPlan(p *picker, s *Selector, f *inForce) *plan {
	pub, table := p.cur.Load(), p.ready.Load()
	if pub == nil || pub.fail != nil || f == nil {
		return nil
	}
	f = pub.own(f)
	c := &plan{selector: s, policy: &f.rule.policy}
	switch c.policy.Kind() {
	case selection.KindP2C, selection.KindRandom, selection.KindRoundRobin, selection.KindLeastPending:
		c.table, c.several = table, table.Len() > 1
		if table.Len() == 0 || !c.several && table.At(0).Handle().(*endpoint).guard.Load() != nil {
			return nil
		}
	case selection.KindWeighted, selection.KindKetama:
		if table == nil && !c.policy.WaitsForFirst() {
			return nil // the endpoints are not all asked to connect yet
		}
		c.rule, c.order, c.members = f, f.order, f.members
		c.keyInHeader = pub.config.KeyHeader != ""
	default:
		return nil
	}
	return c
}

// setCur puts f in force. The plan comes first: who sees that f is in force may rely
// on every pick's using it.
func (sl *slot) setCur(f *inForce) {
	sl.route.planning.Lock()
	defer sl.route.planning.Unlock()
	sl.plans(f)
	sl.cur.Store(f)
}

// plans makes the plan of sl with f in force. Called under the route's planning.
func (sl *slot) plans(f *inForce) {
	p := sl.route.policy.Load()
	if p == nil {
		sl.plan.Store(nil)
		return
	}
	c := newPlan(p.picker, sl.selector, f)
	sl.plan.Store(c)
	if sl == sl.route.slots.Load().main {
		p.picker.plan.Store(c)
	}
}

// replan makes the plans of slots anew. Who has stored what plans are made of, but
// for what is in force, calls it afterwards: the last of several sees all.
func (rt *route) replan(slots ...*slot) {
	rt.planning.Lock()
	defer rt.planning.Unlock()
	for _, sl := range slots {
		sl.plans(sl.cur.Load())
	}
}

// show lets picks see pub.
func (p *policy) show(pub *published) {
	p.picker.cur.Store(pub)
	p.replan()
}

// replan is for what all selectors read.
func (p *policy) replan() {
	if p.route != nil {
		p.route.replan(p.route.slots.Load().all()...)
	}
}

// planFor is the plan for a call that asks for a selector by name.
func (p *picker) planFor(call *callinfo.Call) *plan {
	pub := p.cur.Load()
	if pub.route == nil {
		return nil
	}
	if sl := pub.route.slots.Load().of(call); sl != nil {
		return sl.plan.Load()
	}
	return nil
}

// passed is the candidate that did not take an attempt by a plan, and what it was a
// candidate of. In full the pick goes on from there, if that is in force still: to
// begin again would give the share of that candidate to whoever comes next.
type passed struct {
	index  int
	table  *selection.Table // of a direct policy
	rule   *inForce         // of an order
	cursor selection.Cursor // in the order
}

// byChoice is a pick by a plan whose policy is direct.
func (p *picker) byChoice(info lb.PickInfo, call *callinfo.Call, c *plan) (lb.PickResult, error) {
	i := 0
	if c.several {
		view := selection.ViewOf(c.table)
		i = c.policy.Choose(&view, nil, &c.selector.state)
	}
	ep := c.table.At(i).Handle().(*endpoint)
	if ep.level(call) <= level(p.worst.Load()) {
		res, t := ep.take(info)
		if t == taken {
			c.selector.sent(call, ep)
			settled(call)
			return res, nil
		}
		switch t {
		case notAdmitted:
			c.selector.refused()
		case isFull: // which may mean to wait for it
			return p.inFull(info, call)
		}
	}
	return p.goOn(info, call, passed{index: i, table: c.table})
}

// byOrder is a pick by a plan that has an order.
func (p *picker) byOrder(info lb.PickInfo, call *callinfo.Call, c *plan) (lb.PickResult, error) {
	var asked selection.Call
	if c.policy.Kind() == selection.KindKetama {
		switch {
		case call != nil && call.HasKey:
			asked.Key, asked.HasKey = call.Key, true
		case c.keyInHeader:
			return p.inFull(info, call)
		}
	}
	i, cursor := c.policy.Next(c.order, &asked, selection.Cursor{})
	if i < 0 {
		return p.inFull(info, call)
	}
	if ep := c.members[i]; ep.guard.Load() == nil && ep.level(call) <= level(p.worst.Load()) {
		switch res, t := ep.take(info); t {
		case taken:
			c.selector.sent(call, ep)
			settled(call)
			return res, nil
		case isFull: // its keys stay with it
			return p.inFull(info, call)
		}
	}
	return p.goOn(info, call, passed{index: i, rule: c.rule, cursor: cursor})
}
