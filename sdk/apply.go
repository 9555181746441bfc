package sdk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/configsource"
)

// ConfigChange says what a configuration that was applied has changed.
type ConfigChange struct {
	// Changes are the keys whose values differ, in the order of docs/configuration.md.
	Changes []configsource.Change
	// Topology is what became of targets and groups.
	Topology TopologyChange
}

// Empty says that nothing changed.
func (c ConfigChange) Empty() bool { return len(c.Changes) == 0 }

// Apply makes cfg the client's configuration in place of the one in force, while RPCs
// run, all of it or nothing. What cfg says counts over what code says, and what it does
// not say is as code says; see docs/configuration.md. Parts that it does not change keep
// their connections, counts and what they have learned. A client that watches a source
// goes on doing so, and follows that from its next version on.
//
// The error lists everything that is wrong with cfg, among that the keys that cannot
// change while a client runs, wraps ctx's if that ended before, or is ErrClosed; then
// nothing changed. It connects to nothing itself and does not wait for connections.
func (c *Client) Apply(ctx context.Context, cfg *configsource.Config) (ConfigChange, error) {
	if cfg == nil {
		return ConfigChange{}, refusedConfig(errors.New("it is nil; a pointer to the zero Config takes everything back that was configured"))
	}
	u, err := configsource.NewUpdate(*cfg, "Apply")
	if err != nil {
		return ConfigChange{}, refusedConfig(err)
	}
	return c.follow(ctx, fromCode, u)
}

func refusedConfig(err error) error {
	return fmt.Errorf("slicewire: the configuration was refused, and nothing changed: %w", err)
}

// follow puts a configuration in force: it prepares all that may fail, commits by one
// store of the table, and retires what is out.
func (c *Client) follow(ctx context.Context, from string, u *configsource.Update) (ConfigChange, error) {
	if err := ctx.Err(); err != nil {
		return ConfigChange{}, refusedConfig(err)
	}
	cfg := u.Config()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ConfigChange{}, ErrClosed
	}
	change := ConfigChange{Changes: configsource.Diff(c.config, cfg)}
	if change.Empty() {
		c.configs.same(from, u)
		return change, nil
	}
	if err := onlyAtStart(change.Changes); err != nil {
		return ConfigChange{}, c.refuse(from, err)
	}
	next, run, err := c.prepare(&cfg, c.running, false)
	if err == nil {
		err = c.checkSingle(next.settings)
	}
	if err != nil {
		if run != nil {
			run.closeBut(c.running)
		}
		return ConfigChange{}, c.refuse(from, err)
	}
	before, ran := c.plan, c.running
	next.keepNames(before)
	c.use(run)
	if err := c.apply(next); err != nil {
		c.use(ran)
		run.closeBut(ran)
		return ConfigChange{}, c.refuse(from, err)
	}
	c.config = cfg
	c.forget(next.settings, before.settings)
	c.background.Go(func() { ran.closeBut(run) }) // it waits for probes
	change.Topology = difference(before, next)
	c.configs.applied(from, u, change)
	c.logger.Info("a configuration was applied", append(c.configs.fields(from, balancer.Published),
		slog.String("hash", u.Hash()), slog.Any("changes", words(change.Changes)))...)
	return change, nil
}

// refuse notes a configuration that cannot be used.
func (c *Client) refuse(from string, err error) error {
	c.configs.refused(from, err)
	return refusedConfig(err)
}

// words are changes for a log record, not all of very many.
func words(changes []configsource.Change) []string {
	const most = 20
	var list []string
	for _, c := range changes[:min(len(changes), most)] {
		list = append(list, c.String())
	}
	if more := len(changes) - most; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return list
}

// onlyAtStart refuses changes of keys that are read once.
func onlyAtStart(changes []configsource.Change) error {
	var problems []error
	for _, c := range changes {
		if c.Reload == configsource.AtStart {
			problems = append(problems, fmt.Errorf("%v: it is read at the start alone; restart the program for it", c))
		}
	}
	return errors.Join(problems...)
}

// prepare makes the plan that a configuration asks for on top of what code says, and
// what has to run for it. Nothing of it is in force; where it fails nothing is left.
func (c *Client) prepare(cfg *configsource.Config, ran *running, first bool) (*plan, *running, error) {
	run, runErr := ran.with(cfg, newSettings(c.options).monitor, first, c.probedAnew)
	made := run
	if made == nil {
		made = ran
	}
	opts := c.options
	if !cfg.Equal(configsource.Config{}) || !first {
		opts = append(slices.Clip(opts), func(s *settings) { s.configured(cfg, made) })
	}
	s := newSettings(opts)
	s.grouped = s.topology != nil || len(s.groups) > 0 || len(s.configuredGroups) > 0
	s.resolveProfiles(opts)
	servicesErr := s.resolveServices()
	base := c.base
	var next *plan
	var planErr error
	if first {
		base, planErr = s.declaredTopology(c.target)
	}
	if planErr == nil {
		if next, planErr = s.plan(s.joined(base)); first && !s.grouped && planErr != nil {
			_, _, planErr = splitTarget(c.target, s.resolvers) // says it without words of groups
		}
	}
	problems := []error{planErr, servicesErr, s.check(), runErr}
	if in := cfg.InCode; in != nil {
		problems = append(problems, c.checkInCode(s, base, in))
	}
	if err := errors.Join(problems...); err != nil {
		if run != nil {
			run.closeBut(ran)
		}
		return nil, nil, err
	}
	if first {
		c.base = base.clone()
	}
	return next, run, nil
}

