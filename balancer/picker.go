package balancer

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/balancer/selection"
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
	waitCandidate = &callinfo.Wait{
		DelayType: "connecting",
		Text:      "a connection to the endpoint that its selector chose",
	}
	waitBuild = &callinfo.Wait{
		DelayType: "selector_build_pending",
		Text:      "the first data of its selector to be built",
	}
)

// picker is handed to gRPC once and for all: what changes is the value it
// points to. gRPC calls Pick from the goroutine of each RPC.
type picker struct {
	cur atomic.Pointer[published]
	// plan is the default selector's, as in its slot.
	plan   atomic.Pointer[plan]
	policy *policy
	// ready is the READY endpoints for direct policies, nil until one is used.
	ready atomic.Pointer[selection.Table]
	// worst is the level that the first round of a pick takes: unhealthy while there
	// are no healthy endpoints. The policy stores.
	worst atomic.Uint32
	// queued says that some RPC may wait for a picker update: set by a pick that
	// found nothing, before it looks once more; swapped out by the policy after
	// it has stored what changed. In this order no wake-up is lost.
	queued atomic.Bool
}

// Pick sends an attempt where the call's selector says.
func (p *picker) Pick(info lb.PickInfo) (lb.PickResult, error) {
	call := callinfo.From(info.Ctx)
	if call.Measured() {
		return p.measured(info, call)
	}
	return p.unmeasured(info, call)
}

func (p *picker) unmeasured(info lb.PickInfo, call *callinfo.Call) (lb.PickResult, error) {
	c := p.plan.Load()
	if !unnamed(call) {
		c = p.planFor(call)
	}
	switch {
	case c == nil:
		return p.inFull(info, call)
	case c.rule != nil:
		return p.byOrder(info, call, c)
	}
	return p.byChoice(info, call, c)
}

// inFull is a pick that may queue, fail, or need anything else.
func (p *picker) inFull(info lb.PickInfo, call *callinfo.Call) (lb.PickResult, error) {
	var a attempt // set in place: it is large
	a.pub, a.call, a.info = p.cur.Load(), call, info
	res, err := p.looks(&a)
	runtime.KeepAlive(a.slot) // see removedCounts
	return res, err
}

// goOn is inFull for a pick that has passed over a candidate.
func (p *picker) goOn(info lb.PickInfo, call *callinfo.Call, passed passed) (lb.PickResult, error) {
	var a attempt
	a.pub, a.call, a.info, a.passed = p.cur.Load(), call, info, passed
	res, err := p.looks(&a)
	runtime.KeepAlive(a.slot) // see removedCounts
	return res, err
}

// looks is a pick with all that may be: if nothing is found it says so, and looks
// once more.
func (p *picker) looks(a *attempt) (lb.PickResult, error) {
	call, w := a.call, &a.wish
	w.queued = call != nil && call.Waiting.Load() != nil
	wait, err := p.pick(a)
	if err == nil {
		settled(call)
		return a.result, nil
	}
	if !isDrop(err) {
		p.queued.Store(true)
		// The second look must not count on an answer that has come already, or
		// that this map no longer waits for.
		w.queued = w.queued || w.asked != nil
		if next := p.cur.Load(); next != a.pub || w.asked != nil && !w.asked.mayAnswer() {
			a.pub, w.asked = next, nil
		}
		a.passed.table, a.passed.rule = nil, nil // this look is a new one
		wait, err = p.pick(a)
	}
	switch {
	case err == nil:
		settled(call)
		return a.result, nil
	case wait != nil:
		a.counts().queued.Add(1)
		if call != nil {
			call.Waiting.Store(wait)
		}
		return lb.PickResult{}, lb.ErrNoSubConnAvailable // bare: gRPC compares with ==
	case isDrop(err):
		a.counts().dropped.Add(1)
	default:
		a.counts().failed.Add(1)
	}
	return lb.PickResult{}, err
}

// attempt is what one Pick knows. It stays on the stack.
type attempt struct {
	pub    *published
	call   *callinfo.Call // nil where no interceptor made one
	info   lb.PickInfo
	wish   wish
	passed passed // by the plan, before this look

	slot *slot
	rule *inForce // of slot, as loaded by this attempt
	key  string
	has  bool

	// What choosing came to:
	result lb.PickResult // when chosen
	slice  int           // of the key, where one was looked up, and one more
	why    string        // for fallback
	first  *endpoint     // where the scan began, when failing; one that was refused
	err    error         // when the result is bad
}

