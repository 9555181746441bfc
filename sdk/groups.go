package sdk

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// WithGroup declares a group: a named list of targets, best first, of which an RPC
// goes to the best one that is available (seed 003). A target is a dial target, as
// grpc.NewClient takes it; settings of its own it has from WithTopology. The first
// group is the default one. A call names another by interceptors.WithGroup, by
// [InGroup], by its method with WithGroupsByMethod, or because its stub was made of
// [Group.Conn].
//
// With groups, the target that Dial is given must be "". Used again, it adds a group.
func WithGroup(name string, targets ...string) Option {
	targets = slices.Clone(targets)
	return func(s *settings) {
		s.clientWide = append(s.clientWide, "WithGroup")
		s.groups = append(s.groups, GroupConfig{Name: name, Targets: targets})
	}
}

// WithTopology declares targets and groups with all their settings, instead of
// WithGroup. [Client.UpdateTopology] replaces it while RPCs run.
func WithTopology(t Topology) Option {
	t = t.clone()
	return func(s *settings) {
		s.clientWide = append(s.clientWide, "WithTopology")
		s.topology = &t
	}
}

// WithGroupsByMethod names the group for calls that name none themselves, by method
// pattern: "/package.Service/Method", "/package.Service/*" or "*", of which the most
// specific one counts. The map is copied. A group that a pattern names cannot be
// removed.
func WithGroupsByMethod(byPattern map[string]string) Option {
	own := maps.Clone(byPattern)
	return func(s *settings) {
		s.clientWide = append(s.clientWide, "WithGroupsByMethod")
		s.groupByMethod = own
	}
}

// WithUnknownGroupsRefused fails calls that name a group the client does not have,
// with INVALID_ARGUMENT. By default they go to the default group. Status counts
// them either way.
func WithUnknownGroupsRefused() Option {
	return func(s *settings) {
		s.clientWide = append(s.clientWide, "WithUnknownGroupsRefused")
		s.refuseUnknownGroups = true
	}
}

// WithMonitor probes the targets of groups that have several, each over its own
// connections: one whose probes fail is down, though it is connected. A nil Checker
// asks the gRPC health service. By default connectivity says alone whether a target
// is up.
func WithMonitor(o health.Options) Option {
	return func(s *settings) {
		s.clientWide = append(s.clientWide, "WithMonitor")
		s.monitor = &o
	}
}

// namedOptions is a dial profile as it was declared.
type namedOptions struct {
	name string
	opts []Option
}

// WithDialProfile declares options for the targets that name it, on top of the
// client's own and in place of those that can be given once: other credentials,
// connection settings, or how keys route there.
func WithDialProfile(name string, opts ...Option) Option {
	opts = slices.Clone(opts)
	return func(s *settings) {
		s.clientWide = append(s.clientWide, "WithDialProfile")
		s.profileOptions = append(s.profileOptions, namedOptions{name, opts})
	}
}

// resolveProfiles works out the settings of each profile: those of the client, whose
// options are base, and its own on top.
func (s *settings) resolveProfiles(base []Option) {
	s.profiles = map[string]*settings{"": s}
	for _, p := range s.profileOptions {
		fault := func(format string, args ...any) {
			s.problems = append(s.problems, fmt.Errorf("WithDialProfile: "+format, args...))
		}
		if p.name == "" {
			fault("the name is empty; targets name the profile by it, and without one have the client's own options")
			continue
		}
		if s.profiles[p.name] != nil {
			fault("%q is declared twice; use a name for each profile", p.name)
			continue
		}
		if own := newSettings(p.opts); len(own.clientWide) > 0 {
			fault("%q: %s is about the whole client; give it to Dial", p.name, strings.Join(own.clientWide, ", "))
		}
		whole := newSettings(append(slices.Clone(base), p.opts...))
		whole.grouped = s.grouped
		s.profiles[p.name] = whole
	}
}

// resolveServices works out how the sharding services that are configured are dialled.
func (s *settings) resolveServices() error {
	if len(s.configuredServices) == 0 {
		return nil
	}
	var problems []error
	own := make(map[string]shardingService, len(s.configuredServices))
	for _, svc := range s.configuredServices {
		name := ""
		set(&name, svc.Profile)
		profile := s.profiles[name]
		if profile == nil {
			problems = append(problems, fmt.Errorf("shardingServices[%q].profile: profile %q is not declared; %s", svc.Key, name, s.declaredProfiles()))
			continue
		}
		opts := slices.Clone(profile.dialOptions)
		if profile.credentials != nil {
			opts = append(opts, grpc.WithTransportCredentials(profile.credentials))
		}
		own[svc.Key] = shardingService{svc.URI, append(opts, grpc.WithResolvers(profile.resolvers...)), svc}
	}
	for _, profile := range s.profiles {
		services := maps.Clone(profile.services)
		maps.Copy(services, own)
		profile.services = services
	}
	return errors.Join(problems...)
}

// declaredTopology is what code declared, else a group of the one target that Dial
// was given.
func (s *settings) declaredTopology(target string) (Topology, error) {
	switch {
	case s.topology != nil && len(s.groups) > 0:
		return Topology{}, errors.New("both WithTopology and WithGroup were used; use one of them")
	case target != "" && (s.topology != nil || len(s.groups) > 0):
		return Topology{}, fmt.Errorf("the client has groups, and Dial was given the target %q as well; give it \"\", and list the target in a group", target)
	case s.topology != nil:
		return *s.topology, nil
	case len(s.groups) > 0:
		return Topology{Groups: s.groups}, nil
	case target == "" && len(s.configuredGroups) > 0:
		return Topology{}, nil
	case target == "":
		return Topology{}, errNoTarget
	}
	return Topology{Groups: []GroupConfig{{Name: DefaultGroup, Targets: []string{target}}}}, nil
}

// DefaultGroup is the name of the group of a client that Dial was given a target
// for.
const DefaultGroup = "default"

func (s *settings) declaredProfiles() string {
	var names []string
	for name := range s.profiles {
		if name != "" {
			names = append(names, fmt.Sprintf("%q", name))
		}
	}
	if slices.Sort(names); len(names) == 0 {
		return "none is; declare it with WithDialProfile"
	}
	return "declared are " + strings.Join(names, ", ")
}

// checkGroupMethods checks what methods say of groups, of which there are some.
func (s *settings) checkGroupMethods(there map[string]bool) error {
	var problems []error
	var table callinfo.Methods[string]
	for _, pattern := range slices.Sorted(maps.Keys(s.groupByMethod)) {
		name := s.groupByMethod[pattern]
		err := table.Add(pattern, name)
		if err == nil && !there[name] {
			err = fmt.Errorf("pattern %q names the group %q, which is not declared; declared are %v", pattern, name, slices.Sorted(maps.Keys(there)))
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("WithGroupsByMethod: %w", err))
		}
	}
	return errors.Join(problems...)
}