// checkInCode checks that code has declared what a configuration takes for declared.
func (c *Client) checkInCode(s *settings, base Topology, in *configsource.InCode) error {
	var problems []error
	check := func(key string, names []string, how string, has func(name string) bool) {
		for _, name := range names {
			if !has(name) {
				problems = append(problems, fmt.Errorf("inCode.%s names %q, which code does not declare; %s, or take it out", key, name, how))
			}
		}
	}
	check("groups", in.Groups, "declare it with WithGroup or WithTopology", func(name string) bool {
		return slices.ContainsFunc(base.Groups, func(g GroupConfig) bool { return g.Name == name })
	})
	check("selectors", in.Selectors, "declare it with WithSelector", func(name string) bool {
		return slices.ContainsFunc(s.selectors, func(d namedPolicy) bool { return d.name == name }) || c.declared.has(name)
	})
	check("profiles", in.Profiles, "declare it with WithDialProfile", func(name string) bool { return name != "" && s.profiles[name] != nil })
	check("shardingServices", in.ShardingServices, "declare it with WithShardingService", func(name string) bool {
		svc, ok := s.services[name]
		return ok && svc.configured.Key == "" || s.provider != nil
	})
	return errors.Join(problems...)
}

// checkSingle refuses policies where the client is to say that there is nothing to
// choose (WithStrictSingle).
func (c *Client) checkSingle(next *settings) error {
	if !next.router.StrictSingle {
		return nil
	}
	for _, d := range next.configuredSelectors {
		was, ok := c.plan.settings.configuredSelector(d.name)
		if ok && was.Equal(d.policy) {
			continue
		}
		for _, p := range c.pools {
			if len(p.router.Status().Endpoints) == 1 {
				return fmt.Errorf("selectors[%q]: target %q: %w", d.name, p.name, balancer.ErrSingleEndpoint)
			}
		}
	}
	return nil
}

// use has other parts run. The caller holds mu, and applies a plan for them.
func (c *Client) use(run *running) {
	if run.monitor != c.running.monitor {
		c.monitor.Store(run.monitor)
		c.driver.probeBy(run.monitor.checkerOrDefault())
	}
	c.running = run
}

// forget lets go of what code said of selectors before the configuration said
// something else: targets that join are told what holds.
func (c *Client) forget(now, before *settings) {
	c.declared.mu.Lock()
	defer c.declared.mu.Unlock()
	for _, d := range now.configuredSelectors {
		if was, ok := before.configuredSelector(d.name); !ok || !was.Equal(d.policy) {
			delete(c.declared.selectors, d.name)
			delete(c.declared.removed, d.name)
		}
	}
}

// revise gives the targets of a plan the keys of pools that can serve them, or new
// ones: some settings a channel has for as long as it lives. The caller holds mu.
func (c *Client) revise(next *plan) {
	type place struct{ name, uri, profile string }
	at := make(map[place][]*pool)
	note := func(p *pool) {
		k := place{p.name, p.uri, p.profile}
		at[k] = append(at[k], p)
	}
	for _, p := range c.pools {
		note(p)
	}
	for _, d := range c.leaving {
		note(d.pool)
	}
	for _, m := range next.members {
		there := at[place{m.key.name, m.key.uri, m.key.profile}]
		if i := slices.IndexFunc(there, func(p *pool) bool { return p.serves(m.settings) }); i >= 0 {
			m.key = there[i].poolKey
		} else if len(there) > 0 {
			c.revisions++
			m.key.revision = c.revisions
		}
	}
}

// serves says whether the channel of p can follow s: it keeps the settings of its
// streams and its channel to the sharding service.
func (p *pool) serves(s *settings) bool {
	config := p.router.Config()
	inUse := config != nil && config.Sharded()
	if (config == nil || inUse || s.sharding != nil) && p.stream != s.router.Assignment {
		return false
	}
	if !inUse {
		return true
	}
	key := config.ChannelFactoryKey
	return reflect.DeepEqual(p.settings.Load().services[key].configured, s.services[key].configured)
}
