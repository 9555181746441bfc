package balancer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// Why a pick queues. The delay types are those of gRFC A121 and A119.
var (
	waitAssignment = &callinfo.Wait{
		DelayType: "autosharding_assignment_pending",
		Text:      "the first assignment from the sharding service",
	}
	waitConnection = &callinfo.Wait{
		DelayType: "connecting",
		Text:      "a connection to an owner of the key's slice",
	}
	waitAnyConnection = &callinfo.Wait{
		DelayType: "connecting",
		Text:      "a connection to any endpoint",
	}
)

// picker is handed to gRPC once and for all: what changes is the value it
// points to. gRPC calls Pick from the goroutine of each RPC.
type picker struct {
	cur    atomic.Pointer[published]
	policy *policy
	// queued says that some RPC may wait for a picker update: set by a pick that
	// found nothing, before it looks once more; swapped out by the policy after
	// it has stored what changed. In this order no wake-up is lost.
	queued atomic.Bool
}

// Pick follows A119's picker pseudo-code.
func (p *picker) Pick(info lb.PickInfo) (lb.PickResult, error) {
	pub := p.cur.Load()
	call := callinfo.From(info.Ctx)
	w := wish{queued: call != nil && call.Waiting.Load() != nil}
	res, wait, err := p.pick(pub, call, info, &w)
	if err == nil {
		settled(call)
		return res, nil
	}
	if !isDrop(err) {
		p.queued.Store(true)
		// The second look must not count on an answer that has come already, or
		// that this map no longer waits for.
		w.queued = w.queued || w.asked != nil
		if next := p.cur.Load(); next != pub || w.asked != nil && !w.asked.mayAnswer() {
			pub, w.asked = next, nil
		}
		res, wait, err = p.pick(pub, call, info, &w)
	}
	switch {
	case err == nil:
		settled(call)
		return res, nil
	case wait != nil:
		pub.counts.queued.Add(1)
		if call != nil {
			call.Waiting.Store(wait)
		}
		return lb.PickResult{}, lb.ErrNoSubConnAvailable // bare: gRPC compares with ==
	case isDrop(err):
		pub.counts.dropped.Add(1)
	default:
		pub.counts.failed.Add(1)
	}
	return lb.PickResult{}, err
}

// settled notes that the call waits no more.
func settled(call *callinfo.Call) {
	if call != nil && call.Waiting.Load() != nil {
		call.Waiting.Store(nil)
	}
}

// pick makes one choice from one published value. A non-nil wait means that
// the RPC must queue.
func (p *picker) pick(pub *published, call *callinfo.Call, info lb.PickInfo, w *wish) (lb.PickResult, *callinfo.Wait, error) {
	if pub.fail != nil {
		return lb.PickResult{}, nil, pub.fail
	}
	key, has, err := keyOf(call, info.Ctx, pub)
	if err != nil {
		return lb.PickResult{}, nil, err
	}
	if !has {
		return p.anywhere(pub, info, w, &pub.counts.keyless, "the RPC has no key")
	}
	switch pub.phase {
	case assignment.Assigned:
	case assignment.Failed:
		if pub.config.EnableFallback {
			return p.anywhere(pub, info, w, &pub.counts.fallbacks[noAssignment], inFallback)
		}
		return lb.PickResult{}, nil, pub.err
	default:
		return lb.PickResult{}, waitAssignment, lb.ErrNoSubConnAvailable
	}

	slice := pub.slices.Index.Find(key)
	owners := pub.slices.Owners(slice)
	c := p.amongOwners(pub, owners, info, w)
	switch c.verdict {
	case chosen:
		return c.result, nil, nil
	case queue:
		return lb.PickResult{}, waitConnection, lb.ErrNoSubConnAvailable
	}

	// Nobody serves the slice: its endpoints are all in TRANSIENT_FAILURE, all
	// unknown to the resolver, or there are none (A119: the slice is in fallback).
	reason := fallbackReason(pub.slices.Kind(slice), c.verdict)
	if pub.config.EnableFallback && (reason != serverEmpty || pub.config.Revision == assignment.Revision202608) {
		return p.anywhere(pub, info, w, &pub.counts.fallbacks[reason], inFallback)
	}
	if c.verdict == nobody {
		return lb.PickResult{}, nil, nobodyError(pub, slice, reason)
	}
	return delegate(pub, c.first, info, "every owner of the key's slice is failing", waitConnection)
}

const inFallback = "in fallback"

