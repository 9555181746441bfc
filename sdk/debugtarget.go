package sdk

import (
	"cmp"
	"maps"
	"slices"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/telemetry/debug"
)

// This file turns what a Router says of itself into what the debug pages show.

func shownTarget(t TargetStatus) *debug.Target {
	r := t.Router
	d := &debug.Target{
		Summary:    shownSummary(t),
		Endpoints:  make([]debug.Endpoint, len(r.Endpoints)),
		Membership: r.Membership, AllUnhealthy: r.AllUnhealthy, UnknownOwners: r.UnknownOwners,
		Faults: nonZero([]debug.Count{
			{Name: "errors", Count: r.ResolverErrors},
			{Name: "empty lists", Count: r.EmptyUpdates},
			{Name: "service configs refused", Count: r.ConfigErrors},
			{Name: "picks for unknown selectors", Count: r.UnknownSelectors},
		}),
		Connections: totals(&r.Connections), LastResolverError: text(r.LastResolverError), LastConfigError: text(r.LastConfigError),
	}
	for i := range r.Endpoints {
		d.Endpoints[i] = shownEndpoint(&r.Endpoints[i])
	}
	for i := range r.Selectors {
		d.Selectors = append(d.Selectors, shownSelector(&r.Selectors[i]))
	}
	if r.Assignment.Phase != assignment.Unconfigured {
		d.Stream = shownStream(&r.Assignment)
	}
	return d
}

func shownEndpoint(e *balancer.EndpointStatus) debug.Endpoint {
	d := debug.Endpoint{
		Name: e.Name, Address: e.Address, State: e.State.String(), Since: e.Since, Picks: e.Picks, Pending: e.Pending,
		Draining: e.Draining, RetryAfter: debug.Duration(e.RetryAfter), Connections: connectionCounts(&e.Connections),
	}
	if d.Health = e.Health.String(); d.Health == "healthy" {
		d.Health = "" // also where nobody probes
	}
	if e.Disabled != nil {
		d.Disabled, d.DisabledAt = e.Disabled.Reason, e.Disabled.Since
	}
	return d
}

func connectionCounts(c *balancer.ConnectionStates) []debug.Count {
	return nonZero([]debug.Count{
		{Name: "ready", Count: uint64(c.Ready)},
		{Name: "connecting", Count: uint64(c.Connecting)},
		{Name: "idle", Count: uint64(c.Idle)},
		{Name: "failing", Count: uint64(c.Failing)},
		{Name: "draining", Count: uint64(c.Draining)},
		{Name: "RPCs on those that drain", Count: uint64(c.DrainingStreams)},
	})
}

func shownEndpoints(list []balancer.EndpointStatus) []debug.Endpoint {
	all := make([]debug.Endpoint, len(list))
	for i := range list {
		all[i] = shownEndpoint(&list[i])
	}
	return all
}

func shownSelector(s *balancer.SelectorStatus) debug.Selector {
	d := debug.Selector{
		Name: s.Name, Policy: s.Policy, Generation: s.Generation, InForce: s.InForce, Source: s.Source.String(), Membership: s.Membership,
		Picks: picks(s.Picks), BadResults: nonZero(counted(s.BadResults, func(reason string) string { return reason })),
		LastBuildError: text(s.LastBuildError),
	}
	if b := s.Builds; b != (balancer.BuildStatus{}) {
		d.Builds = &debug.Builds{
			Builds: b.Builds, Failed: b.Failed, Coalesced: b.Coalesced, Queue: debug.Duration(b.Queue), Build: debug.Duration(b.Build),
		}
	}
	for _, p := range slices.Backward(s.History) {
		d.History = append(d.History, debug.Publication{Generation: p.Generation, Policy: p.Policy, Source: p.Source.String(), At: p.At})
	}
	return d
}

