package balancer

import (
	"fmt"
	"slices"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// ordered picks the first candidate that takes the attempt, in the order that the
// policy's data gives (seed 001, request flow 2 to 4).
func (p *picker) ordered(a *attempt) (*callinfo.Wait, error) {
	f := a.rule
	policy := &f.rule.policy
	if policy.Kind() != selection.KindWeighted {
		a.mayHaveKey()
	}
	if p.ready.Load() == nil && !policy.WaitsForFirst() {
		p.wantAll(a) // the others are passed over only once all were asked to connect
	}
	call := selection.Call{Context: a.info.Ctx, Method: a.info.FullMethodName, Key: a.key, HasKey: a.has}
	if a.passed.rule == f {
		return p.amongCandidates(a, &call, a.passed.index, a.passed.cursor)
	}
	i, cursor, err := a.next(f, &call, selection.Cursor{})
	switch {
	case err != nil:
		return nil, err
	case i < 0:
		return nil, fmt.Errorf("slicewire: target %q: selector %q: the policy %q has no candidate", a.pub.target, a.slot.selector.name, policy.String())
	}
	// Nearly always it is the first one.
	if ep := f.members[i]; ep.guard.Load() == nil && ep.level(a.call) <= level(p.worst.Load()) && a.take(ep) == taken {
		return nil, nil
	}
	return p.amongCandidates(a, &call, i, cursor)
}

// amongCandidates goes through the candidates from number i on, whose successor
// cursor gives.
func (p *picker) amongCandidates(a *attempt, call *selection.Call, i int, cursor selection.Cursor) (*callinfo.Wait, error) {
	f := a.rule
	waits := f.rule.policy.WaitsForFirst()
	worst := level(p.worst.Load())
	first := f.members[i]
	var few [8]*endpoint
	passed := few[:0]                // candidates that did not take it
	var ill, again, turned *endpoint // of these, one that is so: unhealthy, tried before, refused
	onTheWay, illOnTheWay := false, false
	var err error
	for draws := 0; len(passed) < len(f.members) && draws < 4*len(f.members)+16; draws++ {
		if draws > 0 {
			if i, cursor, err = a.next(f, call, cursor); err != nil {
				return nil, err
			}
		}
		if i < 0 {
			break
		}
		ep := f.members[i]
		if slices.Contains(passed, ep) {
			continue
		}
		passed = append(passed, ep)
		ready := ep.cur.Load().connectivity == connectivity.Ready
		switch l := ep.level(a.call); {
		case l == never:
			continue
		case l == unhealthy && worst < unhealthy:
			switch ep.cur.Load().connectivity {
			case connectivity.Ready:
				if ill == nil {
					ill = ep
				}
			case connectivity.Idle: // connected, its probes may tell better
				if ep.flags.Load()&retired == 0 {
					p.ask(ep, &a.wish)
					illOnTheWay = true
				}
			case connectivity.Connecting:
				illOnTheWay = true
			}
			continue
		case l == tried && ready:
			if again == nil {
				again = ep
			}
			continue
		}
		switch state := a.take(ep); state {
		case taken:
			return nil, nil
		case notAdmitted:
			turned = ep
		case isFull: // its keys stay with it
			return waitCandidate, lb.ErrNoSubConnAvailable
		case isConnecting, isIdle:
			if ep.flags.Load()&retired != 0 {
				continue
			}
			if waits {
				if state == isIdle && !(a.wish.queued && ep.mayAnswer()) {
					p.ask(ep, &a.wish)
				}
				return waitCandidate, lb.ErrNoSubConnAvailable
			}
			onTheWay = true
		}
	}
	if onTheWay {
		return waitAnyConnection, lb.ErrNoSubConnAvailable
	}
	if ill != nil && !a.pub.route.router.live.Load().failAllUnhealthy {
		switch a.take(ill) {
		case taken:
			return nil, nil
		case isFull:
			return waitCandidate, lb.ErrNoSubConnAvailable
		}
	}
	if illOnTheWay {
		return waitAnyConnection, lb.ErrNoSubConnAvailable
	}
	if again != nil {
		switch a.take(again) {
		case taken:
			return nil, nil
		case isFull:
			return waitCandidate, lb.ErrNoSubConnAvailable
		case notAdmitted:
			turned = again
		}
	}
	if turned != nil {
		return nil, p.refusedError(a, turned)
	}
	return p.delegate(a, first, fmt.Sprintf("selector %q: every candidate is failing", a.slot.selector.name), waitCandidate)
}

// next is the next candidate of an order, a negative number after the last one.
func (a *attempt) next(f *inForce, call *selection.Call, cursor selection.Cursor) (int, selection.Cursor, error) {
	if f.rule.policy.Kind() == selection.KindCustomBuilt {
		return a.customNext(f, call, cursor)
	}
	i, cursor := f.rule.policy.Next(f.order, call, cursor)
	return i, cursor, nil
}

// customNext asks a user's order, and refuses what it must not answer.
func (a *attempt) customNext(f *inForce, call *selection.Call, cursor selection.Cursor) (i int, next selection.Cursor, err error) {
	policy := &f.rule.policy
	i, next, panicked := askNext(policy, f.order, call, cursor)
	if panicked == nil && i < len(f.members) {
		return i, next, nil
	}
	s := a.slot.selector
	what, count := fmt.Sprintf("it gave index %d of %d", i, len(f.members)), &s.bad.outOfRange
	if panicked != nil {
		what, count = fmt.Sprintf("it panicked: %v", panicked), &s.bad.panicked
	}
	a.report(count, policy, what)
	return 0, next, a.badResult(policy, what)
}

func askNext(policy *selection.Policy, o selection.Order, call *selection.Call, cursor selection.Cursor) (i int, next selection.Cursor, panicked any) {
	defer func() { panicked = recover() }()
	i, next = policy.Next(o, call, cursor)
	return i, next, nil
}
