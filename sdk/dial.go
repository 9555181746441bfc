package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/interceptors"
)

// Dial makes a Client for target, a name as grpc.NewClient takes it. It does no
// I/O: connections are made as RPCs want them. The error lists everything that
// is wrong with the target and the options.
//
// Transport credentials have to be given; there is no insecure default.
func Dial(target string, opts ...Option) (*Client, error) {
	s := newSettings(opts)
	full, builder, err := splitTarget(target, s.resolvers)
	j := &joint{target: target, provider: s.channelProvider()}
	own, ownErr := j.ownOptions(s)
	if err := errors.Join(err, ownErr, s.validate()); err != nil {
		return nil, fmt.Errorf("slicewire: cannot dial %q: %w", target, err)
	}
	c := &Client{
		joint:        j,
		keyOptions:   s.key,
		drainTimeout: s.drainTimeout,
		inFlight:     newInFlight(),
	}
	c.patience, c.endPatience = context.WithCancel(context.Background())
	if header := s.keyHeader(); header != "" {
		if c.codeKeys, err = newKeys(header, s.key); err != nil {
			return nil, fmt.Errorf("slicewire: cannot dial %q: %w", target, err)
		}
	}
	if c.selectors, err = interceptors.NewSelectors(s.selectorByMethod); err != nil {
		return nil, fmt.Errorf("slicewire: cannot dial %q: %w", target, err)
	}
	if s.router.Logger != nil {
		s.router.Logger = s.router.Logger.With("target", target)
	}
	c.router = balancer.NewRouter(s.router)
	if err := s.declareSelectors(c.router); err != nil {
		c.router.Close()
		return nil, fmt.Errorf("slicewire: cannot dial %q: %w", target, err)
	}
	j.router = c.router
	// gRPC takes the first resolver of a scheme, so ours goes first. Endpoints have
	// to be resolved here, even behind a proxy: the proxy could only be told one
	// name for all of them.
	all := append([]grpc.DialOption{grpc.WithResolvers(j.wrap(builder)), grpc.WithLocalDNSResolution()}, own...)
	if c.cc, err = grpc.NewClient(full, all...); err != nil {
		c.router.Close()
		return nil, fmt.Errorf("slicewire: cannot dial %q: %w", target, err)
	}
	return c, nil
}

// ownOptions are the user's options of the channel, and its default service
// config. They are tried out, which does no I/O, so that what is wrong with them
// is reported beside everything else.
func (j *joint) ownOptions(s *settings) ([]grpc.DialOption, error) {
	var opts []grpc.DialOption
	if s.credentials != nil {
		opts = append(opts, grpc.WithTransportCredentials(s.credentials))
	}
	opts = append(opts, s.dialOptions...)
	var problems []error
	switch {
	case s.sharding != nil:
		j.config = s.sharding.config()
	case len(s.selectors) > 0:
		j.config = &balancer.Config{Unsharded: true, KeyHeader: s.keyHeader()}
	}
	if s.serviceConfig != "" || j.config != nil {
		j.hasDefault = true
		js, err := j.serviceConfig(cmp.Or(s.serviceConfig, "{}"))
		if err == nil && s.sharding != nil && s.serviceConfig != "" {
			err = refuseOtherPolicy(s.serviceConfig)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("WithServiceConfig: %w", err))
		} else if s.sharding.validate() == nil {
			opts = append(opts, grpc.WithDefaultServiceConfig(js))
		}
	}
	cc, err := grpc.NewClient("passthrough:///", opts...)
	if err != nil {
		return nil, errors.Join(append(problems, explainCredentials(err, "WithTransportCredentials"))...)
	}
	_ = cc.Close()
	return opts, errors.Join(problems...)
}
