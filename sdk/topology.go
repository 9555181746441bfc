package sdk

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/failover"
)

// Topology says which targets a client has and how they form groups (seed 003). It
// is given to Dial with WithTopology, and to a Client that runs with
// [Client.UpdateTopology].
type Topology struct {
	// Targets are those with settings of their own. A target that needs none is
	// named in a group by its dial target alone.
	Targets []TargetConfig
	// Groups are the groups; the first is the default one. At least one.
	Groups []GroupConfig
}

// TargetConfig is one address of a service. Each has one pool of connections,
// however many groups list it.
type TargetConfig struct {
	// Name is what groups, metrics and errors call the target. Required, unique.
	Name string
	// URI is the dial target, as grpc.NewClient takes it. Required. A target whose
	// URI or Profile changes is dialled anew; the RPCs of the old one finish.
	URI string
	// Profile names the options to dial with (WithDialProfile); "" means the
	// client's own. Two targets may have the same URI if their profiles differ.
	Profile string
	// Sharding is how keys route within the target, instead of the profile's
	// WithSharding. An update of it is followed without a new connection.
	Sharding *Sharding
	// MinReady is how many endpoints are kept connected without traffic, so that the
	// target can take over at once. Zero means 1 in a group of several targets, else
	// what WithConnections says; a negative number none, but that one is connected
	// while a group waits for the target to come back, or nobody would find that out.
	MinReady int
	// ErrorRatio, if set, takes the target for down while too many of its RPCs fail,
	// though it is connected.
	ErrorRatio *failover.RatioOptions
}

// GroupConfig is a named list of targets, best first. An RPC of the group goes to
// the best one that is available.
type GroupConfig struct {
	// Name is what calls name (interceptors.WithGroup). Required, unique.
	Name string
	// Targets are names of declared targets, or dial targets. At least one. Beside
	// declared targets a dial target has a port or a scheme.
	Targets []string
	// Failover are the timings.
	Failover failover.Options
	// Selector routes, within each target, RPCs of this group that name no selector,
	// by context or method; "" means the default one.
	Selector string
}

// targetNames are those of the declared targets.
func (t Topology) targetNames() []string {
	var names []string
	for _, c := range t.Targets {
		names = append(names, c.Name)
	}
	return names
}

func (t Topology) clone() Topology {
	t.Targets, t.Groups = slices.Clone(t.Targets), slices.Clone(t.Groups)
	for i := range t.Targets {
		if sh := t.Targets[i].Sharding; sh != nil {
			own := *sh
			t.Targets[i].Sharding = &own
		}
		if r := t.Targets[i].ErrorRatio; r != nil {
			own := *r
			own.Codes = slices.Clone(own.Codes)
			t.Targets[i].ErrorRatio = &own
		}
	}
	for i := range t.Groups {
		t.Groups[i].Targets = slices.Clone(t.Groups[i].Targets)
	}
	return t
}

// member is a target of the plan, with what the plan makes of it.
type member struct {
	key      poolKey
	target   string // as it is dialled, before its scheme is written out
	config   TargetConfig
	standby  bool // listed in a group of several
	plain    bool // not declared, but listed by its dial target
	settings *settings
}

// router is the settings of the target's Router.
func (m *member) router() balancer.RouterOptions {
	o := m.settings.router
	switch n := m.config.MinReady; {
	case n > 0:
		o.Connections.MinReady = n
	case n < 0:
		o.Connections.MinReady = 0
	case m.standby:
		o.Connections.MinReady = 1
	}
	return o
}

// plan is a Topology that was found good.
type plan struct {
	settings *settings
	topology Topology
	members  []*member   // in order of first use, those that no group lists left out
	groups   [][]*member // for each group
}

// names are those of the targets.
func (p *plan) names() []string {
	var names []string
	for _, m := range p.members {
		names = append(names, m.key.name)
	}
	return names
}

// keepNames has dial targets go by the spelling that they had before, where groups
// list several: which of them comes first is no reason to dial anew.
func (p *plan) keepNames(before *plan) {
	names := p.names()
	for _, m := range p.members {
		for _, was := range before.members {
			same := m.plain && was.plain && was.key.uri == m.key.uri && was.key.profile == m.key.profile
			if same && !slices.Contains(names, was.key.name) {
				m.key, m.target, m.config = was.key, was.target, was.config
			}
		}
	}
}