// nobodys is where picks are counted before there is a selector.
var nobodys counters

func (a *attempt) counts() *counters {
	switch {
	case a.wish.look != nil:
		return a.wish.look.counts
	case a.slot == nil:
		return &nobodys
	}
	return a.slot.selector.counts
}

// settled notes that the call waits no more.
func settled(call *callinfo.Call) {
	if call != nil && call.Waiting.Load() != nil {
		call.Waiting.Store(nil)
	}
}

// pick makes one choice from one published value: a.result unless there is an
// error. A non-nil wait means that the RPC must queue.
func (p *picker) pick(a *attempt) (*callinfo.Wait, error) {
	pub := a.pub
	if pub.route != nil {
		if err := a.findSlot(); err != nil {
			return nil, err
		}
	}
	return p.within(a)
}

// within is pick once the selector is known.
func (p *picker) within(a *attempt) (*callinfo.Wait, error) {
	pub := a.pub
	if pub.fail != nil {
		return nil, pub.fail
	}
	f := a.slot.cur.Load()
	if f == nil {
		if err := a.slot.unbuilt(pub.target); err != nil {
			return nil, err
		}
		return waitBuild, lb.ErrNoSubConnAvailable
	}
	f = pub.own(f)
	a.rule = f
	switch f.rule.policy.Kind() {
	case selection.KindSliced:
		return p.sliced(a)
	case selection.KindWeighted, selection.KindKetama, selection.KindCustomBuilt:
		return p.ordered(a)
	}
	return p.direct(a)
}

// findSlot finds the selector that the call asks for.
func (a *attempt) findSlot() error {
	slots := a.pub.route.slots.Load()
	if a.slot = slots.of(a.call); a.slot != nil {
		return nil
	}
	a.slot = slots.main
	router := a.pub.route.router
	router.unknownSelector(a.call)
	if router.live.Load().refuseUnknownSelectors {
		// The name is the program's and no key.
		return status.Errorf(codes.Unavailable, "slicewire: target %q: the RPC names the selector %q, which is not declared", a.pub.target, a.call.Selector.Value())
	}
	return nil
}

// sliced is A119's pick.
func (p *picker) sliced(a *attempt) (*callinfo.Wait, error) {
	pub := a.pub
	if !pub.config.Sharded() {
		return nil, fmt.Errorf("slicewire: target %q: selector %q routes by key, and no sharding is configured", pub.target, a.slot.selector.name)
	}
	if err := a.findKey(); err != nil {
		return nil, err
	}
	if !a.has {
		return p.anywhere(a, &a.counts().keyless, "the RPC has no key")
	}
	switch pub.phase {
	case assignment.Assigned:
	case assignment.Failed:
		if pub.config.EnableFallback {
			a.why = noAssignment.String()
			return p.anywhere(a, &a.counts().fallbacks[noAssignment], inFallback)
		}
		return nil, pub.err
	default:
		return waitAssignment, lb.ErrNoSubConnAvailable
	}

	slice := pub.slices.Index.Find(a.key)
	a.slice = slice + 1
	owners := pub.slices.Owners(slice)
	found := p.amongOwners(a, owners)
	switch found {
	case chosen:
		return nil, nil
	case queue:
		return waitConnection, lb.ErrNoSubConnAvailable
	case turnedAway:
		return nil, p.refusedError(a, a.first)
	case badResult:
		return nil, a.err
	}

	// Nobody serves the slice: its endpoints are all in TRANSIENT_FAILURE, all
	// unknown to the resolver, or there are none (A119: the slice is in fallback).
	reason := fallbackReason(pub.slices.Kind(slice), found)
	if pub.config.EnableFallback && (reason != serverEmpty || pub.config.Revision == assignment.Revision202608) {
		a.why = reason.String()
		return p.anywhere(a, &a.counts().fallbacks[reason], inFallback)
	}
	if found == nobody {
		return nil, nobodyError(pub, slice, reason)
	}
	return p.delegate(a, a.first, "every owner of the key's slice is failing", waitConnection)
}

const inFallback = "in fallback"

// anywhere chooses among all endpoints (A119: no subsetting) and counts.
func (p *picker) anywhere(a *attempt, count *atomic.Uint64, why string) (*callinfo.Wait, error) {
	if a.wish.look != nil {
		a.wish.look.anywhere = count
	}
	switch p.amongAll(a) {
	case chosen:
		count.Add(1)
		return nil, nil
	case queue:
		return waitAnyConnection, lb.ErrNoSubConnAvailable
	case turnedAway:
		return nil, p.refusedError(a, a.first)
	}
	return p.delegate(a, a.first, why+", and every endpoint is failing", waitAnyConnection)
}

