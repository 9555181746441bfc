package balancer

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/attributes"
	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/balancer/selection"
)

// policy is the LB policy of one gRPC channel while it is not idle: a thin
// adapter between gRPC, the endpoints' children and the route, which outlives
// it.
//
// One goroutine (run) owns the endpoints and their children, and is the only
// one that calls into gRPC. Everything else reaches it through the inbox, so no
// child, resolver or provider is ever called under a lock, a burst of changes is
// handled as one, and gRPC's own goroutines only drop a note.
type policy struct {
	cc     lb.ClientConn
	opts   lb.BuildOptions
	target string
	picker *picker

	mu    sync.Mutex // guards inbox
	inbox inbox
	wake  chan struct{} // capacity 1: there is something in the inbox
	// closing is closed when Close begins, done when run has returned.
	closing, done chan struct{}
	closeOnce     sync.Once
	waking        atomic.Bool // a timer of wakeAfter runs

	// The fields below belong to run.

	route      *route // nil before the first update
	private    *Router
	attributes *attributes.Attributes // of the resolver's state, for children
	config     *Config
	oldHeaders []string // key headers of earlier configs, the newest last
	view       *view
	counts     [connectivity.Shutdown + 1]int // endpoints by state
	reported   connectivity.State
	started    bool // a picker has been given to gRPC
	mustReport bool // queued RPCs may hold a connection that is gone
	useful     bool // something changed that queued RPCs may be waiting for
	strangers  bool // the newest published value had unknown owners
	// ready is the table that direct policies choose from, once one does: from then
	// on all endpoints are kept connected.
	ready    *selection.Table
	eager    bool
	retiring []retiree
	// retireTimer runs while endpoints retire, nil otherwise.
	retireTimer *time.Timer
	// standbyTimer runs while keepReady waits, nil before the first time.
	standbyTimer *time.Timer
	// classes count the endpoints by class; allIll says that the unhealthy ones are
	// used because there are no others.
	classes [classes]int
	allIll  bool
}

func newPolicy(cc lb.ClientConn, opts lb.BuildOptions) *policy {
	p := &policy{
		cc:      cc,
		opts:    opts,
		target:  opts.Target.String(),
		view:    newView(nil),
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
	}
	p.picker = &picker{policy: p}
	go p.run() // ends with Close, which waits for it
	return p
}

// errNoConfig answers a channel whose service config names the policy and
// gives it nothing. gRPC always parses a config first, so this is a parent
// policy's mistake.
var errNoConfig = errors.New("slicewire: the LB policy got no LB config from its parent")

// UpdateClientConnState takes what the resolver says. gRPC calls it from one
// goroutine.
func (p *policy) UpdateClientConnState(s lb.ClientConnState) error {
	if _, ok := s.BalancerConfig.(*Config); !ok {
		return errNoConfig
	}
	u := &update{s, usableEndpoints(s.ResolverState)}
	p.post(func(in *inbox) { in.update, in.resolverError = u, nil })
	if len(u.usable) == 0 {
		return lb.ErrBadResolverState // gRPC asks the resolver again, with backoff
	}
	return nil
}

// ResolverError keeps the last good endpoints in use (field case EC-08).
func (p *policy) ResolverError(err error) {
	p.post(func(in *inbox) { in.resolverError = err })
}

// UpdateSubConnState is not used: the children listen to their SubConns.
func (p *policy) UpdateSubConnState(lb.SubConn, lb.SubConnState) {}

// ExitIdle does nothing: connections are made when a pick wants one (A119).
func (p *policy) ExitIdle() {}

// Close ends the children and waits for the policy's goroutine.
func (p *policy) Close() {
	p.closeOnce.Do(func() {
		close(p.closing)
		p.post(func(in *inbox) { in.closed = true })
	})
	<-p.done
}

// endpointChanged is called by any goroutine when a child said something.
func (p *policy) endpointChanged(ep *endpoint) {
	if ep.changePending.CompareAndSwap(false, true) {
		p.add(&p.inbox.changed, ep)
	}
}

// requestConnection is called by picks.
func (p *policy) requestConnection(ep *endpoint) {
	if ep.connectAsked.CompareAndSwap(false, true) {
		p.add(&p.inbox.connect, ep)
	}
}

// wantAll is called by picks that choose among all endpoints that are READY.
func (p *policy) wantAll() {
	p.post(func(in *inbox) { in.all = true })
}

// wakeAfter has queued RPCs picked again after d, 10 ms to 1 s: nothing else tells
// when admission has changed its mind, and d is of one endpoint where another may
// be admitted before.
func (p *policy) wakeAfter(d time.Duration) {
	if !p.waking.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(min(max(d, 10*time.Millisecond), time.Second), func() {
		p.waking.Store(false)
		p.post(func(in *inbox) { in.again = true })
	})
}

// assignmentChanged is called by the route when its watcher has a new state. It
// returns once picks use it, so that the ack that follows tells the truth.
func (p *policy) assignmentChanged() {
	inForce := make(chan struct{})
	p.post(func(in *inbox) { in.assignment = append(in.assignment, inForce) })
	select {
	case <-inForce:
	case <-p.closing:
	}
}

