package sdk

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/configsource"
	"github.com/slicewire/slicewire/telemetry/debug"
)

// DebugHandler serves pages that show what the client does: groups and targets,
// endpoints, selectors, the slice table, the stream to the sharding service, the
// configuration, what has happened, and where a key goes. Each is also there as JSON,
// with ?format=json. Mount it as net/http/pprof, at a path that ends in a slash:
//
//	mux.Handle("/debug/slicewire/", client.DebugHandler())
//
// It changes nothing, and works while the client is idle and after Close. The pages
// show names, addresses and errors; the bounds of slices, which are keys, are on the
// two pages that are about slices and keys alone. See that only operators come there.
func (c *Client) DebugHandler() http.Handler { return debug.NewHandler(inspector{c}) }

// inspector is a Client as the debug pages see it.
type inspector struct{ client *Client }

// candidatesShown is how many candidates, and owners, an explanation lists.
const candidatesShown = 100

// Names implements debug.Source.
func (i inspector) Names() debug.Names {
	t := i.client.seen.Load()
	n := debug.Names{Target: t.fallback.group.current.Load().name}
	for _, g := range t.groups {
		n.Groups = append(n.Groups, g.name)
	}
	for _, p := range i.pools() {
		if !slices.Contains(n.Targets, p.name) {
			n.Targets = append(n.Targets, p.name)
		}
		for _, s := range p.router.Selectors() {
			if !slices.Contains(n.Selectors, s.Name()) {
				n.Selectors = append(n.Selectors, s.Name())
			}
		}
	}
	return n
}

// pools are all, those that are leaving last.
func (i inspector) pools() []*pool {
	all := i.client.seen.Load().pools
	if leaving := i.client.onLeave.Load(); leaving != nil {
		all = append(all[:len(all):len(all)], *leaving...)
	}
	return all
}

// pool returns the pool of a target, nil if there is none. Of two with one name the
// one that is leaving comes second.
func (i inspector) pool(target string) *pool {
	for _, p := range i.pools() {
		if p.name == target {
			return p
		}
	}
	return nil
}

// Overview implements debug.Source.
func (i inspector) Overview() debug.Overview {
	s := i.client.Status()
	o := debug.Overview{Closed: i.client.table.Load() == nil, UnknownGroups: s.UnknownGroups}
	selectors := i.groupSelectors()
	for _, g := range s.Groups {
		o.Groups = append(o.Groups, shownGroup(g, selectors[g.Name]))
	}
	for _, t := range s.Targets {
		o.Targets = append(o.Targets, shownSummary(t))
	}
	return o
}

// groupSelectors are the selectors of groups that name one.
func (i inspector) groupSelectors() map[string]string {
	by := make(map[string]string)
	for _, g := range i.client.seen.Load().topology.Groups {
		by[g.Name] = g.Selector
	}
	return by
}

// Target implements debug.Source.
func (i inspector) Target(name string) *debug.Target {
	p := i.pool(name)
	if p == nil {
		return nil
	}
	leaving := !slices.Contains(i.client.seen.Load().pools, p)
	return shownTarget(i.client.driver.target(p, leaving, time.Now()))
}

// Slices implements debug.Source.
func (i inspector) Slices(target string) debug.Slices {
	if p := i.pool(target); p != nil {
		if t := p.router.Slices(); t != nil {
			return slicesOf{t}
		}
	}
	return nil
}

// Events implements debug.Source.
func (i inspector) Events() []debug.Event { return i.client.events.Newest() }

// Config implements debug.Source.
func (i inspector) Config() *debug.Config {
	c := &i.client.configs
	s, u, r := c.get(), c.inForce.Load(), c.refusal.Load()
	if s.Source == "" && u == nil && r == nil {
		return nil
	}
	d := &debug.Config{Source: s.Source, Revision: s.Hash, AppliedAt: s.AppliedAt, Applied: s.Applied, Refused: s.Refused, Trouble: text(s.LastError)}
	if !s.AppliedAt.IsZero() {
		d.Age = debug.Duration(time.Since(s.AppliedAt))
	}
	if u != nil {
		var b strings.Builder
		_ = u.Explain(&b) // a Builder takes all
		d.Values = b.String()
	}
	if r != nil {
		d.LastRefused = &debug.RefusedConfig{At: r.at, Problems: problems(r.err)}
	}
	return d
}

