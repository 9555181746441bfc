package balancer

import (
	"errors"
	"math/rand/v2"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// verdict is what a scan over candidates found.
type verdict uint8

const (
	chosen     verdict = iota // result is the pick
	queue                     // a connection is on its way
	nobody                    // no candidate is known
	failing                   // all candidates are in TRANSIENT_FAILURE
	turnedAway                // admission refuses all that are READY
	badResult                 // a custom policy gave a bad result
)

// taking is what became of an endpoint that a pick wanted to use.
type taking uint8

const (
	taken        taking = iota // it is the pick
	notAdmitted                // it is READY, and admission refused it
	notReady                   // it is failing
	isIdle                     // it is IDLE
	isConnecting               // it is CONNECTING, or changing just now
	isFull                     // it is READY, and another connection to it is on its way
)

// take uses ep if it is READY.
func (a *attempt) take(ep *endpoint) taking {
	if a.wish.look != nil {
		return a.wish.look.take(ep)
	}
	var t taking
	a.result, t = ep.take(a.info)
	switch t {
	case taken:
		a.counts().sent(a.call, ep)
	case notAdmitted:
		a.counts().refused.Add(1)
	}
	return t
}

// take sends an attempt to ep if ep is READY. Who calls it counts what became of it.
func (ep *endpoint) take(info lb.PickInfo) (res lb.PickResult, t taking) {
	s := ep.cur.Load()
	if s.connectivity != connectivity.Ready {
		return res, unready(s.connectivity)
	}
	res, err := s.picker.Pick(info)
	switch {
	case err == nil:
	case errors.Is(err, errFull):
		return res, isFull
	default:
		return res, isConnecting
	}
	if !ep.send(info, &res) {
		return res, notAdmitted
	}
	return res, taken
}

func unready(s connectivity.State) taking {
	switch s {
	case connectivity.Idle:
		return isIdle
	case connectivity.Connecting:
		return isConnecting
	}
	return notReady
}

// sent notes an attempt of call, which may be nil, that goes to ep.
func (c *counters) sent(call *callinfo.Call, ep *endpoint) {
	c.ready.add()
	if call != nil {
		if call.Tried.Any() {
			c.retries.Add(1)
		}
		call.Tried.Add(ep.id)
	}
}

// amongOwners scans the owners of one slice from a random start (A119,
// pick_from_endpoint_indices). An owner that the call has tried before comes
// after all others, one that is disabled is treated as failing.
func (p *picker) amongOwners(a *attempt, owners []uint32) verdict {
	pub, w := a.pub, &a.wish
	n := len(owners)
	start := 0
	if pub.unknown > 0 {
		start = randomKnown(pub.owners, owners)
		if start < 0 {
			return nobody
		}
	} else if n > 1 {
		start = int(rand.Uint32N(uint32(n)))
	} else if n == 0 {
		return nobody
	}
	if policy := &a.rule.rule.policy; n > 1 && policy.InSlice().Kind() != 0 {
		if v := p.inSlice(a, policy.InSlice(), owners); v != nobody {
			return v
		}
	}
	onTheWay := w.asked != nil
	var idle, ill, again, turned *endpoint // one that is so: unhealthy, tried before, refused
	for i, at := 0, start; i < n; i, at = i+1, at+1 {
		if at == n {
			at = 0
		}
		ep := pub.owners[owners[at]]
		if ep == nil {
			continue
		}
		switch ep.level(a.call) {
		case never:
			continue
		case unhealthy:
			if ep.cur.Load().connectivity == connectivity.Ready {
				ill = ep
				continue
			}
		case tried:
			if ep.cur.Load().connectivity == connectivity.Ready {
				again = ep
				continue
			}
		}
		switch a.take(ep) {
		case taken:
			if idle != nil && !w.queued {
				p.ask(idle, w)
			}
			return chosen
		case isFull:
			return queue
		case notAdmitted:
			turned = ep
		case isConnecting:
			onTheWay = true
		case isIdle:
			if idle == nil {
				idle = ep
			}
			onTheWay = onTheWay || w.queued && ep.mayAnswer()
		}
	}
	// Of a slice only connectivity counts (A119), health is the order inside it: one
	// that is READY is used now.
	if ill != nil {
		switch a.take(ill) {
		case taken:
			if idle != nil && !w.queued {
				p.ask(idle, w)
			}
			return chosen
		case isFull:
			return queue
		}
	}
	if idle != nil && !(w.queued && onTheWay) {
		p.ask(idle, w)
		onTheWay = true
	}
	a.first = pub.owners[owners[start]]
	switch {
	case onTheWay:
		return queue
	case again != nil:
		if v := a.retake(owners); v != nobody {
			return v
		}
	case turned != nil:
		a.first = turned
		return turnedAway
	}
	return failing
}

// retake chooses among owners that the call has tried: better than none.
func (a *attempt) retake(owners []uint32) verdict {
	v := nobody
	for _, o := range owners {
		ep := a.pub.owners[o]
		if ep == nil || ep.level(a.call) == never {
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
	return v
}

// inSlice lets a direct policy choose among the owners that are READY, and has
// another one connect, so that there will be more to choose from. With none of them
// it has no verdict.
func (p *picker) inSlice(a *attempt, policy selection.Policy, owners []uint32) verdict {
	ready := make([]*selection.Member, 0, 16)
	var idle *endpoint
	for _, o := range owners {
		ep := a.pub.owners[o]
		if ep == nil || ep.level(a.call) != fit {
			continue
		}
		switch ep.cur.Load().connectivity {
		case connectivity.Ready:
			ready = append(ready, ep.member)
		case connectivity.Idle:
			idle = ep
		}
	}
	if len(ready) == 0 {
		return nobody
	}
	if idle != nil && !a.wish.queued {
		p.ask(idle, &a.wish)
	}
	a.mayHaveKey()
	v := p.choose(a, &policy, selection.NewTable(ready))
	if v == queue { // they are changing just now
		return nobody
	}
	return v
}

// randomKnown returns a random position among the owners the resolver knows,
// each as likely as the others, or -1.
func randomKnown(live []*endpoint, owners []uint32) int {
	known := 0
	for _, o := range owners {
		if live[o] != nil {
			known++
		}
	}
	if known == 0 {
		return -1
	}
	nth := int(rand.Uint32N(uint32(known)))
	for i, o := range owners {
		if live[o] == nil {
			continue
		}
		if nth == 0 {
			return i
		}
		nth--
	}
	return -1
}

// amongAll does for all endpoints what amongOwners does for a few, by the
// view's sets, so that its cost does not grow with their number.
func (p *picker) amongAll(a *attempt) verdict {
	v, w := a.pub.view, &a.wish
	n := len(v.endpoints)
	start := int(rand.Uint32N(uint32(n)))
	// The scan passes over failing endpoints. To start at one would give its share
	// to its neighbour, which is the worst endpoint to burden twice (PF-07: all get
	// the same share), so another is drawn; where nearly all fail, a few draws do.
	for range 8 {
		if v.endpoints[start].cur.Load().connectivity != connectivity.TransientFailure {
			break
		}
		start = int(rand.Uint32N(uint32(n)))
	}
	idle := v.idle.nextAround(start)
	ready := v.ready.nextAround(start)
	if idle >= 0 && ready >= 0 && !w.queued && distance(start, idle, n) < distance(start, ready, n) {
		p.ask(v.endpoints[idle], w)
	}
	// The sets trail the endpoints by a moment, and the policy wakes queued
	// picks once they have caught up: a few steps over stale members are enough. Those
	// that this call has tried or that admission refuses do not count.
	var again, turned *endpoint
	worst := level(p.worst.Load())
	stale := 0
	for range n {
		if ready < 0 || stale == 8 {
			break
		}
		ep := v.endpoints[ready]
		switch l := ep.level(a.call); {
		case l == tried:
			again = ep
		case l > worst:
			stale++
		default:
			switch a.take(ep) {
			case taken:
				return chosen
			case isFull:
				return queue
			case notAdmitted:
				turned = ep
			default:
				stale++
			}
		}
		ready = v.ready.nextAround(ready + 1)
	}
	if again != nil {
		switch a.take(again) {
		case taken:
			return chosen
		case isFull:
			return queue
		case notAdmitted:
			turned = again
		}
	}
	if idle >= 0 && !(w.queued && v.connecting.Load() > 0) {
		p.ask(v.endpoints[idle], w)
	}
	switch {
	case w.asked != nil:
		return queue
	case turned != nil:
		a.first = turned
		return turnedAway
	case idle < 0 && v.connecting.Load() == 0 && v.ready.next(0) < 0:
		a.first = v.endpoints[start]
		return failing
	}
	return queue
}

// distance is how far to is ahead of from on a ring of n.
func distance(from, to, n int) int {
	if to < from {
		to += n
	}
	return to - from
}

// wish is what one Pick asks of the policy, over its two looks.
type wish struct {
	// asked is the endpoint that was asked to connect, nil if none.
	asked *endpoint
	// queued says that an earlier pick of the RPC asked, if it could. An endpoint
	// that is ready or connecting is then reason enough to ask no more (field case
	// PF-05: one RPC, one connection).
	queued bool
	// look is set where nobody picks and somebody asks: nothing is done then.
	look *look
}

// ask requests a connection to ep, at most one for each Pick.
func (p *picker) ask(ep *endpoint, w *wish) {
	if w.asked != nil {
		return
	}
	w.asked = ep
	if w.look == nil {
		p.policy.requestConnection(ep)
	}
}
