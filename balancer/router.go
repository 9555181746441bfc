package balancer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
	"github.com/slicewire/slicewire/internal/rebuild"
)

// ErrClosed is returned by calls on a closed Router.
var ErrClosed = errors.New("slicewire: the router is closed")

// RouterOptions are the settings of a Router. The zero value is ready to use.
type RouterOptions struct {
	// Logger receives what operators should know. Nil discards it. Package sdk
	// gives it the attribute "target", by which channels can be told apart.
	Logger *slog.Logger
	// Assignment are the settings of the sharding service's client; its Logger
	// is replaced by Logger.
	Assignment assignment.Options
	// KeepLastEndpoints keeps the last endpoints in use when the name resolver
	// gives an empty list. Off, RPCs fail until it gives some (A119).
	KeepLastEndpoints bool
	// OnReassigned, if set, is told which key ranges changed hands, from one
	// goroutine, in order; assignments that come while it runs are folded into
	// one event.
	OnReassigned func(Reassignment)
	// Gate is what builds of assignments and of selectors' data pass through. Nil
	// means one that all Routers of the process share.
	Gate *Gate
	// Health is the registry that has the endpoints probed, for this Router and for
	// all others that have it. The Router does not close it. Nil: nobody probes.
	Health *health.Registry
	// FailAllUnhealthy fails RPCs while the probes of every endpoint fail. Off, such
	// endpoints are used as if they were healthy, since it may be the probes that are
	// wrong. Slices never look at more than connectivity (A119).
	FailAllUnhealthy bool
	// Admission is asked whether an endpoint may take an attempt, after a policy
	// chose it. Nil admits all.
	Admission admission.Admission
	// Observer is told what happens and is not in Status. Nil: nobody is told.
	Observer Observer
	// RefuseUnknownSelectors fails RPCs that name a selector the Router does not
	// have. Off, the default selector routes them. They are counted and logged
	// either way.
	RefuseUnknownSelectors bool
	// BadResultsUseP2C lets p2c choose where a custom policy gave a bad result. Off,
	// the attempt fails with UNAVAILABLE.
	BadResultsUseP2C bool
	// StrictSingle refuses publications FromCode and FromConfig while the channel has a
	// single endpoint.
	StrictSingle bool
	// RetireTimeout bounds how long an endpoint that has left stays connected for
	// selectors whose data is from before. Default 10 s.
	RetireTimeout time.Duration
	// MaxRetiring bounds how many endpoints that have left stay connected so at once;
	// of more the ones that left first are closed, and their RPCs in flight go on.
	// Default: as many as the endpoint list has, and at least 64, so that a list may be
	// replaced as a whole.
	MaxRetiring int
	// Connections says how many connections there are, and for how long each; see
	// [Router.SetConnections] for a change at run time. Settings that Validate refuses
	// are logged, and the default ones used.
	Connections Connections
}

// DefaultRetireTimeout is RouterOptions.RetireTimeout unless it is set.
const DefaultRetireTimeout = 10 * time.Second

// Gate lets one build at a time through, for any number of Routers, and bounds
// how long it waits for what a build replaced to be released (seed 001, rebuild
// gate).
type Gate struct{ gate *rebuild.Gate }

// NewGate makes a Gate.
func NewGate() *Gate { return &Gate{rebuild.NewGate(rebuild.GateOptions{})} }

var processGate = NewGate()

// Router is the routing state behind one gRPC channel. It outlives the LB
// policy, which grpc-go closes when the channel goes idle: assignment, client
// UUID and counts go on. Hand it to the policy with [SetRouter]; use one Router
// for one channel. Its methods may be called concurrently.
type Router struct {
	options RouterOptions // of which what live has is out of date
	// live are those that may change: stored under mu, loaded by picks.
	live atomic.Pointer[liveOptions]

	faults faults
	gate   *rebuild.Gate
	moves  *moves // nil unless somebody listens
	// disabled are the endpoints that no pick may choose, by name: stored under mu.
	disabled atomic.Pointer[map[string]Disabled]
	unknown  unknownSelectors
	left     departed
	// connections are the settings with their defaults, nil for the default ones:
	// stored under mu.
	connections      atomic.Pointer[Connections]
	revived          atomic.Bool // see Revive
	connectionTotals connectionTotals

	// main is the route that outlives its policy: stored under mu.
	main atomic.Pointer[route]

	mu     sync.Mutex          // guards the fields below
	others map[*route]struct{} // of policies beside the first, as under xDS priorities
	closed bool
	// selectors, the default one first, and what removed ones had counted.
	selectors []*Selector
	removed   removedCounts
	// removing are the selectors whose builds have to end yet: added to under mu.
	removing sync.WaitGroup

	changes broadcast
	// unresolved is why there is no LB config yet, nil if it is on its way. The
	// name resolver's goroutines store, calls load.
	unresolved atomic.Pointer[error]
}

