package sdk

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/interceptors"
)

// joint joins the client's parts to a name resolver: the Router and the channel
// factory travel to the LB policy in the resolver's state, and service configs
// keep everything but their choice of LB policy.
type joint struct {
	target   string
	router   *balancer.Router
	provider balancer.ClientConnProvider
	// own is what code and configuration say, for what the resolver does not:
	// stored by updates, loaded by the resolver's goroutines.
	own atomic.Pointer[ownConfig]

	mu    sync.Mutex // guards conns
	conns map[*resolverConn]struct{}
}

// ownConfig is how to route where the name resolver does not say. Immutable.
type ownConfig struct {
	// policy is the LB policy's config, nil if nobody gives one.
	policy *balancer.Config
	// service is the service config without it, "" if nobody gives one.
	service string
	// changed says that gRPC was told another default service config at first.
	changed bool
}

// any says that there is something to fall back to.
func (o *ownConfig) any() bool { return o.policy != nil || o.service != "" }

// configure makes o what the resolver's answers are joined to, from the one that is
// in force on.
func (j *joint) configure(o ownConfig) {
	o.changed = true
	j.own.Store(&o)
	j.mu.Lock()
	conns := slices.Collect(maps.Keys(j.conns))
	j.mu.Unlock()
	for _, c := range conns {
		c.again()
	}
}

// resolverBuilder wraps the builder of one scheme.
type resolverBuilder struct {
	resolver.Builder
	joint *joint
}

// overridingBuilder wraps a builder that says what the authority is.
type overridingBuilder struct {
	resolverBuilder
	resolver.AuthorityOverrider
}

func (j *joint) wrap(b resolver.Builder) resolver.Builder {
	wrapped := resolverBuilder{Builder: b, joint: j}
	if o, ok := b.(resolver.AuthorityOverrider); ok {
		return overridingBuilder{wrapped, o}
	}
	return wrapped
}

func (b resolverBuilder) Build(t resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	c := &resolverConn{ClientConn: cc, joint: b.joint, xds: t.URL.Scheme == "xds"}
	c.live(true)
	r, err := b.Builder.Build(t, c, opts)
	if err != nil {
		c.live(false)
		b.joint.resolverFailed(fmt.Errorf("the name resolver cannot start: %w", err))
		return r, err
	}
	return &endingResolver{r, c}, nil
}

// endingResolver forgets the connection of a resolver that gRPC closes.
type endingResolver struct {
	resolver.Resolver
	conn *resolverConn
}

func (r *endingResolver) Close() {
	r.conn.live(false)
	r.Resolver.Close()
}

// resolverConn is what the wrapped resolver talks to instead of gRPC.
type resolverConn struct {
	resolver.ClientConn
	joint *joint
	// xds says that the resolver brings its own tree of LB policies, in which
	// ours is named by the control plane.
	xds bool

	mu sync.Mutex // guards the rest, and makes updates one by one
	// last is what the resolver said last, nil before; text is the service config in
	// it, "" if there is none.
	last   *resolver.State
	text   string
	parsed *serviceconfig.ParseResult // of newest
	newest string                     // what the resolver had parsed last
}

func (c *resolverConn) live(is bool) {
	c.joint.mu.Lock()
	defer c.joint.mu.Unlock()
	if !is {
		delete(c.joint.conns, c)
		return
	}
	if c.joint.conns == nil {
		c.joint.conns = make(map[*resolverConn]struct{})
	}
	c.joint.conns[c] = struct{}{}
}

func (c *resolverConn) UpdateState(s resolver.State) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.text = &s, ""
	if s.ServiceConfig != nil && s.ServiceConfig == c.parsed {
		c.text = c.newest
	}
	return c.update(s)
}

// again says what the resolver said last, joined to what is configured now.
func (c *resolverConn) again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		return
	}
	s := *c.last
	if c.text != "" {
		s.ServiceConfig = c.parse(c.text)
	}
	_ = c.update(s) // the resolver cannot do better
}

