package sdk_test

import (
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	healthsrv "google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// TestG34UnhealthyIsNotReady: an endpoint whose probes fail is no standby, so the
// next one is connected too, without any RPC.
func TestG34UnhealthyIsNotReady(t *testing.T) {
	t.Parallel()
	p, reg := newProbes(t)
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.P2C(), sdk.WithHealth(reg),
		sdk.WithConnections(balancer.Connections{MinReady: 1}))
	if _, err := f.client.WaitReady(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := f.Backend("e1").WaitConnections(within(t, 10*time.Second), 1); err != nil {
		t.Fatal(err)
	}
	if n := f.connections(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	p.set(true, "e1")
	if err := f.Backend("e2").WaitConnections(within(t, 10*time.Second), 1); err != nil {
		t.Error(err)
	}
	if n := f.connections(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// TestG30ProbesOnFullConnections: probes that use the endpoint's connections go on
// while those are full, need no other one, and count as no RPC.
func TestG30ProbesOnFullConnections(t *testing.T) {
	t.Parallel()
	reg, err := health.NewRegistry(health.Options{Checker: health.GRPC(""), Interval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reg.Close)
	f := startPlain(t, nil, selection.P2C(), sdk.WithHealth(reg), sdk.WithConnections(balancer.Connections{Max: 2, Streams: 1}))
	var probed atomic.Int64
	b, err := f.Start("e1", sdktest.WithServices(func(r grpc.ServiceRegistrar) {
		healthgrpc.RegisterHealthServer(r, countedHealth{healthsrv.NewServer(), &probed})
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Resolve("e1"); err != nil {
		t.Fatal(err)
	}
	f.whoBy(t, "", "")
	eventually(t, "a probe", func() bool { return probed.Load() > 0 })
	one := f.streams(t, 1)
	had := probed.Load()
	eventually(t, "probes beside one stream", func() bool { return probed.Load() > had+5 })
	if n := b.Connections().Accepted; n != 1 {
		t.Errorf("one stream and probes are on %d connections", n)
	}
	two := f.streams(t, 1)
	had = probed.Load()
	eventually(t, "probes beside two streams", func() bool { return probed.Load() > had+5 })
	if n := b.Connections().Accepted; n != 2 || f.unhealthy() != 0 {
		t.Errorf("%d connections, %d unhealthy", n, f.unhealthy())
	}
	end(t, append(one, two...))
	eventually(t, "nothing in flight", func() bool { return f.conns(t, "e1").Streams == 0 })
}