// NewRouter makes a Router. It dials nothing; Close it when its channel is
// closed.
func NewRouter(o RouterOptions) *Router {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Gate == nil {
		o.Gate = processGate
	}
	o.Assignment.Logger = o.Logger
	o.Assignment.Gate = o.Gate.gate
	r := &Router{options: o, gate: o.Gate.gate, others: make(map[*route]struct{})}
	if o.Observer != nil {
		r.options.Assignment.Observer = updates{r}
	}
	r.live.Store(o.live())
	r.disabled.Store(&map[string]Disabled{})
	if err := o.Connections.Validate(); err != nil {
		o.Logger.Error("the settings of connections were refused; the default ones are in force", slog.Any("error", err))
	} else {
		r.connections.Store(o.Connections.filled())
	}
	r.selectors = []*Selector{{name: DefaultSelector, router: r, counts: new(counters)}}
	if o.OnReassigned != nil {
		r.moves = newMoves(o.OnReassigned)
	}
	r.main.Store(newRoute(r))
	return r
}

// claim gives p a route: the Router's own, or, where another policy of the same
// channel holds that, one that ends with p.
func (r *Router) claim(p *policy) *route {
	r.mu.Lock()
	if main := r.main.Load(); main.policy.CompareAndSwap(nil, p) {
		r.mu.Unlock()
		return main
	}
	other := newRoute(r)
	other.policy.Store(p)
	closed := r.closed
	if !closed {
		r.others[other] = struct{}{}
	}
	r.mu.Unlock()
	if closed {
		other.close()
	}
	return other
}

// release takes rt back from the policy that held it. The Router's own route
// goes on without one, unless another policy is left: then that one's route
// takes its place, for it is the channel's.
func (r *Router) release(rt *route) {
	r.mu.Lock()
	rt.policy.Store(nil)
	ends := r.main.Load() != rt
	delete(r.others, rt)
	if !ends && !r.closed {
		for next := range r.others {
			delete(r.others, next)
			r.main.Store(next)
			ends = true
			break
		}
	}
	r.mu.Unlock()
	if ends {
		rt.close()
	}
	r.assignmentChanged(r.main.Load())
}

// Health is the registry in force, nil where nobody probes.
func (r *Router) Health() *health.Registry { return r.live.Load().health }

func (r *Router) defaultSelector() *Selector {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.selectors[0]
}

// assignmentChanged tells who waits, and who listens to moves of the main route.
func (r *Router) assignmentChanged(rt *route) {
	if r.moves != nil && r.main.Load() == rt {
		r.moves.offer(rt.watcher.State().Assignment)
	}
	r.changes.send()
}

// routes returns all routes, the Router's own first.
func (r *Router) routes() []*route {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.allRoutes()
}

// allRoutes is routes for who holds mu.
func (r *Router) allRoutes() []*route {
	all := []*route{r.main.Load()}
	for o := range r.others {
		all = append(all, o)
	}
	return all
}

// Close stops the sharding service's client and releases its channel, ends the
// builds of selectors, and waits until nothing runs any more. Nothing is published
// afterwards. It may be called more than once. Close the gRPC channel first: what
// it still does is not waited for.
func (r *Router) Close() {
	r.mu.Lock()
	r.closed = true
	for _, s := range r.selectors {
		s.closed = true
	}
	r.mu.Unlock()
	for _, rt := range r.routes() {
		rt.close()
	}
	r.removing.Wait()
	if r.moves != nil {
		r.moves.close()
	}
	r.changes.send()
}

// WaitDetail says more about what an RPC waits for, given the delay type of gRFC
// A121, or "" if there is nothing to add.
func (r *Router) WaitDetail(delayType string) string {
	if delayType != waitAssignment.DelayType {
		return ""
	}
	return r.main.Load().watcher.Pending()
}

// Config returns the LB config in force, nil before the first.
func (r *Router) Config() *Config { return r.main.Load().config.Load() }

