package balancer

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/balancer/selection"
)

// route is what one policy needs beyond its own life: the assignment and the
// last config.
type route struct {
	router  *Router
	watcher *assignment.Watcher

	// viewing guards health, what the registry knows of the route's endpoints, nil
	// without one. Nothing else is locked under it.
	viewing  sync.Mutex
	health   *health.View
	registry *health.Registry // that health is of
	ended    bool             // there is to be no other view

	// policy is the one in use: stored by claim and release, loaded by the
	// watcher's goroutines.
	policy atomic.Pointer[policy]

	// listed are the selectors of the newest LB config: guarded by the Router's mu.
	listed map[string]selection.Policy

	// The rest is stored by the policy's goroutine and loaded by whoever asks.

	config        atomic.Pointer[Config]
	current       atomic.Pointer[published]
	state         atomic.Int32 // connectivity.State as last reported
	resolverError atomic.Pointer[error]
	configError   atomic.Pointer[error]

	// slots are the selectors: stored under the Router's mu, loaded by picks.
	slots atomic.Pointer[slotTable]
	// planning is held while plans are made and stored, so that an older one never comes
	// last. Nothing else is locked under it.
	planning sync.Mutex
	// endpoints is the newest membership that the policy made; its generation goes
	// on when the channel was idle. Stored by the policy, nil before the first.
	endpoints atomic.Pointer[membership]
}

func newRoute(r *Router) *route {
	rt := &route{router: r}
	t := &slotTable{}
	for i, s := range r.selectors {
		slot := newSlot(s, rt)
		if i == 0 {
			t.main = slot
		} else {
			t.named = append(t.named, slot)
		}
		if s.rule != nil {
			slot.setRule(s.rule)
		}
	}
	rt.slots.Store(t)
	rt.watchHealth(r.live.Load().health)
	rt.watcher = assignment.NewWatcher(r.options.Assignment, rt.assignmentChanged)
	return rt
}

func (rt *route) log() *slog.Logger { return rt.router.options.Logger }

// errNoProvider is what a policy without a channel factory fails with.
var errNoProvider = errors.New("the resolver state carries no ClientConnProvider; dial with package sdk, or call balancer.SetClientConnProvider in your resolver")

// configure points the watcher at the sharding service that c names, or ends the
// stream where there is none.
func (rt *route) configure(c *Config, s resolver.State) {
	if !c.Sharded() {
		rt.watcher.Suspend()
		return
	}
	provider := ClientConnProviderFromResolverState(s)
	if provider == nil {
		provider = func(string) (grpc.ClientConnInterface, func(), error) { return nil, nil, errNoProvider }
	}
	rt.watcher.Configure(assignment.Config{
		ChannelKey:     c.ChannelFactoryKey,
		Target:         c.target(localityFrom(s)),
		Revision:       c.Revision,
		InitialTimeout: c.InitialAssignmentTimeout,
	}, assignment.Provider(provider))
}

// assignmentChanged is called from the watcher's goroutines.
func (rt *route) assignmentChanged() {
	if p := rt.policy.Load(); p != nil {
		p.assignmentChanged()
	}
	rt.router.assignmentChanged(rt)
}

func (rt *route) published(pub *published) {
	// After picks can see it: calls put their key under the header it names.
	rt.config.Store(pub.config)
	rt.current.Store(pub)
	rt.router.changes.send()
}

func (rt *route) reported(s connectivity.State) {
	rt.state.Store(int32(s))
	rt.router.changes.send()
}

// release is called by the policy that holds the route when it closes.
func (rt *route) release() {
	rt.current.Store(nil)
	if m := rt.endpoints.Load(); m != nil {
		rt.endpoints.Store(&membership{generation: m.generation}) // the endpoints end here
	}
	for _, sl := range rt.slots.Load().all() {
		sl.setMembership(nil)
	}
	rt.state.Store(int32(connectivity.Idle))
	rt.router.release(rt)
	rt.replan(rt.slots.Load().all()...)
}

func (rt *route) close() {
	for _, sl := range rt.slots.Load().all() {
		sl.close()
	}
	rt.viewing.Lock()
	rt.ended = true
	rt.viewing.Unlock()
	rt.watchHealth(nil)
	rt.watcher.Close()
}

// wakeUp has queued RPCs picked again.
func (rt *route) wakeUp() { rt.post(func(in *inbox) { in.selection = true }) }

// post tells the policy, while there is one.
func (rt *route) post(add func(*inbox)) {
	if p := rt.policy.Load(); p != nil {
		p.post(add)
	}
}

// single says whether there is one endpoint, so that there is nothing to choose.
func (rt *route) single() bool {
	pub := rt.current.Load()
	return pub != nil && len(pub.view.endpoints) == 1
}

func (rt *route) readiness() Readiness {
	var ready Readiness
	switch s := rt.watcher.State(); s.Phase {
	case assignment.Assigned:
		ready.Assigned = true
	case assignment.Failed:
		c := rt.config.Load()
		ready.Fallback = c != nil && c.EnableFallback
	}
	ready.Connected = connectivity.State(rt.state.Load()) == connectivity.Ready
	return ready
}

// routable says whether RPCs that name no selector can be routed now.
func (rt *route) routable() bool {
	pub, f := rt.current.Load(), rt.slots.Load().main.cur.Load()
	if pub == nil || pub.fail != nil || f == nil {
		return false
	}
	return pub.own(f).rule.policy.Kind() != selection.KindSliced || pub.routable()
}

// missing says what stands in the way of routing.
func (rt *route) missing() string {
	switch pub := rt.current.Load(); {
	case pub == nil:
	case pub.fail != nil:
		return pub.fail.Error()
	case rt.slots.Load().main.cur.Load() == nil:
		if err := rt.slots.Load().main.unbuilt(pub.target); err != nil {
			return err.Error()
		}
		return "the first data of the default selector is not built yet"
	case pub.unknown > 0 && !pub.routable():
		return pub.strangers()
	}
	switch s := rt.watcher.State(); {
	case s.Err != nil:
		return s.Err.Error()
	case s.Phase == assignment.Unconfigured:
		if err := rt.resolverError.Load(); err != nil {
			return (*err).Error()
		}
		return "the name resolver has given no endpoints and LB config yet"
	}
	if pending := rt.watcher.Pending(); pending != "" {
		return "no assignment yet from the sharding service " + pending
	}
	return "an assignment has come, but is not in use yet"
}