// update hands s to gRPC. The caller holds mu.
func (c *resolverConn) update(s resolver.State) error {
	own := c.joint.own.Load()
	var rejected error
	if !c.xds {
		if sc := s.ServiceConfig; sc != nil && sc.Err != nil {
			rejected = sc.Err
			c.joint.router.ConfigRejected(rejected)
			s.ServiceConfig = nil // gRPC then keeps the last one, else that of code
		}
		if s.ServiceConfig == nil && own.changed && own.any() && rejected == nil {
			s.ServiceConfig = c.parse(cmp.Or(own.service, "{}"))
		}
		if s.ServiceConfig == nil && !own.any() && c.joint.router.Config() == nil {
			err := rejected
			if err == nil {
				err = c.joint.about(noSharding("the name resolver gives no service config"))
			}
			// gRPC is not told: it would start with pick_first.
			c.joint.router.ResolverFailed(err)
			return err
		}
	}
	c.joint.router.ResolverAnswered()
	s = balancer.SetClientConnProvider(s, c.joint.provider)
	err := c.ClientConn.UpdateState(balancer.SetRouter(s, c.joint.router))
	if err == nil {
		err = rejected // the resolver is to ask again
	}
	return err
}

// NewAddress is the deprecated form of UpdateState.
func (c *resolverConn) NewAddress(addrs []resolver.Address) {
	_ = c.UpdateState(resolver.State{Addresses: addrs})
}

func (c *resolverConn) ReportError(err error) {
	c.joint.resolverFailed(fmt.Errorf("the name resolver failed: %w", err))
	c.ClientConn.ReportError(err)
}

func (c *resolverConn) ParseServiceConfig(js string) *serviceconfig.ParseResult {
	parsed := c.parse(js)
	c.mu.Lock()
	c.parsed, c.newest = parsed, js
	c.mu.Unlock()
	return parsed
}

func (c *resolverConn) parse(js string) *serviceconfig.ParseResult {
	if !c.xds {
		rewritten, err := c.joint.serviceConfig(js)
		if err != nil {
			return &serviceconfig.ParseResult{Err: c.joint.about(err)}
		}
		js = rewritten
	}
	return c.ClientConn.ParseServiceConfig(js)
}

// resolverFailed tells the Router while there is no LB policy that gRPC could
// tell. Calls wait for the Router then, and would wait to their deadline.
func (j *joint) resolverFailed(err error) {
	if j.router.Config() == nil {
		j.router.ResolverFailed(j.about(err))
	}
}

// about says which target err is about.
func (j *joint) about(err error) error { return &targetError{j.target, err} }

// targetError is an error about one target. It names the target at its head and
// nowhere else: what err is made of may have named it too.
type targetError struct {
	target string
	err    error
}

func (e *targetError) Error() string { return aboutTarget(e.target, e.err.Error()) }
func (e *targetError) Unwrap() error { return e.err }

func aboutTarget(target, text string) string {
	head := fmt.Sprintf("slicewire: target %q: ", target)
	return head + strings.TrimPrefix(strings.ReplaceAll(text, head, ""), "slicewire: ")
}

func noSharding(why string) error {
	return fmt.Errorf("nothing says how to route: %s that names %q, and neither sdk.WithSharding nor sdk.WithSelector was used; do one of these",
		why, balancer.AutoshardingName)
}

// serviceConfig puts our LB policy in a service config and leaves the rest. The
// policy's name never changes, whatever the resolver says: gRPC would rebuild
// every connection.
func (j *joint) serviceConfig(js string) (string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(js), &members); err != nil {
		return "", fmt.Errorf("the service config must be a JSON object: %w", err)
	}
	if members == nil {
		members = map[string]json.RawMessage{}
	}
	var list json.RawMessage
	found := false
	for name, value := range members {
		// gRPC reads names in any case.
		switch {
		case strings.EqualFold(name, "loadBalancingConfig"):
			if found { // a map does not tell which is the last one, which gRPC would take
				return "", errors.New("the service config has loadBalancingConfig in two spellings; write it once")
			}
			list, found = value, true
		case !strings.EqualFold(name, "loadBalancingPolicy"):
			continue
		}
		delete(members, name)
	}
	config, err := j.own.Load().policyConfig(list)
	if err != nil {
		return "", err
	}
	members["loadBalancingConfig"], err = json.Marshal([]policies{{balancer.Name: config}})
	if err != nil {
		return "", err
	}
	out, err := json.Marshal(members)
	return string(out), err
}

