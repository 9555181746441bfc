package balancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
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