func shownStream(a *assignment.Status) *debug.Stream {
	return &debug.Stream{
		Phase: a.Phase.String(), ChannelKey: a.ChannelKey, Target: a.Target, ClientUUID: a.ClientUUID,
		Generation: a.Generation, Slices: a.Slices, Endpoints: a.Endpoints, Bytes: a.Bytes, ReceivedAt: a.ReceivedAt, Age: debug.Duration(a.Age),
		Connected: a.StreamConnected, Since: a.StreamSince, MessageAt: a.MessageAt, StaleFor: debug.Duration(a.StaleFor),
		Counts: []debug.Count{
			{Name: "streams opened", Count: uint64(a.StreamsOpened)},
			{Name: "accepted", Count: uint64(a.Accepted)},
			{Name: "stale", Count: uint64(a.Stale)},
			{Name: "invalid", Count: uint64(a.Invalid)},
			{Name: "superseded", Count: uint64(a.Superseded)},
		},
		LastAck: shownAck(a.LastAck), LastRefusal: shownAck(a.LastRefusal), LastError: a.LastError,
	}
}

func shownAck(a assignment.Ack) *debug.Ack {
	if a.At.IsZero() {
		return nil
	}
	return &debug.Ack{At: a.At, Generation: a.Generation, Accepted: a.Accepted, Message: a.Message}
}

// slicesOf is a slice table as the debug pages see it.
type slicesOf struct{ *balancer.SliceTable }

// Slice implements debug.Slices.
func (t slicesOf) Slice(number, owners int) debug.Slice {
	return shownSlice(t.SliceTable.Slice(number, owners))
}

func shownSlice(s balancer.Slice) debug.Slice {
	d := debug.Slice{
		Number: s.Number, Start: debug.ShowKey(s.Start), Kind: s.Kind.String(), AllOwners: s.AllOwners,
		Owners: make([]debug.Owner, len(s.Owners)),
	}
	if !s.Last {
		end := debug.ShowKey(s.End)
		d.End = &end
	}
	for i := range s.Owners {
		o := &s.Owners[i]
		if d.Owners[i] = (debug.Owner{Known: o.Known}); o.Known {
			d.Owners[i].Endpoint = shownEndpoint(&o.EndpointStatus)
		}
		d.Owners[i].Name = o.Name
	}
	return d
}

func shownExplanation(group, target string, e *balancer.Explanation) *debug.Explanation {
	d := &debug.Explanation{
		Group: group, Target: target, Selector: e.Selector, Policy: e.Policy, PolicyGeneration: e.PolicyGeneration,
		Generation: e.Generation, Candidates: shownEndpoints(e.Candidates), More: e.More,
		Outcome: e.Outcome.String(), Endpoint: e.Endpoint, Connects: e.Connects, Fallback: e.Fallback, Why: e.Why,
	}
	if e.Slice != nil {
		s := shownSlice(*e.Slice)
		d.Slice = &s
	}
	return d
}

// totals are what became of a target's connections.
func totals(c *balancer.ConnectionCounts) []debug.Count {
	closed := nonZero(counted(c.Closed, func(reason string) string { return "closed: " + reason }))
	return slices.Concat([]debug.Count{{Name: "opened", Count: c.Opened}}, closed, nonZero([]debug.Count{
		{Name: "opened for load", Count: c.ScaledUp},
		{Name: "begun to drain", Count: c.ScaledDown},
		{Name: "used again", Count: c.Reused},
		{Name: "unresponsive", Count: c.Unresponsive},
	}))
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// counted are counts in the order of their names.
func counted[K cmp.Ordered, N int | uint64](by map[K]N, name func(K) string) []debug.Count {
	var all []debug.Count
	for _, k := range slices.Sorted(maps.Keys(by)) {
		all = append(all, debug.Count{Name: name(k), Count: uint64(by[k])})
	}
	return all
}

func nonZero(counts []debug.Count) []debug.Count {
	return slices.DeleteFunc(counts, func(c debug.Count) bool { return c.Count == 0 })
}