// anywhere chooses among all endpoints (A119: no subsetting) and counts.
func (p *picker) anywhere(pub *published, info lb.PickInfo, w *wish, count *atomic.Uint64, why string) (lb.PickResult, *callinfo.Wait, error) {
	c := p.amongAll(pub.view, info, w)
	switch c.verdict {
	case chosen:
		count.Add(1)
		return c.result, nil, nil
	case queue:
		return lb.PickResult{}, waitAnyConnection, lb.ErrNoSubConnAvailable
	}
	return delegate(pub, c.first, info, why+", and every endpoint is failing", waitAnyConnection)
}

// delegate asks the failing endpoint's own picker, whose error says most. A
// pick that finds the endpoint recovered is as good as any other.
func delegate(pub *published, ep *endpoint, info lb.PickInfo, why string, wait *callinfo.Wait) (lb.PickResult, *callinfo.Wait, error) {
	res, err := ep.cur.Load().picker.Pick(info)
	switch {
	case err == nil:
		ep.picks.add()
		return res, nil, nil
	case errors.Is(err, lb.ErrNoSubConnAvailable):
		return lb.PickResult{}, wait, err
	}
	return lb.PickResult{}, nil, fmt.Errorf("slicewire: target %q: %s; endpoint %q says: %w", pub.target, why, ep.name, plainError(err))
}

// plainError is err without the gRPC status in it. The status of a dialer, of
// the sharding service or of a ClientConnProvider is not a verdict on the RPC:
// gRPC would end RPCs that wait for ready, and turn most codes into INTERNAL.
func plainError(err error) error {
	if isDrop(err) {
		return errors.New(err.Error())
	}
	return err
}

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

// keyOf returns the RPC's key: the one an interceptor put in the context and on
// the wire, else the header's value. It has none only where an interceptor was
// told that keys are optional; everybody else's missing key is an error (A119).
func keyOf(call *callinfo.Call, ctx context.Context, pub *published) (key string, has bool, err error) {
	header := pub.config.KeyHeader
	if call != nil && (call.Header == header || slices.Contains(pub.oldHeaders, call.Header)) {
		return call.Key, call.HasKey, nil
	}
	switch values := metadata.ValueFromOutgoingContext(ctx, header); len(values) {
	case 1:
		return values[0], true, nil
	case 0:
		return "", false, status.Errorf(codes.Unavailable,
			"slicewire: target %q: the RPC has no key: set the request header %q, or install the interceptors of package interceptors", pub.target, header)
	default:
		return "", false, status.Errorf(codes.Unavailable,
			"slicewire: target %q: the request header %q has %d values; a key is exactly one", pub.target, header, len(values))
	}
}

// isDrop says whether gRPC will end the RPC at once with err, even one that
// waits for ready.
func isDrop(err error) bool {
	if err == lb.ErrNoSubConnAvailable { //nolint:errorlint // the bare sentinel, as gRPC compares it
		return false
	}
	_, ok := status.FromError(err)
	return ok
}

// reason says why an RPC is in fallback.
type reason uint8

const (
	gap             reason = iota // no usable slice covers the key (revision 2026-10)
	serverEmpty                   // the sharding service assigned no endpoint
	unknownEndpoint               // the resolver knows none of the owners
	allFailing                    // every known owner is in TRANSIENT_FAILURE
	noAssignment                  // there is no assignment
	reasons
)

// String returns the label of the fallback metrics.
func (r reason) String() string {
	return [...]string{"gap", "server_empty", "unknown_endpoint", "all_failing", "no_assignment"}[r]
}

func fallbackReason(kind assignment.Kind, v verdict) reason {
	switch {
	case kind == assignment.Gap:
		return gap
	case kind == assignment.Unassigned:
		return serverEmpty
	case v == nobody:
		return unknownEndpoint
	}
	return allFailing
}

func nobodyError(pub *published, slice int, reason reason) error {
	why := [...]string{
		gap:             "no usable slice of the assignment covers the RPC's key",
		serverEmpty:     "the sharding service assigned no endpoint to the key's slice",
		unknownEndpoint: "the name resolver knows none of the endpoints that own the key's slice",
	}[reason]
	if reason == unknownEndpoint {
		why += ": " + pub.strangers()
	}
	hint := "; fallback is off"
	if pub.config.EnableFallback {
		hint = "; revision 2026-10 does not fall back here"
	}
	return fmt.Errorf("slicewire: target %q: slice %d of generation %d: %s%s", pub.target, slice, pub.slices.Generation, why, hint)
}
