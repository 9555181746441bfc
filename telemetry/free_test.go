//go:build !race

// The race detector has sync.Pool drop things, which are allocated again.

package telemetry_test

import (
	"context"
	"testing"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// idler is a stats handler that does nothing, which has gRPC make its statistics.
type idler struct{}

func (idler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (idler) HandleRPC(context.Context, stats.RPCStats)                         {}
func (idler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (idler) HandleConn(context.Context, stats.ConnStats)                       {}

// Field case TE-08: providers that lead nowhere cost an RPC nothing, and others, that do
// not sample it, no allocation beyond what gRPC makes for any stats handler.
func TestTE08OffIsFree(t *testing.T) {
	c := sdktest.NewCluster(t, "a")
	c.AssignEven(shardingTarget)
	ctx := interceptors.WithKeyString(context.Background(), "k")
	allocs := func(opts ...sdk.Option) float64 {
		f := dial(t, c, openEyes(t), nil, opts...)
		call := func() {
			if _, err := f.echo.Who(ctx, ""); err != nil {
				t.Fatal(err)
			}
		}
		call()
		least := testing.AllocsPerRun(300, call)
		for range 4 { // what else runs meanwhile only adds
			least = min(least, testing.AllocsPerRun(300, call))
		}
		_ = f.client.Close()
		return least
	}
	off := allocs(sdk.WithoutTelemetry())
	noop := allocs(sdk.WithMeterProvider(metricnoop.NewMeterProvider()), sdk.WithTracerProvider(tracenoop.NewTracerProvider()))
	idle := allocs(sdk.WithoutTelemetry(), sdk.WithDialOptions(grpc.WithStatsHandler(idler{})))
	on := allocs()
	t.Logf("allocations of an RPC: off %v, no-op providers %v, on %v; with a stats handler that does nothing %v", off, noop, on, idle)
	if noop > off {
		t.Errorf("no-op providers cost %v allocations", noop-off)
	}
	if on > idle {
		t.Errorf("telemetry costs %v allocations more than a stats handler that does nothing", on-idle)
	}
}