func (p *policy) run() {
	defer close(p.done)
	for range p.wake {
		p.mu.Lock()
		in := p.inbox
		p.inbox = inbox{}
		p.mu.Unlock()
		if in.closed {
			p.shutDown()
			return
		}
		if in.update != nil {
			p.handleUpdate(in.update)
		} else if in.assignment != nil && p.config != nil {
			p.publish()
		}
		for _, inForce := range in.assignment {
			close(inForce)
		}
		if in.resolverError != nil {
			p.handleResolverError(in.resolverError)
		}
		for _, ep := range in.connect {
			p.handleConnect(ep)
		}
		for _, ep := range in.changed {
			p.handleChange(ep)
		}
		if in.connections {
			p.applyConnections()
		}
		if in.options && p.route != nil {
			p.applyOptions(in.guards)
		}
		for _, ep := range in.tend {
			ep.pool.asked.Store(false) // before its wishes are taken
			p.tend(ep)
		}
		if in.all && !p.eager {
			p.connectAll()
		}
		p.useful = p.useful || in.again || in.selection
		if in.selection && p.route != nil {
			p.offerMembership()
			p.barRetiring()
			p.retire(false)
		}
		if in.retired {
			p.retireTimer = nil
			p.retire(true)
			if len(p.retiring) > 0 {
				p.retireTimer = time.AfterFunc(time.Until(p.retiring[0].until), func() { p.post(func(in *inbox) { in.retired = true }) })
			}
		}
		p.judgeHealth()
		p.storeReady()
		p.keepReady()
		p.report()
		for _, done := range in.reported {
			close(done)
		}
	}
}

func (p *policy) shutDown() {
	if p.route != nil {
		p.route.router.left.add(p.view.endpoints)
	}
	for _, ep := range p.view.endpoints {
		ep.close()
	}
	p.retire(true)
	if p.retireTimer != nil {
		p.retireTimer.Stop()
	}
	if p.standbyTimer != nil {
		p.standbyTimer.Stop()
	}
	if p.route != nil {
		p.route.release()
		p.route.router.left.prune()
	}
	if p.private != nil {
		p.private.Close()
	}
}

// handleUpdate puts one resolver update in force: endpoints and config.
func (p *policy) handleUpdate(u *update) {
	s := u.ResolverState
	if p.route == nil {
		p.claimRoute(s)
	}
	p.route.router.faults.updates.Add(1)
	p.config = u.BalancerConfig.(*Config)
	p.publishPolicies()
	// Of the config that calls have seen, perhaps from before an idle time.
	if old := p.route.config.Load(); old != nil && old.KeyHeader != p.config.KeyHeader {
		p.oldHeaders = withHeader(p.oldHeaders, old.KeyHeader)
	}
	// Children use health listeners, so that health checks count (A119).
	p.attributes = pickfirst.EnableHealthListener(s).Attributes
	p.route.configure(p.config, s)
	gone := p.updateEndpoints(u.usable)
	p.route.router.left.add(gone)
	p.judgeHealth()
	p.storeReady() // before the first pick of a selector that wants it
	p.publish()
	p.applyDisabled()
	p.offerMembership()
	// Only once no new pick can find them.
	p.leave(gone)
}

// withHeader returns a new list that has h as its last member. A call may queue
// over several changes of the header, but not over any number.
func withHeader(headers []string, h string) []string {
	const kept = 8
	list := slices.DeleteFunc(slices.Clone(headers), func(old string) bool { return old == h })
	return append(list[max(0, len(list)-kept+1):], h)
}

// claimRoute takes the route that lives in the SDK's Router, or in one of the
// policy's own.
func (p *policy) claimRoute(s resolver.State) {
	router := (*Router)(nil)
	if a := attachedFrom(s); a != nil {
		router = a.router
	}
	if router == nil {
		p.private = NewRouter(RouterOptions{})
		router = p.private
	}
	p.route = router.claim(p)
}

// updateEndpoints makes the view of a new endpoint list and returns the
// endpoints that are not in it. Its cost grows with the list alone.
func (p *policy) updateEndpoints(usable []namedEndpoint) (gone []*endpoint) {
	if len(usable) == 0 {
		p.route.router.faults.emptyUpdates.Add(1)
		p.route.log().Warn("the name resolver gave no endpoints",
			slog.Bool("kept_last", p.route.router.live.Load().keepLastEndpoints && len(p.view.endpoints) > 0))
		if p.route.router.live.Load().keepLastEndpoints {
			return nil
		}
	}
	old := p.view
	next := make([]*endpoint, len(usable))
	var moved []*endpoint
	kept := 0
	for i, u := range usable {
		ep := old.byName[u.name]
		if ep == nil {
			ep = p.addEndpoint(u.name)
		} else {
			kept++
		}
		if ep.setTarget(u.target) && len(ep.pool.conns) > 0 {
			moved = append(moved, ep)
		}
		next[i] = ep
	}
	p.view = newView(next)
	p.setTargets()
	if kept < len(old.endpoints) {
		for _, ep := range old.endpoints {
			if p.view.byName[ep.name] != ep {
				p.counts[ep.counted]--
				p.removeReady(ep)
				p.forget(ep)
				gone = append(gone, ep)
			}
		}
	}
	for _, ep := range moved {
		ep.moved(p)
	}
	if p.eager {
		for _, ep := range next {
			p.keepConnected(ep)
		}
	}
	// A pick may hold a connection that is about to be closed.
	p.mustReport = p.mustReport || len(gone) > 0 || len(moved) > 0
	return gone
}