// plan checks t, and reports everything that is wrong with it.
func (s *settings) plan(t Topology) (*plan, error) {
	p := &plan{settings: s, topology: t}
	var problems []error
	fault := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }

	byName, byPlace := make(map[string]*member), make(map[poolKey]*member)
	declare := func(c TargetConfig) (*member, error) {
		profile, ok := s.profiles[c.Profile]
		if !ok {
			return nil, fmt.Errorf("profile %q is not declared; %s", c.Profile, s.declaredProfiles())
		}
		full, _, err := splitTarget(c.URI, profile.resolvers)
		if err != nil {
			return nil, fmt.Errorf("dial target %q: %w", c.URI, err)
		}
		place := poolKey{uri: full, profile: c.Profile}
		if other := byPlace[place]; other != nil {
			return other, nil
		}
		m := &member{key: poolKey{name: c.Name, uri: full, profile: c.Profile}, target: c.URI, config: c, settings: profile}
		if c.Sharding != nil {
			own := *profile
			own.sharding, own.header = c.Sharding, ""
			if err := own.checkSharding(); err != nil {
				return nil, err
			}
			m.settings = &own
		}
		byName[c.Name], byPlace[place] = m, m
		return m, nil
	}
	for i, c := range t.Targets {
		switch {
		case c.Name == "":
			fault("target %d has no name; groups and metrics call it by that", i+1)
			continue
		case strings.Contains(c.Name, idSeparator):
			fault("target %q has a zero byte in its name; leave it out", c.Name)
			continue
		case byName[c.Name] != nil:
			fault("target %q is declared twice; use a name for each target", c.Name)
			continue
		}
		switch m, err := declare(c); {
		case err != nil:
			fault("target %q: %w", c.Name, err)
		case m.key.name != c.Name:
			fault("targets %q and %q have the same URI and profile, and so one pool; declare it once and list it in both groups", m.key.name, c.Name)
		}
		if c.ErrorRatio != nil {
			if err := c.ErrorRatio.Validate(); err != nil {
				problems = append(problems, located(fmt.Sprintf("target %q: ErrorRatio", c.Name), err))
			}
		}
	}

	if len(t.Groups) == 0 {
		fault("there is no group; the first one is where calls go that name none")
	}
	seen := make(map[string]bool)
	used := make(map[*member]bool)
	for i, g := range t.Groups {
		switch {
		case g.Name == "":
			fault("group %d has no name; calls name it by that", i+1)
		case seen[g.Name]:
			fault("group %q is declared twice; use a name for each group", g.Name)
		}
		seen[g.Name] = true
		if len(g.Targets) == 0 {
			fault("group %q lists no target; it needs at least one", g.Name)
		}
		if err := g.Failover.Validate(); err != nil {
			problems = append(problems, located(fmt.Sprintf("group %q: Failover", g.Name), err))
		}
		var list []*member
		for _, name := range g.Targets {
			m := byName[name]
			if m == nil {
				var err error
				switch declared := t.targetNames(); {
				case slices.Contains(declared, name): // with a fault that was told
					continue
				case len(declared) > 0 && !strings.ContainsAny(name, ":/."):
					// A name that is misspelt must not become a host to look up.
					fault("group %q lists %q, which is no declared target; declared are %q; a host is written as dns:///%s", g.Name, name, declared, name)
					continue
				}
				if m, err = declare(TargetConfig{Name: name, URI: name}); err != nil {
					fault("group %q lists %q: %w", g.Name, name, err)
					continue
				}
				m.plain = m.plain || m.key.name == name
			}
			if slices.Contains(list, m) {
				fault("group %q lists %q twice; each target has one place in the order", g.Name, m.key.name)
				continue
			}
			list = append(list, m)
			if !used[m] {
				used[m] = true
				p.members = append(p.members, m)
			}
		}
		for _, m := range list {
			m.standby = m.standby || len(list) > 1
		}
		p.groups = append(p.groups, list)
	}
	if err := s.checkGroupMethods(seen); err != nil {
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return p, nil
}
