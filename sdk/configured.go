package sdk

import (
	"maps"
	"time"

	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/configsource"
	"github.com/slicewire/slicewire/interceptors"
)

// configured puts on s what a configuration says, over what code says. The
// configuration is valid; r is what runs for it.
func (s *settings) configured(c *configsource.Config, r *running) {
	s.isConfigured = true
	if n := c.Client.Name; n != nil && s.router.Logger != nil {
		s.router.Logger = s.router.Logger.With("client", *n)
	}
	set(&s.telemetry.Client, c.Client.Name)
	set(&s.drainTimeout, c.Client.DrainTimeout)
	set(&s.router.RetireTimeout, c.Client.RetireTimeout)
	set(&s.router.KeepLastEndpoints, c.Client.KeepLastEndpoints)
	is(&s.router.RefuseUnknownSelectors, c.Client.UnknownSelectors, "refuse")
	is(&s.refuseUnknownGroups, c.Client.UnknownGroups, "refuse")
	is(&s.router.BadResultsUseP2C, c.Client.BadResults, "p2c")
	if k := c.Client.Keys; k != nil {
		o := interceptors.KeyRequired()
		if *k == "optional" {
			o = interceptors.KeyOptional()
		}
		s.key = append(s.key[:len(s.key):len(s.key)], o)
	}
	if c.Sharding != nil {
		s.sharding, s.header = shardingOf(c.Sharding), ""
	}
	if c.KeyHeader != nil && s.sharding == nil {
		s.header = *c.KeyHeader
	}
	s.configuredServices = c.ShardingServices
	if st := c.ShardingStream; st != nil {
		o := &s.router.Assignment
		if b := st.Backoff; b != nil {
			if o.Backoff == (backoff.Config{}) {
				o.Backoff = backoff.DefaultConfig
			}
			set(&o.Backoff.BaseDelay, b.BaseDelay)
			set(&o.Backoff.Multiplier, b.Multiplier)
			set(&o.Backoff.Jitter, b.Jitter)
			set(&o.Backoff.MaxDelay, b.MaxDelay)
		}
		set(&o.MinStreamGap, st.MinGap)
		set(&o.RefreshInterval, st.RefreshInterval)
		set(&o.MaxAssignmentBytes, st.MaxAssignmentBytes)
		set(&o.MaxMessageBytes, st.MaxMessageBytes)
	}
	if h := c.Health; h != nil {
		s.router.Health = r.health
		set(&s.router.FailAllUnhealthy, h.FailAllUnhealthy)
	}
	if c.Breaker != nil {
		s.router.Admission = r.breaker
	}
	if n := c.Connections; n != nil {
		o := &s.router.Connections
		set(&o.Min, n.Min)
		set(&o.Max, n.Max)
		set(&o.Streams, n.Streams)
		set(&o.ScaleDownAfter, n.ScaleDownAfter)
		set(&o.MaxAge, n.MaxAge)
		set(&o.MinReady, n.MinReady)
		if u := n.Unresponsive; u != nil {
			set(&o.Unresponsive.Deadlines, u.Deadlines)
			set(&o.Unresponsive.Window, u.Window)
		}
	}
	s.configuredTopology(c)
	for _, sel := range c.Selectors {
		s.configuredSelectors = append(s.configuredSelectors, namedPolicy{sel.Name, policyOf(&sel.Policy)})
	}
	selectors, groups := make(map[string]string), make(map[string]string)
	for _, m := range c.SelectorsByMethod {
		selectors[m.Pattern] = m.Selector
	}
	for _, m := range c.GroupsByMethod {
		groups[m.Pattern] = m.Group
	}
	s.selectorByMethod, s.groupByMethod = over(s.selectorByMethod, selectors), over(s.groupByMethod, groups)
}

// set is for what may not be said.
func set[T any](to *T, said *T) {
	if said != nil {
		*to = *said
	}
}

// is is for a choice of two words.
func is(to *bool, said *string, word string) {
	if said != nil {
		*to = *said == word
	}
}

// over is the map with more on top of it.
func over(m, more map[string]string) map[string]string {
	if len(more) == 0 {
		return m
	}
	own := maps.Clone(m)
	if own == nil {
		own = make(map[string]string, len(more))
	}
	maps.Copy(own, more)
	return own
}

// none is a duration of the configuration, in which 0s means none, for settings in
// which 0 is the default and a negative one none.
func none(said *time.Duration) time.Duration {
	switch {
	case said == nil:
		return 0
	case *said == 0:
		return -1
	}
	return *said
}

func shardingOf(c *configsource.Sharding) *Sharding {
	sh := &Sharding{ServiceKey: c.ServiceKey, Target: c.Target, KeyHeader: c.KeyHeader}
	set(&sh.Fallback, c.Fallback)
	set(&sh.InitialTimeout, c.InitialTimeout)
	if c.SpecRevision != nil && *c.SpecRevision == assignment.Revision202610.String() {
		sh.Revision = assignment.Revision202610
	}
	return sh
}

// configuredTopology notes the targets and groups of a configuration.
func (s *settings) configuredTopology(c *configsource.Config) {
	for _, t := range c.Targets {
		own := TargetConfig{Name: t.Name, URI: t.URI}
		set(&own.Profile, t.Profile)
		if m := t.MinReady; m != nil {
			own.MinReady = *m
			if *m == 0 {
				own.MinReady = -1
			}
		}
		if t.Sharding != nil {
			own.Sharding = shardingOf(t.Sharding)
		}
		if e := t.ErrorRatio; e != nil {
			o := &failover.RatioOptions{Codes: codesOf(e.Codes)}
			set(&o.Threshold, e.Ratio)
			set(&o.MinFailures, e.MinFailures)
			set(&o.Window, e.Window)
			set(&o.Probes, e.Probes)
			set(&o.Hold, e.Hold)
			set(&o.OnTrial, e.OnTrial)
			own.ErrorRatio = o
		}
		s.configuredTargets = append(s.configuredTargets, own)
	}
	for _, g := range c.Groups {
		own := GroupConfig{
			Name: g.Name, Targets: g.Targets, Failover: failover.Options{
				Recovery: none(g.Recovery), MinUptime: none(g.MinUptime), InitialGrace: none(g.InitialGrace), SwitchDelay: none(g.SwitchDelay),
			},
		}
		set(&own.Selector, g.Selector)
		s.configuredGroups = append(s.configuredGroups, own)
	}
}

// joined is t with what is configured: a target or group of the same name takes the
// place of the one in t, others come after it.
func (s *settings) joined(t Topology) Topology {
	t = t.clone()
	t.Targets = joinByName(t.Targets, s.configuredTargets, func(c TargetConfig) string { return c.Name })
	t.Groups = joinByName(t.Groups, s.configuredGroups, func(c GroupConfig) string { return c.Name })
	return t
}

func joinByName[T any](list, more []T, name func(T) string) []T {
	if len(more) == 0 {
		return list
	}
	at := make(map[string]int, len(list))
	for i, item := range list {
		at[name(item)] = i
	}
	for _, item := range more {
		if i, there := at[name(item)]; there {
			list[i] = item
		} else {
			list = append(list, item)
		}
	}
	return list
}

// codesOf are codes by their names.
func codesOf(names []string) []uint32 {
	var list []uint32
	for _, name := range names {
		var c codes.Code
		if c.UnmarshalJSON([]byte(`"`+name+`"`)) == nil { // the configuration was checked
			list = append(list, uint32(c))
		}
	}
	return list
}