// PolicyOf returns the policy that routes calls which ask for a selector as ctx
// does, the zero Policy where none is in force yet. It is a few loads.
func (r *Router) PolicyOf(ctx context.Context) selection.Policy {
	slots := r.main.Load().slots.Load()
	sl := slots.of(callinfo.From(ctx))
	if sl == nil {
		sl = slots.main
	}
	rule := sl.wanted.Load() // while its first data is built there is nothing in force
	if f := sl.cur.Load(); f != nil {
		rule = f.rule
	}
	switch {
	case rule == nil:
		return selection.Policy{}
	case rule.source == FromDefault && r.Config() != nil:
		return r.Config().defaultPolicy()
	}
	return rule.policy
}

// Awake says whether gRPC runs an LB policy on the Router: it does not while the channel
// is idle, and the next RPC waits for the name resolver.
func (r *Router) Awake() bool { return r.main.Load().policy.Load() != nil }

// SelectorOf is the name of the selector that an RPC with ctx goes by: the one that it
// names if there is one, else the default one.
func (r *Router) SelectorOf(ctx context.Context) string {
	slots := r.main.Load().slots.Load()
	if sl := slots.of(callinfo.From(ctx)); sl != nil {
		return sl.selector.name
	}
	return slots.main.selector.name
}

// Readiness says how far a client is.
type Readiness struct {
	// Assigned says that an assignment is in force.
	Assigned bool
	// Connected says that at least one endpoint is READY. Connections are made as
	// RPCs want them, so a client that has sent none is not connected.
	Connected bool
	// Fallback says that there is no assignment and RPCs go to any endpoint.
	// Single slices may be in fallback without it: see PickCounts.Fallbacks.
	Fallback bool
}

// String says it in words, as in "assigned and connected".
func (r Readiness) String() string {
	switch {
	case r.Fallback:
		return "in fallback"
	case r.Assigned && r.Connected:
		return "assigned and connected"
	case r.Assigned:
		return "assigned"
	case r.Connected:
		return "connected, not assigned"
	}
	return "not ready"
}

// Readiness returns the present state of the channel's main route.
func (r *Router) Readiness() Readiness { return r.main.Load().readiness() }

// WaitReady waits until RPCs can be routed: by an assignment of which the name
// resolver knows an endpoint, or by fallback. It returns at once when that is so
// already. The error wraps ctx's, or is ErrClosed, and says what is missing.
func (r *Router) WaitReady(ctx context.Context) (Readiness, error) {
	var ready Readiness
	err := r.waitFor(ctx, "not ready", func() bool {
		ready = r.Readiness()
		return r.main.Load().routable()
	})
	return ready, err
}

// WaitConfig waits for the first LB config; its errors are those of WaitReady.
// If failFast is set an error of the name resolver ends the wait as well.
func (r *Router) WaitConfig(ctx context.Context, failFast bool) (*Config, error) {
	var failed error
	err := r.waitFor(ctx, "no LB config", func() bool {
		if r.main.Load().config.Load() != nil {
			failed = nil
			return true
		}
		if e := r.unresolved.Load(); e != nil && failFast {
			failed = *e
		}
		return failed != nil
	})
	if err == nil {
		err = failed
	}
	return r.main.Load().config.Load(), err
}

// ResolverAnswered notes that the name resolver of a channel that has no LB
// policy yet has given what one needs.
func (r *Router) ResolverAnswered() { r.unresolved.Store(nil) }

// ResolverFailed notes an error of the name resolver of a channel that has no
// LB policy yet. Later gRPC tells the policy.
func (r *Router) ResolverFailed(err error) {
	r.unresolved.Store(&err)
	r.faults.resolverErrors.Add(1)
	r.main.Load().resolverError.Store(&err)
	r.options.Logger.Warn("the name resolver failed", slog.Any("error", err))
	r.changes.send()
}

// ConfigRejected notes that a service config was refused and changed nothing.
func (r *Router) ConfigRejected(err error) {
	r.faults.configErrors.Add(1)
	r.main.Load().configError.Store(&err)
	r.options.Logger.Warn("a service config was refused; what was in force stays", slog.Any("error", err))
}

func (r *Router) waitFor(ctx context.Context, lack string, met func() bool) error {
	for {
		changed := r.changes.wait()
		r.mu.Lock()
		closed := r.closed
		r.mu.Unlock()
		if closed {
			return ErrClosed
		}
		if met() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("slicewire: %s: %s: %w", lack, r.main.Load().missing(), ctx.Err())
		}
	}
}

// broadcast wakes everybody who waits.
type broadcast struct {
	mu sync.Mutex // guards ch
	ch chan struct{}
}

// wait returns a channel that is closed by the next send.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