// problems are what is wrong with a configuration, one by one.
func problems(err error) []string {
	var all []string
	for _, p := range configsource.Problems(err) {
		all = append(all, p.Error())
	}
	if all == nil {
		all = strings.Split(err.Error(), "\n")
	}
	return all
}

// Explain implements debug.Source.
func (i inspector) Explain(q debug.Question) (*debug.Explanation, error) {
	t := i.client.seen.Load()
	g := t.fallback.group
	if q.Group != "" {
		at := slices.IndexFunc(t.groups, func(g *group) bool { return g.name == q.Group })
		if at < 0 {
			return nil, fmt.Errorf("there is no group %q", q.Group)
		}
		g = t.groups[at]
	}
	p := g.current.Load()
	if q.Target != "" {
		if p = i.pool(q.Target); p == nil {
			return nil, fmt.Errorf("there is no target %q", q.Target)
		}
	}
	name := q.Selector
	if name == "" {
		name = i.groupSelectors()[g.name]
	}
	if name == "" {
		name = DefaultSelector
	}
	s := p.router.Selector(name)
	if s == nil {
		return nil, fmt.Errorf("target %q has no selector %q", p.name, name)
	}
	e, err := s.Explain(q.Key, candidatesShown)
	if err != nil {
		return nil, err
	}
	return shownExplanation(g.name, p.name, &e), nil
}

func shownGroup(g GroupStatus, selector string) debug.Group {
	d := debug.Group{
		Name: g.Name, Current: g.Current, Since: g.Since, Reason: g.Reason.String(), PinnedUntil: g.PinnedUntil, Selector: selector,
		Switches: counted(g.Switches, failover.Reason.String),
	}
	for _, t := range g.Targets {
		own := debug.GroupTarget{
			Name: t.Name, Current: t.Current, State: t.State.String(), Since: t.Since, Reason: t.Reason.String(), Until: t.Until,
			Downtime: debug.Duration(t.Downtime),
		}
		for _, s := range t.Bad {
			own.Bad = append(own.Bad, s.String())
		}
		d.Targets = append(d.Targets, own)
	}
	return d
}

func shownSummary(t TargetStatus) debug.Summary {
	s := debug.Summary{
		Name: t.Name, URI: t.URI, Profile: t.Profile, Authority: t.Router.Authority, State: t.State.String(),
		Readiness: t.Router.Readiness.String(), Leaving: t.Leaving, InFlight: t.InFlight, Disabled: t.Disabled,
		Generation: t.Router.Generation, Picks: picks(t.Router.Picks),
	}
	if r := t.ErrorRatio; r != nil {
		s.Ratio = &debug.Ratio{
			Ratio: strconv.FormatFloat(100*r.Ratio, 'f', 1, 64) + "%", Failed: uint64(r.Failures), Total: uint64(r.Calls), Exceeded: r.Condemned,
		}
	}
	states := make(map[string]int)
	for _, e := range t.Router.Endpoints {
		states[e.State.String()]++
	}
	s.Endpoints = counted(states, func(s string) string { return s })
	return s
}

// picks are the counts that are not 0, but for ready ones.
func picks(p balancer.PickCounts) []debug.Count {
	all := nonZero([]debug.Count{
		{Name: "queued", Count: p.Queued},
		{Name: "failed", Count: p.Failed},
		{Name: "dropped", Count: p.Dropped},
		{Name: "keyless", Count: p.Keyless},
		{Name: "refused by admission", Count: p.Refused},
		{Name: "retries", Count: p.Retries},
	})
	fallbacks := nonZero(counted(p.Fallbacks, func(s string) string { return "in fallback: " + s }))
	return slices.Concat([]debug.Count{{Name: "ready", Count: p.Ready}}, all, fallbacks)
}