// delegate asks the failing endpoint's own picker, whose error says most. A
// pick that finds the endpoint recovered is as good as any other.
func (p *picker) delegate(a *attempt, ep *endpoint, why string, wait *callinfo.Wait) (*callinfo.Wait, error) {
	pub := a.pub
	if d, off := pub.route.disabled(ep); off {
		return nil, fmt.Errorf("slicewire: target %q: %s; endpoint %q is disabled by hand: %s", pub.target, why, ep.name, d.Reason)
	}
	if ep.flags.Load()&retired != 0 {
		// Its picker would dial (field case EC-07).
		return nil, fmt.Errorf("slicewire: target %q: %s; endpoint %q has left", pub.target, why, ep.name)
	}
	if ep.level(a.call) == unhealthy && ep.cur.Load().connectivity == connectivity.Ready {
		return nil, fmt.Errorf("slicewire: target %q: %s; endpoint %q fails its health checks", pub.target, why, ep.name)
	}
	s := ep.cur.Load()
	if s.picker == nil || a.wish.look != nil && s.connectivity != connectivity.TransientFailure {
		return wait, lb.ErrNoSubConnAvailable
	}
	var err error
	a.result, err = s.picker.Pick(a.info)
	switch {
	case err == nil && a.wish.look != nil:
		return wait, lb.ErrNoSubConnAvailable
	case err == nil:
		if !ep.send(a.info, &a.result) {
			return nil, p.refusedError(a, ep)
		}
		a.counts().sent(a.call, ep)
		return nil, nil
	case errors.Is(err, lb.ErrNoSubConnAvailable):
		return wait, err
	}
	return nil, fmt.Errorf("slicewire: target %q: %s; endpoint %q says: %w", pub.target, why, ep.name, plainError(err))
}

// disabled says whether ep is disabled by hand.
func (rt *route) disabled(ep *endpoint) (Disabled, bool) {
	if rt == nil || ep.flags.Load()&barred == 0 {
		return Disabled{}, false
	}
	return (*rt.router.disabled.Load())[ep.name], true
}

// refusedError says that every candidate was refused, ep among them. RPCs that
// wait for ready are picked again when that may have changed.
func (p *picker) refusedError(a *attempt, ep *endpoint) error {
	var wait time.Duration
	if g := ep.guard.Load(); g != nil {
		wait = (*g).RetryAfter()
	}
	if a.wish.look == nil {
		p.policy.wakeAfter(wait)
	}
	return fmt.Errorf("slicewire: target %q: selector %q: admission refused every candidate; endpoint %q may be asked again in %v",
		a.pub.target, a.slot.selector.name, ep.name, wait.Round(time.Millisecond))
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

// findKey finds the RPC's key: the one an interceptor put in the context and on
// the wire, else the header's value. It has none only where an interceptor was
// told that keys are optional; everybody else's missing key is an error (A119).
func (a *attempt) findKey() error {
	call, pub := a.call, a.pub
	header := pub.config.KeyHeader
	if call != nil && (call.Header == header || slices.Contains(pub.oldHeaders, call.Header)) {
		a.key, a.has = call.Key, call.HasKey
		return nil
	}
	switch values := metadata.ValueFromOutgoingContext(a.info.Ctx, header); len(values) {
	case 1:
		a.key, a.has = values[0], true
		return nil
	case 0:
		return status.Errorf(codes.Unavailable,
			"slicewire: target %q: the RPC has no key: set the request header %q, or install the interceptors of package interceptors", pub.target, header)
	default:
		return status.Errorf(codes.Unavailable,
			"slicewire: target %q: the request header %q has %d values; a key is exactly one", pub.target, header, len(values))
	}
}

// mayHaveKey finds the key for a policy that can do without.
func (a *attempt) mayHaveKey() {
	switch {
	case a.call != nil && a.call.HasKey:
		a.key, a.has = a.call.Key, true
	case a.pub.config.KeyHeader != "":
		if values := metadata.ValueFromOutgoingContext(a.info.Ctx, a.pub.config.KeyHeader); len(values) == 1 {
			a.key, a.has = values[0], true
		}
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
