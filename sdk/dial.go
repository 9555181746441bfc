package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"google.golang.org/grpc"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/configsource"
)

// Dial makes a Client for target, a name as grpc.NewClient takes it, or, with
// target "", for the groups of targets that WithGroup, WithTopology or a configuration declare. It
// does no I/O but to read the configuration (WithConfigFile): connections are made as RPCs want them, to the targets of groups that
// have several by themselves. The error lists everything that is wrong with the
// target and the options.
//
// Transport credentials have to be given; there is no insecure default.
func Dial(target string, opts ...Option) (*Client, error) {
	c, err := dial(target, opts)
	if err != nil {
		if target == "" {
			return nil, fmt.Errorf("slicewire: cannot dial: %w", err)
		}
		return nil, fmt.Errorf("slicewire: cannot dial %q: %w", target, err)
	}
	return c, nil
}

func dial(target string, opts []Option) (*Client, error) {
	code := newSettings(opts)
	src, name := code.configSource()
	u, err := loadConfig(context.Background(), src)
	if err != nil {
		return nil, err
	}
	c := &Client{
		target:  target,
		options: slices.Clone(opts),
		pools:   make(map[poolKey]*pool),
		leaving: make(map[poolKey]*departed),
		off:     make(map[string]string),
		declared: declared{
			selectors: make(map[string]saying), removed: make(map[string]bool),
			disabled: make(map[string]string), enabled: make(map[string]bool),
		},
		running: &running{},
	}
	if u != nil {
		c.config = u.Config()
	}
	first, run, err := c.prepare(&c.config, c.running, true)
	if err != nil {
		return nil, err
	}
	c.logger = slog.New(remember(&c.events, first.settings.router.Logger))
	c.driver = newDriver(c.logger)
	c.driver.probeBy(run.monitor.checkerOrDefault())
	c.running = run
	c.monitor.Store(run.monitor)
	c.plan = &plan{settings: first.settings}
	c.alive, c.end = context.WithCancel(context.Background())
	c.patience, c.endPatience = context.WithCancel(context.Background())
	c.show(first.settings)
	go c.driver.run() // ends with close, which waits for it
	c.mu.Lock()
	defer c.mu.Unlock()
	if err = c.apply(first); err != nil {
		run.closeBut(&running{})
		c.driver.close()
		c.shown.Close()
		return nil, err
	}
	if u != nil {
		c.configs.change(func(s *ConfigStatus) { s.Source = name })
		c.configs.applied(code.sourceKind, u, ConfigChange{configsource.Diff(configsource.Config{}, c.config), difference(&plan{}, first)})
		c.background.Go(func() { c.watch(src, code.sourceKind, u) })
	}
	c.shown.Show(source{c})
	return c, nil
}

// check reports every fault of the settings and of each profile's, once.
func (s *settings) check() error {
	_, ownErr := (&joint{provider: s.channelProvider()}).ownOptions(s)
	base := errors.Join(ownErr, s.validate())
	problems := []error{base}
	for _, name := range slices.Sorted(maps.Keys(s.profiles)) {
		if name == "" {
			continue
		}
		whole := s.profiles[name]
		_, ownErr := (&joint{provider: whole.channelProvider()}).ownOptions(whole)
		own := without(errors.Join(ownErr, whole.validate()), base)
		problems = append(problems, located(fmt.Sprintf("WithDialProfile: %q", name), own))
	}
	return errors.Join(problems...)
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
	own := s.ownConfig()
	j.own.Store(&own)
	if own.any() {
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

// ownConfig is how to route where the name resolver does not say.
func (s *settings) ownConfig() ownConfig {
	own := ownConfig{service: s.serviceConfig}
	switch {
	case s.sharding != nil:
		own.policy = s.sharding.config()
	case len(s.selectors) > 0 || s.grouped || s.isConfigured:
		own.policy = &balancer.Config{Unsharded: true, KeyHeader: s.keyHeader()}
	}
	return own
}
