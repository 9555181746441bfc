package sdk

import (
	"maps"
	"reflect"
	"slices"
)

// TopologyChange says what an update of the topology did.
type TopologyChange struct {
	// Targets are those that got a channel, lost it, or have other settings now, by
	// name. A target with another URI or profile is both added and removed.
	Targets Change
	// Groups likewise; one that is the default group now and was not is changed.
	Groups Change
}

// Change lists names, in order.
type Change struct{ Added, Removed, Changed []string }

// Empty says that nothing changed.
func (t TopologyChange) Empty() bool { return t.Targets.empty() && t.Groups.empty() }

func (c Change) empty() bool { return len(c.Added)+len(c.Removed)+len(c.Changed) == 0 }

// difference compares two plans.
func difference(before, after *plan) TopologyChange {
	var t TopologyChange
	type place struct {
		key    poolKey
		config TargetConfig
	}
	targets := func(p *plan) (names []string, by map[string]place) {
		by = make(map[string]place)
		for _, m := range p.members {
			names = append(names, m.key.name)
			by[m.key.name] = place{m.key, m.config}
		}
		return names, by
	}
	was, wasBy := targets(before)
	is, isBy := targets(after)
	for _, name := range is {
		switch old, ok := wasBy[name]; {
		case !ok:
			t.Targets.Added = append(t.Targets.Added, name)
		case old.key != isBy[name].key:
			t.Targets.Added = append(t.Targets.Added, name)
			t.Targets.Removed = append(t.Targets.Removed, name)
		case !reflect.DeepEqual(old.config, isBy[name].config):
			t.Targets.Changed = append(t.Targets.Changed, name)
		}
	}
	for _, name := range was {
		if _, ok := isBy[name]; !ok {
			t.Targets.Removed = append(t.Targets.Removed, name)
		}
	}

	old := make(map[string]GroupConfig)
	for _, g := range before.topology.Groups {
		old[g.Name] = g
	}
	for i, g := range after.topology.Groups {
		promoted := i == 0 && len(old) > 0 && g.Name != before.topology.Groups[0].Name
		switch o, ok := old[g.Name]; {
		case !ok:
			t.Groups.Added = append(t.Groups.Added, g.Name)
		case promoted || !slices.Equal(o.Targets, g.Targets) || o.Failover != g.Failover || o.Selector != g.Selector:
			t.Groups.Changed = append(t.Groups.Changed, g.Name)
		}
		delete(old, g.Name)
	}
	t.Groups.Removed = slices.Sorted(maps.Keys(old))
	return t
}
