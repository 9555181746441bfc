package balancer

import (
	"context"
	"fmt"

	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/selection"
)

// Outcome is what a pick comes to.
type Outcome uint8

// The outcomes.
const (
	// Queued waits for a change.
	Queued Outcome = iota
	// Picked has chosen an endpoint.
	Picked
	// Failed fails the RPC, unless it waits for ready.
	Failed
	// Dropped fails the RPC, even if it waits for ready.
	Dropped
)

// String gives the outcome's name in lower case.
func (o Outcome) String() string {
	switch o {
	case Queued:
		return "queued"
	case Picked:
		return "picked"
	case Failed:
		return "failed"
	case Dropped:
		return "dropped"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// Explanation says what would become of an RPC now, and why. But for the bounds of
// Slice it holds no key.
type Explanation struct {
	// Target is the channel's dial target, "" while the channel is idle.
	Target   string
	Selector string
	// Policy is the one in force, "" without one, and PolicyGeneration its number.
	Policy           string
	PolicyGeneration uint64
	// Generation is that of the assignment, and Slice the slice that holds the key:
	// 0 and nil where the policy does not ask for slices or there is no assignment.
	Generation int64
	Slice      *Slice
	// Candidates are those of a policy that does not ask for slices, in the order in
	// which the pick would try them; More is how many there are beside them.
	Candidates []EndpointStatus
	More       int

	Outcome Outcome
	// Endpoint is what was picked. Where a policy chooses at random another pick may
	// get another.
	Endpoint string
	// Connects is the endpoint that the pick would have connected, "" if none.
	Connects string
	// Fallback is why all endpoints are candidates instead of the slice's owners, one
	// of the reasons in PickCounts.Fallbacks; "" if they are not.
	Fallback string
	// Why says it in a sentence, and Err is the RPC's error, nil if it has none.
	Why string
	Err error
}

// Explain says what an RPC with key that asks for the selector would come to now,
// with at most limit candidates; 0 or less stands for all. It goes by the picker's
// own rules, opens no connection, counts nothing, and asks admission for nothing but
// how long it refuses. A custom policy is asked, as by Order. The error is
// ErrNoSelector.
func (s *Selector) Explain(key string, limit int) (Explanation, error) {
	e := Explanation{Selector: s.name}
	l, err := s.looking(key)
	switch {
	case err == errAsleep: //nolint:errorlint // made there and not wrapped
		e.Why = "an RPC would wait for the name resolver: " + err.Error()
		return e, nil
	case err != nil:
		return e, err
	}
	l.counts = new(counters)
	a := attempt{pub: l.pub, call: &l.call, slot: l.slot}
	a.info.Ctx, a.wish.look = context.Background(), l
	wait, err := l.policy.picker.within(&a)
	if a.rule != nil {
		l.inForce = a.rule // it may have changed since
	}
	e.Target = l.pub.target
	if ep := a.wish.asked; ep != nil {
		e.Connects = ep.name
	}
	l.describe(&e, limit)
	switch {
	case err == nil:
		e.Outcome, e.Endpoint = Picked, l.picked.name
		e.Why = l.whyPicked(&e)
	case wait != nil:
		e.Why = "an RPC would wait for " + wait.Text
		if detail := s.router.WaitDetail(wait.DelayType); detail != "" {
			e.Why += " " + detail
		}
	default:
		e.Outcome, e.Err, e.Why = Failed, err, err.Error()
		if isDrop(err) {
			e.Outcome = Dropped
		}
	}
	return e, nil
}

// describe fills in what the choice is made from.
func (l *look) describe(e *Explanation, limit int) {
	for r := range reasons {
		if l.anywhere == &l.counts.fallbacks[r] {
			e.Fallback = r.String()
		}
	}
	f := l.inForce
	if f == nil {
		return
	}
	e.Policy, e.PolicyGeneration = f.rule.policy.String(), f.rule.generation
	if f.rule.policy.Kind() == selection.KindSliced {
		if l.pub.slices != nil {
			t := SliceTable{l.pub.slices, l.route, l.pub}
			slice := t.Slice(t.Find(l.call.Key), limit)
			e.Generation, e.Slice = t.Generation(), &slice
		}
		return
	}
	order, err := l.order()
	if err != nil {
		return
	}
	for ep := range order {
		if limit > 0 && len(e.Candidates) == limit {
			e.More = max(len(f.members), len(l.pub.view.endpoints)) - limit
			break
		}
		e.Candidates = append(e.Candidates, l.route.endpointStatus(ep))
	}
}

func (l *look) whyPicked(e *Explanation) string {
	policy := &l.inForce.rule.policy
	switch {
	case e.Fallback != "":
		return "any endpoint may take it, since " + map[string]string{
			gap.String():             "no usable slice covers the key",
			serverEmpty.String():     "the sharding service assigned no endpoint to the key's slice",
			unknownEndpoint.String(): "the name resolver knows none of the owners of the key's slice",
			allFailing.String():      "every owner of the key's slice is failing",
			noAssignment.String():    "there is no assignment",
		}[e.Fallback]
	case policy.Kind() == selection.KindSliced:
		ready := 0
		for _, o := range l.pub.slices.Owners(e.Slice.Number) {
			if ep := l.pub.owners[o]; ep != nil && ep.flags.Load()&barred == 0 && ep.cur.Load().connectivity == connectivity.Ready {
				ready++
			}
		}
		if policy.InSlice().Kind() != 0 && ready > 1 {
			in := policy.InSlice()
			return fmt.Sprintf("%s chose it among the READY owners of the key's slice", in.String())
		}
		if ready == 1 {
			return "it is the READY owner of the key's slice"
		}
		return "it is a READY owner of the key's slice, the first one from a random start"
	case policy.Built():
		return fmt.Sprintf("it is the first that takes the RPC in the order that %s gives", policy.String())
	case l.ready.Len() == 1:
		return "it is the only READY endpoint"
	}
	return fmt.Sprintf("%s chose it among %d READY endpoints", policy.String(), l.ready.Len())
}
