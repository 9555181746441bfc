package balancer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/balancer/selection"
)

// Status is a snapshot of a Router for operators. It holds no keys.
type Status struct {
	// Target is the channel's dial target, "" while the channel is idle.
	Target string
	// Authority is the :authority of RPCs, "" while the channel is idle.
	Authority string
	// State is the connectivity state last reported to gRPC.
	State connectivity.State
	// Config is the LB config in force, nil before the first.
	Config *Config
	// Endpoints are those of the name resolver, in its order; none while the
	// channel is idle.
	Endpoints []EndpointStatus
	// UnknownOwners counts the endpoints of the assignment that the name resolver
	// does not know.
	UnknownOwners int
	// Generation is that of the assignment that picks use, 0 without one. It
	// follows Assignment.Generation, what the sharding service's client holds, by a
	// moment; while the channel is idle there are no picks, and it is 0.
	Generation int64
	Assignment assignment.Status
	Readiness  Readiness
	Picks      PickCounts
	// Selectors are those of the Router, the default one first.
	Selectors []SelectorStatus
	// Retiring counts endpoints that have left the list and are not closed yet, because
	// a selector's data still leads there, or still have RPCs in flight.
	Retiring int
	// Membership is the generation of the endpoint list.
	Membership uint64
	// AllUnhealthy says that the probes of every endpoint fail, and that they are
	// used all the same.
	AllUnhealthy bool
	// Connections count those of all endpoints.
	Connections ConnectionCounts
	// UnknownSelectors counts picks of RPCs that name a selector which is not
	// declared.
	UnknownSelectors uint64
	// ResolverUpdates counts what the name resolver has told the LB policy;
	// ResolverErrors and EmptyUpdates count what it got wrong.
	ResolverUpdates              uint64
	ResolverErrors, EmptyUpdates uint64
	// LastResolverError is the newest one, or nil.
	LastResolverError error
	// ConfigErrors counts service configs that were refused; LastConfigError says
	// why the newest one was.
	ConfigErrors    uint64
	LastConfigError error
}

// EndpointStatus is one endpoint.
type EndpointStatus struct {
	Name    string
	Address string // the first one
	State   connectivity.State
	Since   time.Time // when it entered State
	Picks   uint64    // since it appeared
	Pending int       // RPCs in flight
	// Connections are those that it has now.
	Connections ConnectionStates
	// Health is what probes found; Healthy where nobody probes.
	Health health.State
	// Disabled says why no pick chooses it, nil if picks may.
	Disabled *Disabled
	// Draining says that somebody waits until nothing is in flight there, or has:
	// until it is enabled again.
	Draining bool
	// RetryAfter is how long admission refuses it for, 0 if it does not.
	RetryAfter time.Duration
}

// SelectorStatus is one selector.
type SelectorStatus struct {
	Name string
	// Policy is the one published last, Generation its number and Source who
	// published it; InForce is the generation that picks use.
	Policy     string
	Generation uint64
	Source     Source
	InForce    uint64
	// Kind is Policy's kind.
	Kind selection.Kind
	// Membership is the generation of the endpoint list that picks use; built
	// policies follow [Router.MembershipGeneration] by a build.
	Membership uint64
	// Builds are the work of a policy that builds, LastBuildError why the newest
	// build failed, or nil.
	Builds         BuildStatus
	LastBuildError error
	Picks          PickCounts
	// BadResults counts what custom policies got wrong, by reason:
	// "out_of_range", "excluded", "panic".
	BadResults map[string]uint64
	// History are the newest publications, the last one last.
	History []PublicationStatus
}

// PublicationStatus is one publication of a policy.
type PublicationStatus struct {
	Generation uint64
	Policy     string
	Source     Source
	At         time.Time
}

// BuildStatus counts builds: see seed 001.
type BuildStatus struct {
	Builds, Failed, Coalesced uint64
	// Queue and Build are how long the newest build waited and took.
	Queue, Build time.Duration
}

// PickCounts count picks since the Router was made. A queued RPC is picked
// again at each wake-up, and counted each time.
type PickCounts struct {
	// Ready counts picks that chose an endpoint, those in fallback included.
	Ready uint64
	// Queued, Failed and Dropped count picks that chose none. Dropped ones end
	// the RPC even if it waits for ready.
	Queued, Failed, Dropped uint64
	// Keyless counts picks that chose any endpoint because the RPC has no key and
	// needs none (interceptors.KeyOptional).
	Keyless uint64
	// Refused counts candidates that admission refused; the pick went on to the
	// next.
	Refused uint64
	// Retries are those of Ready that were for a call which had been sent somewhere
	// before.
	Retries uint64
	// Fallbacks counts picks that chose any endpoint, by reason: "gap",
	// "server_empty", "unknown_endpoint", "all_failing", "no_assignment".
	Fallbacks map[string]uint64
}

// String is the snapshot in one line, for logs.
func (s Status) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "target %q: %v, %v", s.Target, s.State, s.Readiness)
	a := s.Assignment
	if s.Generation > 0 {
		fmt.Fprintf(&b, "; generation %d of %q, %v old, with %d slices over %d endpoints, %d unknown to the resolver",
			s.Generation, a.Target, a.Age.Round(time.Millisecond), a.Slices, a.Endpoints, s.UnknownOwners)
	}
	if a.StaleFor > 0 {
		fmt.Fprintf(&b, "; out of touch with the sharding service for %v", a.StaleFor.Round(time.Millisecond))
	}
	states := make(map[connectivity.State]int)
	for _, e := range s.Endpoints {
		states[e.State]++
	}
	fmt.Fprintf(&b, "; %d endpoints", len(s.Endpoints))
	for _, state := range slices.Sorted(maps.Keys(states)) {
		fmt.Fprintf(&b, ", %d %v", states[state], state)
	}
	fmt.Fprintf(&b, "; picks: %d ready, %d queued, %d failed, %d dropped", s.Picks.Ready, s.Picks.Queued, s.Picks.Failed, s.Picks.Dropped)
	return b.String()
}

