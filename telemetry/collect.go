package telemetry

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/balancer/selection"
)

// registries are those of health probes that a collection has shown already.
type registries map[*health.Registry]bool

// collect shows one client.
func (r *Registration) collect(o *output, seen registries) {
	s := r.source.Snapshot()
	o.client = attribute.String(LabelClient, r.client)
	named := make(map[string]bool, len(s.Targets))
	for i := range s.Targets {
		t := &s.Targets[i]
		if named[t.Name] {
			continue // it is leaving, and another one has its name
		}
		named[t.Name] = true
		r.target(o, t)
	}
	o.selectors(s.Targets)
	for i := range s.Groups {
		o.group(&s.Groups[i])
	}
	o.health(s.Registries, seen)
	if s.Monitor != nil {
		o.probes(targetProbes, s.Monitor.Stats())
	}
	if c := s.Config; c != nil {
		o.float(configAge, time.Since(c.Since).Seconds())
		o.count(configRevision, c.Revision)
	}
	r.counts.show(o)
}

func (r *Registration) target(o *output, t *Target) {
	target := attribute.String(LabelTarget, t.Name)
	s := &t.Router
	for state, n := range endpointStates(s) {
		o.int(endpoints, int64(n), target, attribute.String(LabelState, stateNames[state]))
	}
	r.connections(o, target, t)
	open := 0
	for i := range s.Endpoints {
		if s.Endpoints[i].RetryAfter > 0 {
			open++
		}
	}
	o.int(breakersOpen, int64(open), target)
	o.count(admissionRejections, s.Picks.Refused, target, attribute.String(LabelReason, "admission"))
	for i := range s.Selectors {
		o.selector(target, s, &s.Selectors[i])
	}
	if sharded(s) {
		o.sharding(target, s)
	}
	if t.ErrorRatio != nil {
		o.float(targetRatio, t.ErrorRatio.Ratio, target)
	}
}

func sharded(s *balancer.Status) bool { return s.Config != nil && s.Config.Sharded() }

// stateNames are gRPC's names as labels.
var stateNames = [...]string{
	connectivity.Idle: "idle", connectivity.Connecting: "connecting", connectivity.Ready: "ready", connectivity.TransientFailure: "transient_failure",
}

func endpointStates(s *balancer.Status) (n [len(stateNames)]int) {
	for i := range s.Endpoints {
		if state := s.Endpoints[i].State; int(state) < len(n) {
			n[state]++
		}
	}
	return n
}

func (o *output) sharding(target attribute.KeyValue, s *balancer.Status) {
	a := &s.Assignment
	result := func(row int, name string, n int64) {
		o.int(row, n, target, attribute.String(LabelResult, name))
	}
	result(assignmentUpdates, "accepted", a.Accepted)
	result(assignmentUpdates, "stale", a.Stale)
	result(assignmentUpdates, "invalid", a.Invalid)
	result(assignmentUpdates, "superseded", a.Superseded)
	result(shardingAcks, "accepted", a.Accepted)
	result(shardingAcks, "refused", a.Stale+a.Invalid+a.Superseded)
	o.int(shardingStreams, a.StreamsOpened, target)
	o.flag(shardingConnected, a.StreamConnected, target)
}

