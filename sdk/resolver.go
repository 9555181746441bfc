package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

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
	config   *balancer.Config // from code; nil if there is none
	// hasDefault says that code gives a service config for when the resolver does
	// not.
	hasDefault bool
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
	return b.Builder.Build(t, &resolverConn{ClientConn: cc, joint: b.joint, xds: t.URL.Scheme == "xds"}, opts)
}

// resolverConn is what the wrapped resolver talks to instead of gRPC.
type resolverConn struct {
	resolver.ClientConn
	joint *joint
	// xds says that the resolver brings its own tree of LB policies, in which
	// ours is named by the control plane.
	xds bool
}

func (c *resolverConn) UpdateState(s resolver.State) error {
	var rejected error
	if !c.xds {
		if sc := s.ServiceConfig; sc != nil && sc.Err != nil {
			rejected = sc.Err
			c.joint.router.ConfigRejected(rejected)
			s.ServiceConfig = nil // gRPC then keeps the last one, else that of code
		}
		if s.ServiceConfig == nil && !c.joint.hasDefault && c.joint.router.KeyHeader() == "" {
			err := rejected
			if err == nil {
				err = c.joint.noSharding("the name resolver gives no service config")
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
	if c.joint.router.KeyHeader() == "" {
		c.joint.router.ResolverFailed(fmt.Errorf("slicewire: target %q: the name resolver failed: %w", c.joint.target, err))
	}
	c.ClientConn.ReportError(err)
}

func (c *resolverConn) ParseServiceConfig(js string) *serviceconfig.ParseResult {
	if !c.xds {
		rewritten, err := c.joint.serviceConfig(js)
		if err != nil {
			return &serviceconfig.ParseResult{Err: err}
		}
		js = rewritten
	}
	return c.ClientConn.ParseServiceConfig(js)
}

func (j *joint) noSharding(why string) error {
	return fmt.Errorf("slicewire: target %q: nothing says how to route: %s that names %q, and sdk.WithSharding was not used; do one or the other",
		j.target, why, balancer.AutoshardingName)
}

// serviceConfig puts our LB policy in a service config and leaves the rest. The
// policy's name never changes, whatever the resolver says: gRPC would rebuild
// every connection.
func (j *joint) serviceConfig(js string) (string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(js), &members); err != nil {
		return "", fmt.Errorf("slicewire: target %q: the service config must be a JSON object: %w", j.target, err)
	}
	if members == nil {
		members = map[string]json.RawMessage{}
	}
	var list json.RawMessage
	for name, value := range members {
		// gRPC reads names in any case.
		switch {
		case strings.EqualFold(name, "loadBalancingConfig"):
			list = value
		case !strings.EqualFold(name, "loadBalancingPolicy"):
			continue
		}
		delete(members, name)
	}
	config, err := j.policyConfig(list)
	if err != nil {
		return "", err
	}
	members["loadBalancingConfig"], err = json.Marshal([]map[string]json.RawMessage{{balancer.Name: config}})
	if err != nil {
		return "", err
	}
	out, err := json.Marshal(members)
	return string(out), err
}

// policyConfig is our policy's config out of a loadBalancingConfig list, else
// the one from code.
func (j *joint) policyConfig(list json.RawMessage) (json.RawMessage, error) {
	var policies []map[string]json.RawMessage
	if list != nil {
		if err := json.Unmarshal(list, &policies); err != nil {
			return nil, fmt.Errorf("slicewire: target %q: loadBalancingConfig in the service config must be a list of objects: %w", j.target, err)
		}
	}
	for _, p := range policies {
		for _, name := range [...]string{balancer.Name, balancer.AutoshardingName} {
			if config, ok := p[name]; ok {
				return config, j.checkConfig(config)
			}
		}
	}
	if j.config == nil {
		return nil, j.noSharding("the service config has no loadBalancingConfig")
	}
	return j.config.JSON(), nil
}

// checkConfig refuses a config with which no call could be given its key.
func (j *joint) checkConfig(js json.RawMessage) error {
	config, err := balancer.ParseConfig(js)
	if err == nil {
		_, err = interceptors.NewKey(config.KeyHeader)
	}
	if err != nil {
		return fmt.Errorf("slicewire: target %q: loadBalancingConfig in the service config: %w", j.target, err)
	}
	return nil
}

// splitTarget finds the resolver of a dial target as grpc.NewClient does, own
// resolvers first, and returns the target with its scheme written out.
func splitTarget(target string, own []resolver.Builder) (string, resolver.Builder, error) {
	find := func(scheme string) resolver.Builder {
		for _, b := range own {
			if b.Scheme() == scheme {
				return b
			}
		}
		return resolver.Get(scheme)
	}
	if target == "" {
		return "", nil, errors.New("the dial target is empty; it must name servers, as in dns:///host:port")
	}
	u, err := url.Parse(target)
	if err == nil {
		if b := find(u.Scheme); b != nil {
			return target, b, nil
		}
	}
	b := find("dns")
	full := "dns:///" + target
	if _, err := url.Parse(full); err != nil || b == nil {
		return "", nil, fmt.Errorf("the dial target %q is not a URL whose scheme has a resolver, nor host:port; add a resolver for its scheme with sdk.WithResolvers", target)
	}
	if u != nil && strings.Contains(target, "://") {
		return "", nil, fmt.Errorf("no resolver is registered for the scheme %q of the dial target %q; add one with sdk.WithResolvers", u.Scheme, target)
	}
	return full, b, nil
}