// publish makes the value that picks read from config, assignment and view.
func (p *policy) publish() {
	state := p.route.watcher.State()
	pub := &published{
		target:     p.target,
		route:      p.route,
		byDefault:  &inForce{rule: &rule{policy: p.config.defaultPolicy()}},
		config:     p.config,
		oldHeaders: p.oldHeaders,
		phase:      state.Phase,
		slices:     state.Assignment,
		view:       p.view,
	}
	if state.Err != nil {
		pub.err = fmt.Errorf("slicewire: target %q: %w", p.target, plainError(state.Err))
	}
	if len(p.view.endpoints) == 0 {
		pub.fail = fmt.Errorf("slicewire: target %q: the name resolver gave no endpoints; RPCs fail until it gives some", p.target)
	}
	pub.resolveOwners()
	p.show(pub)
	p.useful = true
	p.warnOfStrangers(pub)
	p.route.published(pub)
}

// warnOfStrangers tells once when names begin not to match, and once when they
// do again: with fallback on, nothing else would.
func (p *policy) warnOfStrangers(pub *published) {
	switch {
	case pub.unknown > 0 && !p.strangers:
		p.route.log().Warn(pub.strangers(), slog.Int64("generation", pub.slices.Generation))
	case pub.unknown == 0 && p.strangers:
		p.route.log().Info("the name resolver knows all endpoints of the assignment again")
	}
	p.strangers = pub.unknown > 0
}

func (p *policy) handleResolverError(err error) {
	if p.route != nil {
		p.route.router.faults.resolverErrors.Add(1)
		p.route.resolverError.Store(&err)
		p.route.log().Warn("the name resolver failed; the last endpoints stay in use", slog.Any("error", err))
	}
	if len(p.view.endpoints) > 0 {
		return
	}
	p.show(&published{
		target: p.target,
		route:  p.route,
		view:   p.view,
		fail:   fmt.Errorf("slicewire: target %q: name resolution failed: %w", p.target, plainError(err)),
	})
	p.useful = true
}

// handleConnect acts on a pick's wish. An endpoint that has left meanwhile is
// never woken up (field case EC-07).
func (p *policy) handleConnect(ep *endpoint) {
	if !ep.removed && ep.cur.Load().connectivity == connectivity.Idle {
		ep.connect(p)
	}
	ep.connectAsked.Store(false) // afterwards: see mayAnswer
}

// handleChange counts one endpoint's new state. It costs the same however many
// endpoints and slices there are.
func (p *policy) handleChange(ep *endpoint) {
	ep.changePending.Store(false)
	// gRPC holds an RPC whose connection died between pick and send until the
	// next picker update. Older data may lead there when the endpoint has left.
	p.mustReport = ep.leftReady.Swap(false) || p.mustReport
	p.tend(ep)
	if ep.removed {
		return
	}
	now := ep.cur.Load().connectivity
	was := ep.counted
	if now != connectivity.Connecting {
		p.useful = true
	}
	if now != was {
		ep.counted = now
		p.counts[was]--
		p.counts[now]++
		p.view.count(now, 1)
		p.view.mark(ep, ep.usable(p.allIll))
		p.view.count(was, -1) // last, so that a pick finds it somewhere at any time
	} else {
		p.view.mark(ep, ep.usable(p.allIll)) // it was enabled, disabled or probed
	}
	p.classify(ep)
	if p.eager {
		p.markReady(ep)
		p.keepConnected(ep)
	}
}

// report tells gRPC the aggregated state, and wakes queued RPCs, if there is a
// reason to.
func (p *policy) report() {
	if p.picker.cur.Load() == nil {
		return // nothing was resolved yet
	}
	state := aggregate(p.counts)
	p.keepTrying(state)
	wake := p.useful && p.picker.queued.Swap(false)
	if p.started && !wake && !p.mustReport && state == p.reported {
		return
	}
	p.started, p.reported, p.mustReport, p.useful = true, state, false, false
	p.cc.UpdateState(lb.State{ConnectivityState: state, Picker: p.picker})
	if p.route != nil {
		p.route.reported(state)
	}
}

// keepTrying connects one IDLE endpoint when the channel looks bad and nothing
// is being tried, so that it recovers without picks (A119, aggregated
// connectivity state). It takes the first in the resolver's order.
func (p *policy) keepTrying(state connectivity.State) {
	if state != connectivity.Connecting && state != connectivity.TransientFailure {
		return
	}
	if p.counts[connectivity.Connecting] > 0 {
		return
	}
	if i := p.view.idle.next(0); i >= 0 {
		if ep := p.view.endpoints[i]; ep.cur.Load().connectivity == connectivity.Idle {
			ep.connect(p)
		}
	}
}
