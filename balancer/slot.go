package balancer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
	"github.com/slicewire/slicewire/internal/rebuild"
)

// inForce is what picks of one selector read: one immutable value behind one
// pointer. Data that was built comes with the members it was built for, so an
// index always belongs to the membership it was made from (seed 001, request
// flow 2; seed 004, invariant 3).
type inForce struct {
	rule    *rule
	order   selection.Order // of a policy that builds
	members []*endpoint
	// membership is the generation of members.
	membership uint64
}

// membership is the endpoints of a route, for what is built from them. Immutable.
type membership struct {
	generation uint64
	resolved   []*endpoint // in the resolver's order
	endpoints  []*endpoint // by name
	members    []*selection.Member
	infos      []selection.Info // of members, as they were
}

// slot is one selector on one route.
type slot struct {
	selector *Selector
	route    *route

	// cur is stored under mu, by setCur, and loaded by picks. Nil before anything is in
	// force.
	cur atomic.Pointer[inForce]
	// plan is what picks go by while it is not nil. Stored under the route's planning.
	plan atomic.Pointer[plan]
	// wanted is the rule that cur is on its way to: stored under mu, loaded by calls.
	wanted atomic.Pointer[rule]

	mu       sync.Mutex // guards what follows
	rule     *rule      // the one wanted
	members  *membership
	asked    buildInput                                     // what the pipeline was asked for last
	building *rule                                          // of the build that began last
	ended    uint64                                         // the newest membership of a policy that is gone
	pipeline *rebuild.Pipeline[buildInput, selection.Order] // nil until a policy builds
	closed   bool
	lastErr  error // of the newest build that failed, nil once one succeeded
}

// buildInput is all that a build reads (seed 001, rebuild flow 1 and 2).
type buildInput struct {
	rule    *rule
	members *membership
}

func newSlot(s *Selector, rt *route) *slot {
	return &slot{selector: s, route: rt}
}

// setRule puts a published rule in force, or has it built.
func (sl *slot) setRule(r *rule) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.rule, sl.lastErr = r, nil
	sl.wanted.Store(r)
	sl.apply()
}

// setMembership has data built for another membership; nil while there is none,
// as while the channel is idle.
func (sl *slot) setMembership(m *membership) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if m == nil {
		if sl.members != nil {
			sl.ended = sl.members.generation
		}
		sl.lastErr = nil
		// What was built has endpoints of a policy that is gone.
		if cur := sl.cur.Load(); cur != nil && cur.rule.policy.Built() {
			sl.setCur(nil)
		}
	}
	sl.members = m
	sl.apply()
}

// apply brings cur towards rule and members. Called under mu.
func (sl *slot) apply() {
	switch {
	case sl.closed || sl.rule == nil:
	case !sl.rule.policy.Built():
		sl.cancel()
		if cur := sl.cur.Load(); cur == nil || cur.rule != sl.rule {
			sl.setCur(&inForce{rule: sl.rule})
		}
	case sl.members == nil:
		sl.cancel()
	default:
		if cur := sl.cur.Load(); cur != nil && cur.rule == sl.rule && cur.membership == sl.members.generation {
			return
		}
		if sl.pipeline == nil {
			sl.pipeline = rebuild.New(sl.route.router.gate, rebuild.Options[selection.Order]{
				OnError: sl.buildFailed,
				OnBuilt: sl.buildEnded,
				Bytes:   orderBytes,
			}, sl.build, sl.publish)
		}
		// Once: a request that is repeated would start over the wait after a failure.
		if in := (buildInput{sl.rule, sl.members}); in != sl.asked {
			sl.asked = in
			sl.pipeline.Request(in)
		}
	}
}

// cancel ends builds. Called under mu.
func (sl *slot) cancel() {
	if sl.pipeline != nil {
		sl.pipeline.Cancel()
		sl.asked = buildInput{}
	}
}

func orderBytes(o selection.Order) int64 {
	if b, ok := o.(interface{ Bytes() int64 }); ok {
		return b.Bytes()
	}
	return 0
}

var errNoOrder = errors.New("the policy built nothing and gave no error")