// policies is an entry of loadBalancingConfig: configs by the names of policies.
type policies map[string]json.RawMessage

// ours returns the config of our policy, by either of its names.
func (p policies) ours() (json.RawMessage, bool) {
	for _, name := range [...]string{balancer.Name, balancer.AutoshardingName} {
		if config, ok := p[name]; ok {
			return config, true
		}
	}
	return nil, false
}

// policyConfig is our policy's config out of a loadBalancingConfig list, else
// the one from code.
func (o *ownConfig) policyConfig(list json.RawMessage) (json.RawMessage, error) {
	var entries []policies
	if list != nil {
		if err := json.Unmarshal(list, &entries); err != nil {
			return nil, fmt.Errorf("loadBalancingConfig in the service config must be a list of objects: %w", err)
		}
	}
	for _, p := range entries {
		if config, ok := p.ours(); ok {
			return config, checkConfig(config)
		}
	}
	if o.policy == nil {
		return nil, noSharding("the service config has no loadBalancingConfig")
	}
	return o.policy.JSON(), nil
}

// checkConfig refuses a config with which no call could be given its key.
func checkConfig(js json.RawMessage) error {
	config, err := balancer.ParseConfig(js)
	if err == nil && config.KeyHeader != "" {
		_, err = interceptors.NewKey(config.KeyHeader)
	}
	if err != nil {
		return fmt.Errorf("loadBalancingConfig in the service config: %w", err)
	}
	return nil
}

// refuseOtherPolicy refuses a service config, good otherwise, that asks for an
// LB policy which is not ours. Code that also has WithSharding contradicts itself
// there; a name resolver just does not know of it.
func refuseOtherPolicy(js string) error {
	var asks struct {
		LoadBalancingConfig []policies
		LoadBalancingPolicy string // gRPC's older way
	}
	if err := json.Unmarshal([]byte(js), &asks); err != nil {
		return err
	}
	var others []string
	for _, p := range asks.LoadBalancingConfig {
		if _, ok := p.ours(); ok {
			return nil
		}
		others = slices.AppendSeq(others, maps.Keys(p))
	}
	if old := asks.LoadBalancingPolicy; old != "" && old != balancer.Name && old != balancer.AutoshardingName {
		others = append(others, old)
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("it asks for the LB policy %s, and WithSharding for routing by key; leave out one of the two", strings.Join(others, ", "))
}

var errNoTarget = errors.New("the dial target is empty; it must name servers, as in dns:///host:port")

// splitTarget finds the resolver of a dial target as grpc.NewClient does, own
// resolvers first, and returns the target with its scheme written out.
func splitTarget(target string, own []resolver.Builder) (string, resolver.Builder, error) {
	if target == "" {
		return "", nil, errNoTarget
	}
	u, err := url.Parse(target)
	if err == nil {
		if b := findResolver(u.Scheme, own); b != nil {
			return target, b, nil
		}
		if b := resolver.Get(u.Scheme); b != nil {
			return target, b, checkDNS(target)
		}
	}
	b := findResolver("dns", own)
	if b == nil {
		b = resolver.Get("dns")
	}
	full := "dns:///" + target
	if _, err := url.Parse(full); err != nil || b == nil {
		return "", nil, errors.New("the target is not a URL whose scheme has a resolver, nor host:port; add a resolver for its scheme with sdk.WithResolvers")
	}
	if u != nil && strings.Contains(target, "://") {
		return "", nil, fmt.Errorf("no resolver is registered for the scheme %q; add one with sdk.WithResolvers", u.Scheme)
	}
	return full, b, nil
}

func findResolver(scheme string, own []resolver.Builder) resolver.Builder {
	for _, b := range own {
		if b.Scheme() == scheme {
			return b
		}
	}
	return nil
}

// checkDNS refuses a target for gRPC's dns resolver that has no name to look up:
// what follows two slashes is the DNS server to ask.
func checkDNS(target string) error {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "dns" || u.Opaque != "" || strings.Trim(u.Path, "/") != "" {
		return nil
	}
	if u.Host == "" {
		return errors.New("the target names no host to look up; write dns:///host:port")
	}
	return fmt.Errorf("the target names a DNS server and no host to look up; did you mean dns:///%s?", u.Host)
}
