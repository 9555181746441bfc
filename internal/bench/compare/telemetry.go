package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/internal/callinfo"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// measureTelemetry measures what metrics, delays and traces that are not sampled cost:
// of an RPC, against a client without, of a pick, and of a scrape. gRPC's own plugin is
// beside as a measure.
func measureTelemetry(s size) ([]row, error) {
	rows, err := telemetryOfRPCs(s)
	if err != nil {
		return nil, err
	}
	picks, err := telemetryOfPicks(s)
	if err != nil {
		return nil, err
	}
	scrapes, err := telemetryOfScrapes(s)
	return slices.Concat(rows, picks, scrapes), err
}

// idler is a stats handler that does nothing: gRPC makes its statistics for it.
type idler struct{}

func (idler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (idler) HandleRPC(context.Context, stats.RPCStats)                         {}
func (idler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (idler) HandleConn(context.Context, stats.ConnStats)                       {}

// seeing are options that send telemetry to an SDK which samples no trace, and what
// reads the metrics.
func seeing() (*metric.ManualReader, []sdk.Option) {
	reader := metric.NewManualReader()
	return reader, []sdk.Option{
		sdk.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		sdk.WithTracerProvider(trace.NewTracerProvider(trace.WithSampler(trace.NeverSample()))),
	}
}

// dialBench is a sharded client, with an assignment in force.
func dialBench(w world, endpoints *sdktest.Resolver, opts ...sdk.Option) (*sdk.Client, error) {
	sh := newSharding()
	client, err := sdk.Dial(endpoints.Scheme()+":///echo", slices.Concat([]sdk.Option{
		sdk.WithTransportCredentials(insecure.NewCredentials()),
		sdk.WithResolvers(endpoints),
		sdk.WithClientConnProvider(sh.provider),
		sdk.WithSharding(sdk.Sharding{ServiceKey: "main", Target: "bench", KeyHeader: keyHeader}),
	}, opts)...)
	if err != nil {
		return nil, err
	}
	assigned := make(chan error, 1)
	go func() { assigned <- sh.assign(w.frames()) }() // ends with the client's ack
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	_, err = client.WaitReady(ctx) // leaves idle mode, so that there is a stream
	if err := errors.Join(err, <-assigned); err != nil {
		_ = client.Close()
		return nil, err
	}
	return client, nil
}

// telemetryOfRPCs sends unary RPCs one after the other, to a server on loopback.
func telemetryOfRPCs(s size) ([]row, error) {
	w := world{slices: s.small, endpoints: 1, replicas: 1, seed: 1}
	servers, err := startServers(w)
	if err != nil {
		return nil, err
	}
	defer servers.close()
	_, seen := seeing()
	_, everything := seeing()
	ctx := interceptors.WithKeyString(context.Background(), "some key")
	var contestants []contestant
	var cpu [][]float64
	var allocs []float64
	for _, opts := range [][]sdk.Option{
		seen,
		{sdk.WithoutTelemetry()},
		{sdk.WithoutTelemetry(), sdk.WithDialOptions(grpc.WithStatsHandler(idler{}))},
		append(everything, sdk.WithGRPCTelemetry()),
	} {
		client, err := dialBench(w, servers.resolver, opts...)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		call := func() error { return client.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{}) }
		if err := call(); err != nil { // connects
			return nil, err
		}
		side := len(cpu)
		cpu = append(cpu, nil)
		contestants = append(contestants, func() (float64, error) {
			wall, used, err := timeEach(call, s.sample/4)
			cpu[side] = append(cpu[side], used)
			return wall, err
		})
		least := testing.AllocsPerRun(200, func() { _ = call() })
		for range 4 { // what else runs meanwhile only adds
			least = min(least, testing.AllocsPerRun(200, func() { _ = call() }))
		}
		allocs = append(allocs, least)
	}
	// What is to be seen is small: many short rounds.
	us, err := inRounds(12*s.rounds, contestants...)
	if err != nil {
		return nil, err
	}
	return []row{
		against("unary RPC with telemetry", "us", us[0], "without", us[1], atMost(1.05)),
		against("unary RPC with telemetry, server included", "us CPU", cpu[0], "without", cpu[1], noGoal),
		against("unary RPC with telemetry", "us", us[0], "idle stats handler", us[2], noGoal),
		against("unary RPC with gRPC's own telemetry too", "us", us[3], "without", us[1], noGoal),
		alone("allocations of an RPC with telemetry, more than with an idle stats handler", "", []float64{max(0, allocs[0]-allocs[2])}, atMost(0)),
		alone("allocations of an RPC with an idle stats handler, more than without", "", []float64{max(0, allocs[2]-allocs[1])}, noGoal),
	}, nil
}

// timeEach is microseconds a call, of the clock and of CPU.
func timeEach(call func() error, d time.Duration) (wall, cpu float64, err error) {
	n := 0
	began, before := time.Now(), processCPU()
	for n == 0 || time.Since(began) < d {
		for range 16 {
			if err := call(); err != nil {
				return 0, 0, err
			}
		}
		n += 16
	}
	calls := 1e3 * float64(n)
	return float64(time.Since(began).Nanoseconds()) / calls, float64(cpuSince(before).Nanoseconds()) / calls, nil
}

// deaf is a Measurer that is never told anything here: no attempt waits.
type deaf struct{}

func (deaf) Delayed(context.Context, *callinfo.Delay) {}
func (deaf) Chose(context.Context, *callinfo.Choice)  {}

// measuring is a picker whose every pick is for an attempt of its own, which is measured
// from its start to its end.
type measuring struct{ lb.Picker }

func (m measuring) Pick(info lb.PickInfo) (lb.PickResult, error) {
	info.Ctx = callinfo.Measure(info.Ctx, deaf{}, false, false)
	defer callinfo.Finish(info.Ctx)
	return m.Picker.Pick(info)
}

// telemetryOfPicks picks for attempts that are measured, and for others.
func telemetryOfPicks(s size) ([]row, error) {
	p, err := newPickers(s)
	if err != nil {
		return nil, err
	}
	defer p.close()
	var plain []lb.PickInfo
	for _, info := range p.typed {
		info.Ctx = callinfo.Begin(info.Ctx, p, method)
		plain = append(plain, info)
	}
	measured := measuring{p.ours}
	ns, err := inRounds(3*s.rounds,
		func() (float64, error) { return timePicks(measured, plain, s.sample/2) },
		func() (float64, error) { return timePicks(p.ours, plain, s.sample/2) })
	if err != nil {
		return nil, err
	}
	i := 0
	allocs := testing.AllocsPerRun(len(plain), func() {
		_, _ = measured.Pick(plain[i%len(plain)])
		i++
	})
	return []row{
		against("pick for an attempt that is measured, from its start to its end", "ns CPU", ns[0], "not measured", ns[1], noGoal),
		alone("the same: allocations", "", []float64{allocs}, atMost(0)),
	}, nil
}

// telemetryOfScrapes collects from a client of many endpoints, without an exporter.
func telemetryOfScrapes(s size) ([]row, error) {
	w := world{slices: s.middle, endpoints: s.few, replicas: 1, seed: 1}
	endpoints := sdktest.NewResolver("bench")
	endpoints.UpdateState(resolver.State{Endpoints: w.resolved()})
	reader, seen := seeing()
	client, err := dialBench(w, endpoints, seen...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ms, err := inRounds(s.rounds, func() (float64, error) {
		const scrapes = 8
		began := time.Now()
		for range scrapes {
			var data metricdata.ResourceMetrics
			if err := reader.Collect(context.Background(), &data); err != nil {
				return 0, err
			}
			if len(data.ScopeMetrics) == 0 {
				return 0, errors.New("a scrape shows nothing")
			}
		}
		return float64(time.Since(began).Nanoseconds()) / 1e6 / scrapes, nil
	})
	if err != nil {
		return nil, err
	}
	return []row{alone(fmt.Sprintf("scrape of a client of %d endpoints", s.few), "ms", ms[0], atMost(5))}, nil
}