func (sl *slot) build(ctx context.Context, in buildInput) (selection.Order, error) {
	sl.mu.Lock()
	sl.building = in.rule
	sl.mu.Unlock()
	o, err := in.rule.policy.Build(ctx, selection.Membership{Generation: in.members.generation, Members: in.members.members}, &sl.selector.state)
	if err == nil && o == nil {
		err = errNoOrder
	}
	return o, err
}

// publish puts built data in force, unless the rule was replaced meanwhile or the
// policy that has the endpoints has ended.
func (sl *slot) publish(in buildInput, o selection.Order) {
	sl.mu.Lock()
	stale := sl.closed || sl.rule != in.rule || sl.members == nil || in.members.generation <= sl.ended
	if !stale {
		sl.lastErr = nil
		sl.setCur(&inForce{in.rule, o, in.members.endpoints, in.members.generation})
	}
	sl.mu.Unlock()
	if !stale {
		sl.route.wakeUp()
		sl.route.router.changes.send()
	}
}

// builds is the kind of the policy that the build which began last was for. Called
// under mu.
func (sl *slot) builds() string {
	if sl.building == nil {
		return ""
	}
	return sl.building.policy.Kind().String()
}

func (sl *slot) buildEnded(queue, build time.Duration) {
	sl.mu.Lock()
	kind := sl.builds()
	sl.mu.Unlock()
	sl.route.router.tell(SelectorBuild{Selector: sl.selector.name, Policy: kind, Queue: queue, Build: build})
	sl.route.router.options.Logger.Debug("the data of a selector was built", slog.String("selector", sl.selector.name), slog.String("policy", kind),
		slog.String("result", Published.String()), slog.Duration("queue", queue), slog.Duration("build", build))
}

func (sl *slot) buildFailed(err error) {
	sl.mu.Lock()
	if sl.building == sl.rule { // else it is no news any more
		sl.lastErr = err
	}
	kind := sl.builds()
	sl.mu.Unlock()
	sl.route.router.tell(SelectorBuild{Selector: sl.selector.name, Policy: kind, Err: err})
	sl.route.router.options.Logger.Warn("the data of a selector could not be built; what was in force stays",
		slog.String("selector", sl.selector.name), slog.String("policy", kind), slog.String("result", Refused.String()), slog.Any("error", err))
	sl.route.wakeUp()
	sl.route.router.changes.send()
}

// generation is that of the policy that picks use, 0 for none.
func (sl *slot) generation() uint64 {
	if cur := sl.cur.Load(); cur != nil {
		return cur.rule.generation
	}
	return 0
}

// caughtUp says whether picks use a membership of at least a generation.
func (sl *slot) caughtUp(generation uint64) bool {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	cur := sl.cur.Load()
	if sl.closed || sl.rule == nil {
		return true
	}
	return cur != nil && cur.rule == sl.rule && (!cur.rule.policy.Built() || cur.membership >= generation)
}

// unbuilt is why there is nothing in force: nil if it is on its way.
func (sl *slot) unbuilt(target string) error {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if sl.lastErr == nil {
		return nil
	}
	return fmt.Errorf("slicewire: target %q: selector %q cannot choose, the data of its policy could not be built: %w; it is tried again",
		target, sl.selector.name, plainError(sl.lastErr))
}

// close ends builds and waits for the one that runs.
func (sl *slot) close() {
	sl.mu.Lock()
	sl.closed = true
	p := sl.pipeline
	sl.mu.Unlock()
	if p != nil {
		p.Close()
	}
}

// slotTable is the selectors of one route. Immutable.
type slotTable struct {
	main  *slot // of the default selector
	named []*slot
}

// unnamed says whether call, which may be nil, asks for the default selector.
func unnamed(call *callinfo.Call) bool {
	return call == nil || call.Selector == (unique.Handle[string]{})
}

// of returns the slot that call asks for, nil if it names an unknown selector.
// A few handles are compared faster than a name is hashed.
func (t *slotTable) of(call *callinfo.Call) *slot {
	if unnamed(call) {
		return t.main
	}
	for _, s := range t.named {
		if s.selector.handle == call.Selector {
			return s
		}
	}
	return nil
}

func (t *slotTable) find(s *Selector) *slot {
	for _, sl := range t.all() {
		if sl.selector == s {
			return sl
		}
	}
	return nil
}

func (t *slotTable) all() []*slot {
	return append([]*slot{t.main}, t.named...)
}
