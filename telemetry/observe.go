package telemetry

import (
	"context"
	"log/slog"
	"time"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/selection"
)

// Observer is told what happens on the Router of a target: balancer.RouterOptions.
// Nil has none.
func (r *Registration) Observer(target string) balancer.Observer {
	if r == nil {
		return nil
	}
	return observer{r, target}
}

type observer struct {
	r      *Registration
	target string
}

// Observe implements [balancer.Observer].
func (o observer) Observe(e balancer.Event) {
	switch e := e.(type) {
	case balancer.AssignmentUpdate:
		o.assignment(e)
	case balancer.SelectorBuild:
		o.build(e)
	case balancer.PolicyPublication:
		o.policy(e)
	case balancer.BreakerEdge:
		o.breaker(e)
	}
}

// event is an event of the target.
func (o observer) event(name string, err error, fields ...slog.Attr) {
	e := event{At: time.Now(), Name: name, Fields: append([]slog.Attr{slog.String("target", o.target)}, fields...)}
	if err != nil {
		e.Err = err.Error()
	}
	o.r.tell(e)
}

func (o observer) assignment(e balancer.AssignmentUpdate) {
	ctx := context.Background()
	if e.Build > 0 {
		o.r.record(ctx, labelKey{row: assignmentBuild, target: o.target}, e.Build.Seconds())
	}
	fields := []slog.Attr{slog.String("sharding_target", e.ShardingTarget), slog.Int64("generation", e.Generation), slog.String("result", e.Result)}
	if e.Bytes > 0 {
		o.r.record(ctx, labelKey{row: assignmentSize, target: o.target}, float64(e.Bytes))
		fields = append(fields, slog.Int("slices", e.Slices), slog.Int("uncovered_slices", e.Uncovered), slog.Int("endpoints", e.Endpoints))
	}
	o.event(EventAssignment, e.Err, fields...)
}

func (o observer) build(e balancer.SelectorBuild) {
	fields := []slog.Attr{slog.String("selector", e.Selector), slog.String("policy", e.Policy)}
	if e.Err != nil {
		o.event(EventBuild, e.Err, append(fields, slog.String("result", balancer.Refused.String()))...)
		return
	}
	ctx := context.Background()
	k := labelKey{row: selectorQueue, target: o.target, selector: e.Selector}
	o.r.record(ctx, k, e.Queue.Seconds())
	k.row = selectorBuild
	o.r.record(ctx, k, e.Build.Seconds())
	o.event(EventBuild, nil, append(fields, slog.String("result", balancer.Published.String()), slog.Duration("queue", e.Queue), slog.Duration("build", e.Build))...)
}

// PolicyRefused tells of a policy that no target was asked to take. Nil does nothing.
func (r *Registration) PolicyRefused(selector string, p selection.Policy, source balancer.Source, err error) {
	if r == nil {
		return
	}
	r.counts.published(publication{selector, p.Kind().String(), source.String(), balancer.Refused.String()})
	fields := []slog.Attr{
		slog.String("selector", selector), slog.String("policy", p.String()),
		slog.String("source", source.String()), slog.String("result", balancer.Refused.String()),
	}
	r.tell(event{At: time.Now(), Name: EventPolicy, Fields: fields, Err: err.Error()})
	r.options.Logger.LogAttrs(context.Background(), slog.LevelWarn, policyRefused, append(fields, slog.Any("error", err))...)
}

const policyRefused = "a selection policy was refused; what was in force stays"

func (o observer) policy(e balancer.PolicyPublication) {
	o.r.counts.published(publication{e.Selector, e.Policy, e.Source.String(), e.Result.String()})
	if e.Result == balancer.Unchanged {
		return
	}
	fields := []slog.Attr{
		slog.String("selector", e.Selector), slog.String("policy", e.Rule), slog.Uint64("generation", e.Generation),
		slog.String("source", e.Source.String()), slog.String("result", e.Result.String()),
	}
	o.event(EventPolicy, e.Err, fields...)
	if e.Result == balancer.Refused { // what was published is logged by the Router
		o.log(policyRefused, append(fields, slog.Any("error", e.Err))...)
	}
}

func (o observer) breaker(e balancer.BreakerEdge) {
	fields := []slog.Attr{
		slog.String("endpoint", e.Endpoint), slog.String("from", e.From.String()), slog.String("to", e.To.String()),
		slog.Int("failures", e.Failures), slog.Int("calls", e.Calls), slog.Duration("retry_after", e.RetryAfter),
	}
	o.event(EventBreaker, nil, fields...)
	o.log("a circuit breaker changed its state", fields...)
}

func (o observer) log(message string, fields ...slog.Attr) {
	o.r.options.Logger.LogAttrs(context.Background(), slog.LevelWarn, message, append([]slog.Attr{slog.String("target", o.target)}, fields...)...)
}

// Switched tells of a change of a group's current target. Nil does nothing.
func (r *Registration) Switched(group, from, to string, reason failover.Reason, at time.Time) {
	if r == nil {
		return
	}
	r.tell(event{At: at, Name: EventFailover, Fields: []slog.Attr{
		slog.String("group", group), slog.String("from", from), slog.String("to", to), slog.String("reason", reason.String()),
	}})
}

// ConfigApplied tells of a configuration that was applied, was no news, or was
// refused, and of the revision that is in force then. The source is a word such as
// "file"; err must hold no key. Nil does nothing.
func (r *Registration) ConfigApplied(source, result string, revision uint64, err error) {
	if r == nil {
		return
	}
	r.counts.applied(apply{source, result})
	if result == "unchanged" {
		return
	}
	e := event{At: time.Now(), Name: EventConfig, Fields: []slog.Attr{
		slog.String("source", source), slog.String("result", result), slog.Uint64("revision", revision),
	}}
	if err != nil {
		e.Err = err.Error()
	}
	r.tell(e)
}

// KeyMissing counts a call that was refused for want of a key.
func (r *Registration) KeyMissing(selector string) { r.counts.keyMissing(selector) }

// KeySize notes the length of a call's key. It does nothing where nobody looks.
func (r *Registration) KeySize(ctx context.Context, selector string, bytes int) {
	r.record(ctx, labelKey{row: keySize, selector: selector}, float64(bytes))
}