func (o *output) selector(target attribute.KeyValue, s *balancer.Status, sel *balancer.SelectorStatus) {
	name := attribute.String(LabelSelector, sel.Name)
	policy := attribute.String(LabelPolicy, sel.Kind.String())
	fallback := uint64(0)
	for reason, n := range sel.Picks.Fallbacks {
		fallback += n
		o.count(fallbacks, n, target, name, attribute.String(LabelReason, reason))
	}
	result := func(name_ string, n uint64) {
		o.count(picks, n, target, name, policy, attribute.String(LabelResult, name_))
	}
	// A pick may be between its two counts.
	result("ready", sel.Picks.Ready-min(fallback, sel.Picks.Ready))
	result("fallback", fallback)
	result("queued", sel.Picks.Queued)
	result("failed", sel.Picks.Failed)
	result("dropped", sel.Picks.Dropped)

	generation := func(row int, of string, n int64) { o.int(row, n, target, name, attribute.String(LabelType, of)) }
	generation(selectorGeneration, "membership", int64(s.Membership))
	generation(selectorGeneration, "policy", int64(sel.Generation))
	generation(selectorGeneration, "published", int64(sel.InForce))
	generation(selectorLag, "membership", behind(s.Membership, sel.Membership))
	generation(selectorLag, "policy", behind(sel.Generation, sel.InForce))
	if sel.Kind == selection.KindSliced && sharded(s) {
		a := &s.Assignment
		lag := int64(0)
		if s.State != connectivity.Idle && a.Generation != s.Generation {
			lag = 1
		}
		generation(selectorGeneration, "assignment", s.Generation)
		generation(selectorLag, "assignment", lag)
		o.int(assignmentGeneration, a.Generation, target, name)
		if a.Generation > 0 {
			o.float(assignmentAge, a.Age.Seconds(), target, name)
			o.int(assignmentSlices, int64(a.Slices), target, name)
			o.int(assignmentUncovered, int64(a.Uncovered), target, name)
			o.int(assignmentEndpoints, int64(a.Endpoints), target, name)
		}
	}
	o.count(selectorBuilds, sel.Builds.Builds, target, name)
	o.count(selectorCoalesced, sel.Builds.Coalesced, target, name)
	o.count(selectorFailures, sel.Builds.Failed, target, name)
}

func behind(newest, used uint64) int64 {
	if used >= newest {
		return 0
	}
	return int64(newest - used)
}

// selectors shows what is counted for a selector over all targets.
func (o *output) selectors(targets []Target) {
	type key struct{ selector, policy, reason string }
	bad := make(map[key]uint64)
	for i := range targets {
		for k := range targets[i].Router.Selectors {
			s := &targets[i].Router.Selectors[k]
			for reason, n := range s.BadResults {
				bad[key{s.Name, s.Kind.String(), reason}] += n
			}
		}
	}
	for k, n := range bad {
		o.count(policyBadResults, n, attribute.String(LabelSelector, k.selector), attribute.String(LabelPolicy, k.policy), attribute.String(LabelReason, k.reason))
	}
}

func (o *output) group(g *Group) {
	group := attribute.String(LabelGroup, g.Name)
	for reason, n := range g.Switches {
		o.count(groupSwitches, n, group, attribute.String(LabelReason, reason.String()))
	}
	for i := range g.Targets {
		t := &g.Targets[i]
		target := attribute.String(LabelTarget, t.Name)
		o.flag(groupCurrent, t.Name == g.Current, group, target)
		for state := failover.Ready; state <= failover.Down; state++ {
			o.flag(targetState, t.State == state, group, target, attribute.String(LabelState, state.String()))
		}
		o.float(targetDowntime, t.Downtime.Seconds(), group, target)
	}
}

func (o *output) health(list []*health.Registry, seen registries) {
	var sum health.Stats
	shown := false
	for _, r := range list {
		if r == nil || seen[r] {
			continue
		}
		seen[r], shown = true, true
		s := r.Stats()
		sum.Passed += s.Passed
		sum.Failed += s.Failed
		sum.NoVerdict += s.NoVerdict
		sum.ToHealthy += s.ToHealthy
		sum.ToUnhealthy += s.ToUnhealthy
		sum.Healthy += s.Healthy
		sum.Unhealthy += s.Unhealthy
		sum.Unknown += s.Unknown
	}
	if !shown {
		return
	}
	state := func(name string) attribute.KeyValue { return attribute.String(LabelState, name) }
	o.probes(healthProbes, sum)
	o.count(healthFlips, sum.ToHealthy, state("healthy"))
	o.count(healthFlips, sum.ToUnhealthy, state("unhealthy"))
	o.int(healthTargets, int64(sum.Healthy), state("healthy"))
	o.int(healthTargets, int64(sum.Unhealthy), state("unhealthy"))
	o.int(healthTargets, int64(sum.Unknown), state("unknown"))
}

func (o *output) probes(row int, s health.Stats) {
	result := func(name string) attribute.KeyValue { return attribute.String(LabelResult, name) }
	o.count(row, s.Passed, result("passed"))
	o.count(row, s.Failed, result("failed"))
	o.count(row, s.NoVerdict, result("no_verdict"))
}
