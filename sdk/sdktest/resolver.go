package sdktest

import (
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"
)

// Resolver is a name resolver whose state is set by hand. Unlike
// google.golang.org/grpc/resolver/manual it serves any number of channels.
// Its methods return when every channel's policy has the update, and must not be
// called from inside one.
type Resolver struct {
	scheme     string
	resolveNow atomic.Int64

	// send makes updates reach every channel in one order. It is held while
	// channels are called, and taken before mu.
	send sync.Mutex

	mu            sync.Mutex // guards what follows
	state         resolver.State
	set           bool // state was set
	serviceConfig string
	channels      []*channel
	built         int
}

// channel is one grpc.ClientConn that resolves through the Resolver.
type channel struct {
	r  *Resolver
	cc resolver.ClientConn
}

// NewResolver makes a resolver for a scheme. It says nothing until the first
// update.
func NewResolver(scheme string) *Resolver { return &Resolver{scheme: scheme} }

// Scheme is the scheme of the targets.
func (r *Resolver) Scheme() string { return r.scheme }

// Build is called by gRPC.
func (r *Resolver) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	c := &channel{r: r, cc: cc}
	r.send.Lock()
	defer r.send.Unlock()
	r.mu.Lock()
	r.channels = append(r.channels, c)
	r.built++
	state, js, set := r.state, r.serviceConfig, r.set
	r.mu.Unlock()
	if set {
		c.update(state, js)
	}
	return c, nil
}

// UpdateState replaces the state and sends it to every channel. The service
// config of SetServiceConfig goes with it.
func (r *Resolver) UpdateState(s resolver.State) {
	r.edit(func(state *resolver.State) { *state = s })
}

// SetEndpoints replaces the endpoints of the state and keeps its attributes.
func (r *Resolver) SetEndpoints(endpoints ...resolver.Endpoint) {
	endpoints = slices.Clone(endpoints)
	r.edit(func(state *resolver.State) { state.Endpoints = endpoints })
}

// SetAttributes replaces the attributes of the state and keeps its endpoints.
func (r *Resolver) SetAttributes(a *attributes.Attributes) {
	r.edit(func(state *resolver.State) { state.Attributes = a })
}

// SetServiceConfig sends the service config, JSON, with the state; "" leaves the
// channels to their default one.
func (r *Resolver) SetServiceConfig(js string) {
	r.send.Lock()
	defer r.send.Unlock()
	r.mu.Lock()
	r.serviceConfig = js
	set := r.set
	r.mu.Unlock()
	if set {
		r.sendState()
	}
}

func (r *Resolver) edit(change func(*resolver.State)) {
	r.send.Lock()
	defer r.send.Unlock()
	r.mu.Lock()
	change(&r.state)
	r.set = true
	r.mu.Unlock()
	r.sendState()
}

// ReportError tells every channel that resolving failed. The state stays.
func (r *Resolver) ReportError(err error) {
	r.send.Lock()
	defer r.send.Unlock()
	r.mu.Lock()
	channels := slices.Clone(r.channels)
	r.mu.Unlock()
	for _, c := range channels {
		c.cc.ReportError(err)
	}
}

// State is the state in force.
func (r *Resolver) State() resolver.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// ResolveNows counts how often channels have asked for a new resolution.
func (r *Resolver) ResolveNows() int { return int(r.resolveNow.Load()) }

// Builds counts how often a channel has started to resolve; one that comes back
// from idle does so again.
func (r *Resolver) Builds() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.built
}

// sendState sends the state to every channel. r.send is held.
func (r *Resolver) sendState() {
	r.mu.Lock()
	state, js := r.state, r.serviceConfig
	channels := slices.Clone(r.channels)
	r.mu.Unlock()
	for _, c := range channels {
		c.update(state, js)
	}
}

// update sends a copy: a policy may reorder what it is given. An error is the
// policy's verdict on the state, and for its caller's calls to show.
func (c *channel) update(state resolver.State, serviceConfig string) {
	state.Endpoints = slices.Clone(state.Endpoints)
	state.Addresses = slices.Clone(state.Addresses)
	if serviceConfig != "" {
		state.ServiceConfig = c.cc.ParseServiceConfig(serviceConfig)
	}
	_ = c.cc.UpdateState(state)
}

// ResolveNow is called by gRPC.
func (c *channel) ResolveNow(resolver.ResolveNowOptions) { c.r.resolveNow.Add(1) }

// Close is called by gRPC.
func (c *channel) Close() {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.channels = slices.DeleteFunc(c.r.channels, func(other *channel) bool { return other == c })
}
