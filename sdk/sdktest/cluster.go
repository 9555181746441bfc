package sdktest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/experimental/balancer/hostname"
	"google.golang.org/grpc/resolver"
)

// Cluster is a sharding service, backends, and a resolver that announces them.
// Nothing is assigned at first: say who owns what with [Cluster.AssignEven] or
// through [Cluster.Sharding].
type Cluster struct {
	sharding *ShardingService
	resolver *Resolver

	mu       sync.Mutex // guards what follows
	closed   bool
	backends map[string]*Backend
	names    []string // in the order of their start
}

var clusters atomic.Int64

// StartCluster starts a sharding service and a backend for each name, all of
// them announced. More can follow with [Cluster.Start].
func StartCluster(names ...string) (*Cluster, error) {
	sharding, err := StartSharding()
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		sharding: sharding,
		resolver: NewResolver(fmt.Sprintf("sdktest-%d", clusters.Add(1))),
		backends: make(map[string]*Backend),
	}
	for _, name := range names {
		if _, err := c.Start(name); err != nil {
			c.Close()
			return nil, err
		}
	}
	if err := c.Resolve(names...); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// TB is what [NewCluster] needs of a testing.TB.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// NewCluster is StartCluster for a test, at the end of which the cluster closes.
func NewCluster(tb TB, names ...string) *Cluster {
	tb.Helper()
	c, err := StartCluster(names...)
	if err != nil {
		tb.Fatalf("cannot start a cluster: %v", err)
	}
	tb.Cleanup(c.Close)
	return c
}

// Start starts one more backend. Its endpoint is not announced before the next
// Resolve that names it.
func (c *Cluster) Start(name string, opts ...Option) (*Backend, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if c.backends[name] != nil {
		return nil, fmt.Errorf("sdktest: the cluster has a backend %q already", name)
	}
	b, err := StartBackend(name, opts...)
	if err != nil {
		return nil, err
	}
	c.backends[name] = b
	c.names = append(c.names, name)
	return b, nil
}

// Target is the target to dial, with [Cluster.Resolver] in grpc.WithResolvers.
func (c *Cluster) Target() string { return c.resolver.Scheme() + ":///cluster" }

// Resolver is the resolver of Target.
func (c *Cluster) Resolver() *Resolver { return c.resolver }

// Sharding is the sharding service.
func (c *Cluster) Sharding() *ShardingService { return c.sharding }

// Backend returns the backend of that name, or nil.
func (c *Cluster) Backend(name string) *Backend {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.backends[name]
}

// Backends returns every backend in the order of their start.
func (c *Cluster) Backends() []*Backend {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*Backend, 0, len(c.names))
	for _, name := range c.names {
		all = append(all, c.backends[name])
	}
	return all
}

// Endpoint is the endpoint of a backend where it is now, with its name as the
// hostname attribute.
func (c *Cluster) Endpoint(name string) (resolver.Endpoint, error) {
	b := c.Backend(name)
	if b == nil {
		return resolver.Endpoint{}, fmt.Errorf("sdktest: the cluster has no backend %q", name)
	}
	return Endpoint(name, b.Addr()), nil
}

// Endpoint is an endpoint with a name and addresses, for SetEndpoints.
func Endpoint(name string, addrs ...string) resolver.Endpoint {
	var e resolver.Endpoint
	for _, a := range addrs {
		e.Addresses = append(e.Addresses, resolver.Address{Addr: a})
	}
	return hostname.Set(e, name)
}

// Endpoints returns the endpoints announced at present.
func (c *Cluster) Endpoints() []resolver.Endpoint { return slices.Clone(c.resolver.State().Endpoints) }

// SetEndpoints announces these endpoints in place of those before.
func (c *Cluster) SetEndpoints(endpoints ...resolver.Endpoint) { c.resolver.SetEndpoints(endpoints...) }

// Resolve announces the backends of these names, in this order and where they
// are now. No name announces nobody.
func (c *Cluster) Resolve(names ...string) error {
	var endpoints []resolver.Endpoint
	var problems []error
	for _, name := range names {
		e, err := c.Endpoint(name)
		endpoints = append(endpoints, e)
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	c.resolver.SetEndpoints(endpoints...)
	return nil
}

// AssignEven gives each backend an even part of the keyspace of the sharding
// target, see [Even], and returns the generation.
func (c *Cluster) AssignEven(shardingTarget string) int64 {
	c.mu.Lock()
	names := slices.Clone(c.names)
	c.mu.Unlock()
	return c.sharding.AssignEven(shardingTarget, names...)
}

// Counts returns how many calls each backend has received.
func (c *Cluster) Counts() map[string]int {
	counts := make(map[string]int)
	for _, b := range c.Backends() {
		counts[b.Name()] = b.Count()
	}
	return counts
}

// Close closes everything and waits. Channels are the caller's to close.
func (c *Cluster) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	for _, b := range c.Backends() {
		b.Close()
	}
	c.sharding.Close()
}
