package balancer

import (
	"math/rand/v2"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// verdict is what a scan over candidates found.
type verdict uint8

const (
	chosen  verdict = iota // result is the pick
	queue                  // a connection is on its way
	nobody                 // no candidate is known
	failing                // all candidates are in TRANSIENT_FAILURE
)

type choice struct {
	verdict verdict
	result  lb.PickResult
	first   *endpoint // where the scan began; set when failing
}

// take uses ep if it is READY.
func (ep *endpoint) take(info lb.PickInfo) (lb.PickResult, connectivity.State) {
	s := ep.cur.Load()
	if s.connectivity != connectivity.Ready {
		return lb.PickResult{}, s.connectivity
	}
	res, err := s.picker.Pick(info)
	if err != nil {
		return lb.PickResult{}, connectivity.Connecting // it is changing just now
	}
	ep.picks.add()
	return res, connectivity.Ready
}

// amongOwners scans the owners of one slice from a random start (A119,
// pick_from_endpoint_indices).
func (p *picker) amongOwners(pub *published, owners []uint32, info lb.PickInfo, w *wish) choice {
	n := len(owners)
	start := 0
	if pub.unknown > 0 {
		start = randomKnown(pub.owners, owners)
		if start < 0 {
			return choice{verdict: nobody}
		}
	} else if n > 1 {
		start = int(rand.Uint32N(uint32(n)))
	} else if n == 0 {
		return choice{verdict: nobody}
	}
	onTheWay := w.asked != nil
	var idle *endpoint // the first one
	for i, at := 0, start; i < n; i, at = i+1, at+1 {
		if at == n {
			at = 0
		}
		ep := pub.owners[owners[at]]
		if ep == nil {
			continue
		}
		res, state := ep.take(info)
		switch state {
		case connectivity.Ready:
			if idle != nil && !w.queued {
				p.ask(idle, w)
			}
			return choice{verdict: chosen, result: res}
		case connectivity.Connecting:
			onTheWay = true
		case connectivity.Idle:
			if idle == nil {
				idle = ep
			}
			onTheWay = onTheWay || w.queued && ep.mayAnswer()
		}
	}
	if idle != nil && !(w.queued && onTheWay) {
		p.ask(idle, w)
		onTheWay = true
	}
	if onTheWay {
		return choice{verdict: queue}
	}
	return choice{verdict: failing, first: pub.owners[owners[start]]}
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
func (p *picker) amongAll(v *view, info lb.PickInfo, w *wish) choice {
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
	// picks once they have caught up: a few steps over stale members are enough.
	const steps = 8
	for range steps {
		if ready < 0 {
			break
		}
		if res, state := v.endpoints[ready].take(info); state == connectivity.Ready {
			return choice{verdict: chosen, result: res}
		}
		ready = v.ready.nextAround(ready + 1)
	}
	if idle >= 0 && !(w.queued && v.connecting.Load() > 0) {
		p.ask(v.endpoints[idle], w)
	}
	if int(v.failing.Load()) == n && w.asked == nil {
		return choice{verdict: failing, first: v.endpoints[start]}
	}
	return choice{verdict: queue}
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
}

// ask requests a connection to ep, at most one for each Pick.
func (p *picker) ask(ep *endpoint, w *wish) {
	if w.asked != nil {
		return
	}
	w.asked = ep
	p.policy.requestConnection(ep)
}
