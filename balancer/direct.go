package balancer

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// direct picks by a policy that chooses among the READY endpoints (seed 004). Policy
// and table are two publications; an index is only ever used with the table that
// the policy was given.
func (p *picker) direct(a *attempt) (*callinfo.Wait, error) {
	table := p.ready.Load()
	switch {
	case table == nil:
		p.wantAll(a)
		return waitAnyConnection, lb.ErrNoSubConnAvailable
	case table.Len() == 0:
		return p.none(a)
	case table.Len() == 1:
		// There is nothing to choose, and no policy is asked.
		ep := table.At(0).Handle().(*endpoint)
		if ep.level(nil) > level(p.worst.Load()) {
			return p.none(a)
		}
		if a.call != nil && a.call.Tried.Has(ep.id) && a.moreToCome() {
			return waitAnyConnection, lb.ErrNoSubConnAvailable
		}
		switch a.take(ep) {
		case taken:
			return nil, nil
		case notAdmitted:
			return nil, p.refusedError(a, ep)
		}
		return waitAnyConnection, lb.ErrNoSubConnAvailable
	}
	policy := &a.rule.rule.policy
	if policy.Kind() == selection.KindCustom {
		a.mayHaveKey()
	}
	switch p.choose(a, policy, table) {
	case chosen:
		return nil, nil
	case turnedAway:
		return nil, p.refusedError(a, a.first)
	case badResult:
		return nil, a.err
	}
	return waitAnyConnection, lb.ErrNoSubConnAvailable
}

// choose asks policy until an endpoint takes the attempt: one that it may not be
// sent to is excluded and the policy asked again (seed 004, invariant 5).
func (p *picker) choose(a *attempt, policy *selection.Policy, table *selection.Table) verdict {
	view := selection.ViewOf(table)
	if a.passed.table == table {
		view.Exclude(a.passed.index)
		policy = instead(policy)
	}
	call := selection.Call{Context: a.info.Ctx, Method: a.info.FullMethodName, Key: a.key, HasKey: a.has}
	state := a.state()
	custom := policy.Kind() == selection.KindCustom
	worst := level(p.worst.Load())
	// After so many refusals the rest is scanned in order.
	const rounds = 16
	for range rounds {
		var i int
		if custom {
			if i, a.err = a.custom(policy, &view, &call); a.err != nil {
				return badResult
			}
		} else {
			i = policy.Choose(&view, &call, state)
		}
		if i < 0 {
			break // all are excluded
		}
		ep := table.At(i).Handle().(*endpoint)
		if ep.level(a.call) <= worst {
			switch a.take(ep) {
			case taken:
				return chosen
			case isFull: // its next connection is a moment away, and others may be full too
				return queue
			}
		}
		view.Exclude(i)
		policy = instead(policy)
	}
	return a.scan(table)
}

var atRandom = selection.Random()

// instead is the policy for the turn of an endpoint that policy chose in vain. Round
// robin would move its cursor for it, so that whoever comes next lost a turn each
// time (field case PF-07).
func instead(policy *selection.Policy) *selection.Policy {
	if policy.Kind() == selection.KindRoundRobin {
		return &atRandom
	}
	return policy
}

// scan takes the first endpoint that takes the attempt, from a random start: those
// that the call has not tried first. Its cost is that of an outage, where nearly
// everything was refused.
func (a *attempt) scan(table *selection.Table) verdict {
	n := table.Len()
	v := queue
	start := int(rand.Uint32N(uint32(n)))
	for _, round := range [...]level{fit, unhealthy, tried} {
		if round == tried && a.moreToCome() {
			return queue
		}
		for i := range n {
			ep := table.At((start + i) % n).Handle().(*endpoint)
			if ep.level(a.call) != round {
				continue
			}
			switch a.take(ep) {
			case taken:
				return chosen
			case isFull:
				return queue
			case notAdmitted:
				v, a.first = turnedAway, ep
			}
		}
	}
	return v
}

// moreToCome says whether an endpoint is on its way to READY: a retry waits for that
// rather than go where its call has been (seed row S-21).
func (a *attempt) moreToCome() bool {
	return a.pub.view.connecting.Load() > 0 || a.pub.view.idle.next(0) >= 0
}

// custom asks a user's policy, and refuses what it must not answer (seed row
// S-06).
func (a *attempt) custom(policy *selection.Policy, view *selection.View, call *selection.Call) (i int, err error) {
	if view.Available() == 0 {
		return -1, nil // there is nothing to choose, and no policy is asked
	}
	s := a.slot.selector
	i, panicked := ask(policy, view, call, a.state())
	var what string
	var count *atomic.Uint64
	switch {
	case panicked != nil:
		what, count = fmt.Sprintf("it panicked: %v", panicked), &s.bad.panicked
	case i < 0 || i >= view.Len():
		what, count = fmt.Sprintf("it chose index %d of %d; allowed are 0 to %d, or selection.NoOpinion", i, view.Len(), view.Len()-1), &s.bad.outOfRange
	case view.Excluded(i):
		what, count = fmt.Sprintf("it chose index %d, which is excluded", i), &s.bad.excluded
	default:
		return i, nil
	}
	a.report(count, policy, what)
	if s.router.live.Load().badResultsUseP2C {
		p2c := selection.P2C()
		return p2c.Choose(view, call, a.state()), nil
	}
	return 0, a.badResult(policy, what)
}

// badResult is the error of an attempt whose policy did what it must not: a
// status, so that RPCs that wait for ready do not wait for a better policy.
func (a *attempt) badResult(policy *selection.Policy, what string) error {
	return status.Errorf(codes.Unavailable, "slicewire: target %q: selector %q: the policy %q gave a bad result: %s",
		a.pub.target, a.slot.selector.name, policy.String(), what)
}

func ask(policy *selection.Policy, view *selection.View, call *selection.Call, state *selection.State) (i int, panicked any) {
	defer func() { panicked = recover() }()
	return policy.Choose(view, call, state), nil
}

// none is the answer when no endpoint is READY.
func (p *picker) none(a *attempt) (*callinfo.Wait, error) {
	v := a.pub.view
	if v.connecting.Load() > 0 || v.idle.next(0) >= 0 || v.ready.next(0) >= 0 {
		return waitAnyConnection, lb.ErrNoSubConnAvailable
	}
	start := int(rand.Uint32N(uint32(len(v.endpoints))))
	return p.delegate(a, v.endpoints[start], fmt.Sprintf("selector %q: every endpoint is failing", a.slot.selector.name), waitAnyConnection)
}
