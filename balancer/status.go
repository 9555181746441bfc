package balancer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/assignment"
)

// Status is a snapshot of a Router for operators. It holds no keys.
type Status struct {
	// Target is the channel's dial target, "" while the channel is idle.
	Target string
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
	// ResolverErrors, EmptyUpdates count what the name resolver got wrong.
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
	rt.tally.Lock()
	defer rt.tally.Unlock()
	s := Status{
		State:          connectivity.State(rt.state.Load()),
		Config:         rt.config.Load(),
		Assignment:     rt.watcher.Status(),
		Readiness:      rt.readiness(),
		ResolverErrors: rt.router.counts.resolverErrors.Load(),
		EmptyUpdates:   rt.router.counts.emptyUpdates.Load(),
		ConfigErrors:   rt.router.counts.configErrors.Load(),
		Picks: PickCounts{
			Ready:     rt.router.counts.ready.Load(),
			Queued:    rt.router.counts.queued.Load(),
			Failed:    rt.router.counts.failed.Load(),
			Dropped:   rt.router.counts.dropped.Load(),
			Keyless:   rt.router.counts.keyless.Load(),
			Fallbacks: make(map[string]uint64, reasons),
		},
	}
	for r := range reasons {
		s.Picks.Fallbacks[r.String()] = rt.router.counts.fallbacks[r].Load()
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
	s.Target = pub.target
	if pub.slices != nil {
		s.Generation = pub.slices.Generation
	}
	s.UnknownOwners = pub.unknown
	s.Endpoints = make([]EndpointStatus, len(pub.view.endpoints))
	for i, ep := range pub.view.endpoints {
		cur := ep.cur.Load()
		s.Endpoints[i] = EndpointStatus{
			Name:    ep.name,
			Address: *ep.addr.Load(),
			State:   cur.connectivity,
			Since:   cur.since,
			Picks:   ep.picks.load(),
		}
		s.Picks.Ready += s.Endpoints[i].Picks
	}
	return s
}
