package telemetry_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// world is a client that uses everything: two targets in two groups, several
// selectors, probes, a monitor and breakers.
type world struct {
	*eyes
	main, other *sdktest.Cluster
	client      *sdk.Client
	echo        sdktest.Echo
	log         *book
	odd         *oddPolicy
	built       *oddBuilder
	topology    sdk.Topology
}

// oddPolicy is a policy that gives bad results while told to.
type oddPolicy struct{ bad atomic.Bool }

func (p *oddPolicy) Select(in selection.Input) int {
	if p.bad.Load() {
		return in.Len()
	}
	return selection.NoOpinion
}

// oddBuilder is a policy whose builds fail while told to.
type oddBuilder struct{ bad atomic.Bool }

func (b *oddBuilder) Build(context.Context, selection.Membership) (selection.Order, error) {
	if b.bad.Load() {
		return nil, errors.New("the builder is told to fail")
	}
	return inOrder{}, nil
}

type inOrder struct{}

func (inOrder) Next(_ selection.Call, c selection.Cursor) (int, selection.Cursor) {
	if c.A > 0 {
		return -1, c
	}
	return 0, selection.Cursor{A: 1}
}

func startWorld(t testing.TB, e *eyes, opts ...sdk.Option) *world {
	t.Helper()
	w := &world{
		eyes: e, main: sdktest.NewCluster(t, "a", "b"), other: sdktest.NewCluster(t, "c"), log: &book{},
		odd: &oddPolicy{}, built: &oddBuilder{},
	}
	w.main.Sharding().Assign(shardingTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b"), sdktest.From("x")))
	w.main.Sharding().AssignEven("others", "c")
	w.topology = sdk.Topology{
		Targets: []sdk.TargetConfig{
			{Name: "main", URI: w.main.Target(), ErrorRatio: &failover.RatioOptions{MinFailures: 1000}},
			{Name: "other", URI: w.other.Target(), Sharding: &sdk.Sharding{ServiceKey: "main", Target: "others", KeyHeader: keyHeader, Fallback: true}},
		},
		Groups: []sdk.GroupConfig{
			{Name: "default", Targets: []string{"main", "other"}, Failover: failover.Options{Recovery: 50 * time.Millisecond}},
			{Name: "standby", Targets: []string{"other"}},
		},
	}
	registry, err := health.NewRegistry(health.Options{Checker: health.TCP(), Interval: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(registry.Close)
	breaker, err := admission.NewBreaker(admission.BreakerOptions{MinThroughput: 4, Window: time.Second, OpenFor: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	plain := insecure.NewCredentials()
	w.client, err = sdk.Dial("", slices.Concat([]sdk.Option{
		sdk.WithTopology(w.topology),
		sdk.WithTransportCredentials(plain),
		sdk.WithResolvers(w.main.Resolver(), w.other.Resolver()),
		sdk.WithShardingService("main", "dns:///"+w.main.Sharding().Addr(), grpc.WithTransportCredentials(plain), quick),
		sdk.WithShardingStream(sdk.ShardingStream{
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.2, MaxDelay: 50 * time.Millisecond}, MinGap: 10 * time.Millisecond,
		}),
		sdk.WithDialOptions(quick),
		sdk.WithSharding(sdk.Sharding{ServiceKey: "main", Target: shardingTarget, KeyHeader: keyHeader, Fallback: true}),
		sdk.WithSelector("reads", selection.P2C()),
		sdk.WithSelector("ring", selection.Ketama(selection.KetamaOptions{})),
		sdk.WithSelector("odd", selection.Custom("odd", w.odd)),
		sdk.WithSelector("built", selection.CustomBuilt("built", w.built, false)),
		sdk.WithHealth(registry),
		sdk.WithMonitor(health.Options{Checker: health.Func(func(context.Context, health.Target) error { return nil }), Interval: 20 * time.Millisecond}),
		sdk.WithAdmission(breaker),
		sdk.WithLogger(slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))),
		sdk.WithClientName("world"),
	}, e.options(), opts)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.client.Close() })
	w.echo = sdktest.NewEcho(w.client)
	return w
}

// call makes one RPC in a sampled span.
func (w *world) call(ctx context.Context, opts ...grpc.CallOption) (string, error) {
	ctx, span := w.traces.Tracer("test").Start(ctx, "caller")
	defer span.End()
	return w.echo.Who(ctx, "", opts...)
}

func keyed(t testing.TB, key string) context.Context {
	return interceptors.WithKeyString(within(t, 10*time.Second), key)
}

// faults has everything happen that can go wrong, in calls with the keys that key
// makes, and returns the errors.
func (w *world) faults(t testing.TB, key func() string) (errs []error) {
	t.Helper()
	try := func(ctx context.Context, opts ...grpc.CallOption) {
		if _, err := w.call(ctx, opts...); err != nil {
			errs = append(errs, err)
		}
	}
	in := func(selector string) context.Context { return interceptors.WithSelector(keyed(t, key()), selector) }
	until := func(what string, ok func() bool, ctx func() context.Context) {
		t.Helper()
		eventually(t, what, func() bool { try(ctx()); return ok() })
	}

	for range 20 {
		try(keyed(t, key()))
	}
	for _, selector := range []string{"reads", "ring", "odd", "built", "unknown"} {
		try(in(selector))
	}
	try(interceptors.WithGroup(keyed(t, key()), "standby"))
	try(within(t, 10*time.Second)) // no key
	// A gap of the assignment: fallback, and the x of it that the service gave nobody.
	try(keyed(t, "x"+key()))
	try(keyed(t, "n"+key())) // the other server
	w.odd.bad.Store(true)
	until("a bad result", func() bool {
		return w.client.Status().Targets[0].Router.Selectors[3].BadResults["out_of_range"] > 0
	}, func() context.Context { return in("odd") })
	w.odd.bad.Store(false)
	w.built.bad.Store(true)

	// What the sharding service gets wrong.
	for _, c := range []sdktest.Corruption{sdktest.CorruptGap, sdktest.CorruptStale, sdktest.CorruptOverlap, sdktest.CorruptIndex} {
		refused := func() bool {
			for _, s := range w.client.Status().Targets {
				if s.Name == "main" {
					a := s.Router.Assignment
					return a.Invalid > 0 && a.StreamConnected
				}
			}
			return false
		}
		w.main.Sharding().Corrupt(c)
		w.main.Sharding().Cut()
		if c == sdktest.CorruptStale {
			continue
		}
		until("a refused assignment", refused, func() context.Context { return keyed(t, key()) })
	}
	w.main.Sharding().Heal()
	for _, names := range [][]string{{"a"}, {"a", "b"}} { // builds that fail
		if err := w.main.Resolve(names...); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a failed build", func() bool { return w.client.Status().Targets[0].Router.Selectors[4].LastBuildError != nil })
	}
	generation, err := w.main.Sharding().Move(shardingTarget, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next assignment", func() bool { return w.client.Status().Targets[0].Router.Generation == generation })

	// Servers that fail calls, until a breaker opens, and that die.
	for _, b := range w.main.Backends() {
		b.FailCalls(codes.Unavailable)
	}
	until("a breaker to refuse", func() bool { return w.client.Status().Targets[0].Router.Picks.Refused > 0 }, func() context.Context { return keyed(t, key()) })
	for _, b := range w.main.Backends() {
		b.Heal()
		b.Kill()
	}
	until("the group to switch", func() bool { return w.client.Group("").Current() == "other" }, func() context.Context { return keyed(t, key()) })
	ctx, cancel := context.WithTimeout(keyed(t, key()), 100*time.Millisecond)
	defer cancel()
	try(interceptors.WithGroup(ctx, "default"), grpc.WaitForReady(true))
	for _, b := range w.main.Backends() {
		if err := b.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	until("the group to come back", func() bool { return w.client.Group("").Current() == "main" }, func() context.Context { return keyed(t, key()) })
	w.built.bad.Store(false)

	// A call that waits and is cancelled.
	w.main.Backend("a").Hold()
	ctx, cancel = context.WithTimeout(keyed(t, key()), 100*time.Millisecond)
	defer cancel()
	try(ctx)
	w.main.Backend("a").Release()

	// Policies that are published, and refused.
	if _, err := w.client.Selector("reads").Publish(selection.RoundRobin(), balancer.FromCode); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Selector("reads").Publish(selection.RoundRobin(), balancer.FromCode); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Selector("reads").Publish(selection.Policy{}, balancer.FromCode); err == nil {
		t.Fatal("an empty policy was published")
	} else {
		errs = append(errs, err)
	}
	until("READY again", func() bool { _, err := w.call(keyed(t, key())); return err == nil }, func() context.Context { return keyed(t, key()) })
	return errs
}
