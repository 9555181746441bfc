package sdk

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/internal/callinfo"
	"github.com/slicewire/slicewire/telemetry"
)

// telemetryOption changes how the client is shown in OpenTelemetry.
func telemetryOption(name string, change func(*telemetry.Options)) Option {
	return func(s *settings) {
		s.clientWide = append(s.clientWide, name)
		change(&s.telemetry)
	}
}

// WithMeterProvider sends the client's metrics to p. By default they go to
// OpenTelemetry's global provider; set that before Dial, else what costs something for
// each RPC (delays, key sizes, gRPC's own metrics) stays off. Clients may share p.
func WithMeterProvider(p telemetry.MeterProvider) Option {
	return telemetryOption("WithMeterProvider", func(o *telemetry.Options) { o.MeterProvider = p })
}

// WithTracerProvider sends the client's spans to p: what RPCs wait for, and what
// happens to assignments, policies, groups and breakers. Picks are events on the span
// of the attempt, if there is one (WithGRPCTelemetry), else on the caller's. By
// default p is OpenTelemetry's global provider, as it is at Dial.
func WithTracerProvider(p telemetry.TracerProvider) Option {
	return telemetryOption("WithTracerProvider", func(o *telemetry.Options) { o.TracerProvider = p })
}

// WithPropagator sets what writes the trace into request headers, for
// WithGRPCTelemetry. By default it is OpenTelemetry's global one, as it is at Dial.
func WithPropagator(p telemetry.TextMapPropagator) Option {
	return telemetryOption("WithPropagator", func(o *telemetry.Options) { o.Propagator = p })
}

// WithGRPCTelemetry switches on gRPC's own client metrics and traces, once, on the
// providers of the client. Do not pass gRPC's or otelgrpc's stats handlers to
// WithDialOptions beside it.
func WithGRPCTelemetry() Option {
	return telemetryOption("WithGRPCTelemetry", func(o *telemetry.Options) { o.GRPC = true })
}

// WithClientName sets the label "client" of the client's metrics. By default it is
// client-1 and so on; a name that another client of the process has gets a number. A
// configuration's client.name counts over it.
func WithClientName(name string) Option {
	return telemetryOption("WithClientName", func(o *telemetry.Options) { o.Client = name })
}

// WithKeyHashing adds a short hash of the key, made with salt, to the event
// slicewire.pick of sampled RPCs, so that those of one key can be found. By default
// nothing of a key but its length leaves the client.
func WithKeyHashing(salt []byte) Option {
	salt = append([]byte{}, salt...)
	return telemetryOption("WithKeyHashing", func(o *telemetry.Options) { o.KeyHashSalt = salt })
}

// WithDelayMethodLabel adds the label grpc.method to the histograms of delays.
func WithDelayMethodLabel() Option {
	return telemetryOption("WithDelayMethodLabel", func(o *telemetry.Options) { o.MethodLabel = true })
}

// WithoutTelemetry shows nothing of the client in OpenTelemetry.
func WithoutTelemetry() Option {
	return func(s *settings) {
		s.clientWide = append(s.clientWide, "WithoutTelemetry")
		s.withoutTelemetry = true
	}
}

// show makes the client's registration; none where nothing is to be shown.
func (c *Client) show(s *settings) {
	if s.withoutTelemetry {
		return
	}
	o := s.telemetry
	o.Logger = c.logger
	var err error
	if c.shown, err = telemetry.New(o); err != nil {
		c.logger.Warn("a metric cannot be shown", "error", err)
	}
	c.driver.shown, c.configs.shown = c.shown, c.shown
}

// source is a Client as telemetry sees it.
type source struct{ *Client }

// Snapshot implements [telemetry.Source].
func (c source) Snapshot() telemetry.Snapshot {
	now := time.Now()
	t := c.seen.Load()
	var s telemetry.Snapshot
	for _, g := range c.driver.status(t, now) {
		s.Groups = append(s.Groups, telemetry.Group{Name: g.Name, Current: g.Current, Targets: g.Targets, Switches: g.Switches})
	}
	pools := slices.Clone(t.pools)
	leaving := len(pools)
	if left := c.onLeave.Load(); left != nil {
		pools = append(pools, *left...)
	}
	for i, p := range pools {
		st := c.driver.target(p, i >= leaving, now)
		s.Targets = append(s.Targets, telemetry.Target{Name: st.Name, Leaving: st.Leaving, ErrorRatio: st.ErrorRatio, Router: st.Router})
		if r := p.router.Health(); r != nil && !slices.Contains(s.Registries, r) {
			s.Registries = append(s.Registries, r)
		}
	}
	s.Monitor = c.monitor.Load().probing()
	if now := c.configs.get(); now.Applied > 0 {
		s.Config = &telemetry.Config{Revision: now.Applied, Since: now.AppliedAt}
	}
	return s
}

func (m *monitor) probing() *health.Registry {
	if m == nil {
		return nil
	}
	return m.registry
}

// measuredBy are the dial options of a channel that is shown: gRPC's own come before
// the user's, and ours after, so that our events find the span of the attempt.
func (p *pool) measuredBy(shown *telemetry.Registration) (before, after []grpc.DialOption) {
	p.shown = shown
	if p.shown == nil {
		return nil, nil
	}
	if o := p.shown.GRPCDialOption(); o != nil {
		before = append(before, o)
	}
	if p.delays = p.shown.Delays(); p.delays != nil {
		after = append(after, grpc.WithStatsHandler(p.delays))
	}
	return before, after
}

// resolving is when a call begins to wait for the name resolver, before its first
// attempt; it is zero where the call need not wait. An idle channel that knows its config
// has the call wait inside gRPC.
func (p *pool) resolving() (begin time.Time, inside bool) {
	if p.delays == nil {
		return time.Time{}, false
	}
	known := p.router.Config() != nil
	if known && p.router.Awake() {
		return time.Time{}, false
	}
	return time.Now(), known
}

// unresolved ends the wait inside gRPC of a call that ended before an attempt.
func (p *pool) unresolved(ctx context.Context, method string) {
	if p.delays != nil {
		p.delays.Resolving(ctx, method, callinfo.Resolved(ctx), time.Now())
	}
}

// keyed notes what key a call has, which has its record in ctx.
func (p *pool) keyed(ctx context.Context) {
	if p.delays == nil {
		return
	}
	if call := callinfo.From(ctx); call.HasKey {
		p.shown.KeySize(ctx, p.router.SelectorOf(ctx), len(call.Key))
	}
}

// keyless notes a call that is refused because it has no key.
func (p *pool) keyless(ctx context.Context, err error) {
	if p.shown != nil && errors.Is(err, interceptors.ErrMissingKey) {
		p.shown.KeyMissing(p.router.SelectorOf(ctx))
	}
}