// Status returns a snapshot of the channel's main route. It costs the number of
// endpoints.
func (r *Router) Status() Status { return r.main.Load().status() }

func (rt *route) status() Status {
	s := Status{
		State:            connectivity.State(rt.state.Load()),
		Config:           rt.config.Load(),
		Assignment:       rt.watcher.Status(),
		Readiness:        rt.readiness(),
		Connections:      rt.router.connectionTotals.counts(),
		UnknownSelectors: rt.router.unknown.count.Load(),
		ResolverUpdates:  rt.router.faults.updates.Load(),
		ResolverErrors:   rt.router.faults.resolverErrors.Load(),
		EmptyUpdates:     rt.router.faults.emptyUpdates.Load(),
		ConfigErrors:     rt.router.faults.configErrors.Load(),
		Retiring:         rt.router.left.count(),
	}
	s.Selectors, s.Picks = rt.selectors()
	if m := rt.endpoints.Load(); m != nil {
		s.Membership = m.generation
	}
	if err := rt.resolverError.Load(); err != nil {
		s.LastResolverError = *err
	}
	if err := rt.configError.Load(); err != nil {
		s.LastConfigError = *err
	}
	pub := rt.current.Load()
	if pub == nil {
		return s
	}
	if p := rt.policy.Load(); p != nil {
		s.Authority = p.opts.Authority
		s.AllUnhealthy = level(p.picker.worst.Load()) == unhealthy
	}
	s.Target = pub.target
	if pub.slices != nil {
		s.Generation = pub.slices.Generation
	}
	s.UnknownOwners = pub.unknown
	s.Endpoints = make([]EndpointStatus, len(pub.view.endpoints))
	for i, ep := range pub.view.endpoints {
		s.Endpoints[i] = rt.endpointStatus(ep)
	}
	return s
}

func (rt *route) endpointStatus(ep *endpoint) EndpointStatus {
	cur := ep.cur.Load()
	s := EndpointStatus{
		Name:     ep.name,
		Address:  ep.member.Info().Address,
		State:    cur.connectivity,
		Since:    cur.since,
		Picks:    ep.member.Picks(),
		Pending:  ep.member.Pending(),
		Health:   ep.cell.Load().State(),
		Draining: ep.flags.Load()&draining != 0,

		Connections: ep.connectionStates(),
	}
	if d, off := rt.disabled(ep); off {
		s.Disabled = &d
	}
	if g := ep.guard.Load(); g != nil {
		s.RetryAfter = (*g).RetryAfter()
	}
	return s
}

// selectors is the status of each selector, and what all of them, and those that
// are gone, have counted.
func (rt *route) selectors() (all []SelectorStatus, total PickCounts) {
	r := rt.router
	r.mu.Lock()
	defer r.mu.Unlock()
	total = r.removed.counts()
	for _, sl := range rt.slots.Load().all() {
		s := sl.status()
		total.add(s.Picks)
		all = append(all, s)
	}
	return all, total
}

// status is called under the Router's mu.
func (sl *slot) status() SelectorStatus {
	sel := sl.selector
	s := SelectorStatus{
		Name:    sel.name,
		Picks:   sel.counts.counts(),
		History: slices.Clone(sel.history),
		BadResults: map[string]uint64{
			"out_of_range": sel.bad.outOfRange.Load(), "excluded": sel.bad.excluded.Load(), "panic": sel.bad.panicked.Load(),
		},
	}
	if sel.rule != nil {
		s.Policy, s.Generation, s.Source = sel.rule.policy.String(), sel.rule.generation, sel.rule.source
		s.Kind = sel.rule.policy.Kind()
	}
	sl.mu.Lock()
	defer sl.mu.Unlock()
	s.LastBuildError = sl.lastErr
	if cur := sl.cur.Load(); cur != nil {
		s.InForce, s.Membership = cur.rule.generation, cur.membership
		if m := sl.members; m != nil && !cur.rule.policy.Built() {
			s.Membership = m.generation
		}
	}
	if sl.pipeline != nil {
		b := sl.pipeline.Stats()
		s.Builds = BuildStatus{b.Builds, b.Failed, b.Coalesced, b.Queue, b.Build}
	}
	return s
}

func (c *counters) counts() PickCounts {
	n := PickCounts{
		Ready: c.ready.load(), Queued: c.queued.Load(), Failed: c.failed.Load(), Dropped: c.dropped.Load(),
		Keyless: c.keyless.Load(), Refused: c.refused.Load(), Retries: c.retries.Load(), Fallbacks: make(map[string]uint64, reasons),
	}
	for r := range reasons {
		n.Fallbacks[r.String()] = c.fallbacks[r].Load()
	}
	return n
}

func (c *PickCounts) add(o PickCounts) {
	c.Ready += o.Ready
	c.Queued += o.Queued
	c.Failed += o.Failed
	c.Dropped += o.Dropped
	c.Keyless += o.Keyless
	c.Refused += o.Refused
	c.Retries += o.Retries
	for r, n := range o.Fallbacks {
		c.Fallbacks[r] += n
	}
}
