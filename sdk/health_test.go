package sdk_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthsrv "google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// probes is a checker whose verdicts a test decides.
type probes struct {
	mu    sync.Mutex
	sick  map[string]bool
	count map[string]int
}

func (p *probes) Check(_ context.Context, t health.Target) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[t.Name]++
	if p.sick[t.Name] {
		return errors.New("sick")
	}
	return nil
}

func (p *probes) set(sick bool, names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range names {
		p.sick[n] = sick
	}
}

func newProbes(t *testing.T) (*probes, *health.Registry) {
	t.Helper()
	p := &probes{sick: map[string]bool{}, count: map[string]int{}}
	reg, err := health.NewRegistry(health.Options{Checker: p, Interval: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reg.Close)
	return p, reg
}

// seen waits until the client knows that the named endpoints, and no others, are
// unhealthy.
func (f *fixture) seen(t *testing.T, sick ...string) {
	t.Helper()
	eventually(t, "the verdicts", func() bool {
		n := 0
		for _, e := range f.client.Status().Endpoints {
			for _, name := range sick {
				if e.Name == name && e.Health == health.Unhealthy {
					n++
				}
			}
			if e.Health == health.Unhealthy {
				n--
			}
		}
		return n == 0 && len(f.client.Status().Endpoints) > 0 && f.unhealthy() == len(sick)
	})
}

func (f *fixture) unhealthy() (n int) {
	for _, e := range f.client.Status().Endpoints {
		if e.Health == health.Unhealthy {
			n++
		}
	}
	return n
}

// TestUnhealthyEndpointsAreAvoided_HR01: by every kind of selector, and what was
// learned is kept when another endpoint joins.
func TestUnhealthyEndpointsAreAvoided_HR01(t *testing.T) {
	p, reg := newProbes(t)
	c := sdktest.NewCluster(t, "e1", "e2", "e3")
	f := dial(t, c, testSharding(), sdk.WithHealth(reg),
		sdk.WithSelector("p2c", selection.P2C()),
		sdk.WithSelector("hash", selection.Ketama(selection.KetamaOptions{})),
		sdk.WithSelector("weighted", selection.Weighted(nil)))
	if err := c.Resolve("e1", "e2"); err != nil {
		t.Fatal(err)
	}
	c.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "e1", "e2")))
	f.who(t, "k")
	for range 5 {
		f.whoBy(t, "p2c", "")
	}
	eventually(t, "both READY", func() bool {
		for _, e := range f.client.Status().Endpoints {
			if e.State.String() != "READY" {
				return false
			}
		}
		return true
	})
	p.set(true, "e1")
	f.seen(t, "e1")
	check := func(when string) {
		t.Helper()
		for i := range 40 {
			for _, selector := range []string{"", "p2c", "hash", "weighted"} {
				if got := f.whoBy(t, selector, string(rune('a'+i%20))); got == "e1" {
					t.Fatalf("%s: selector %q chose the unhealthy endpoint", when, selector)
				}
			}
		}
	}
	check("alone")
	if err := c.Resolve("e1", "e2", "e3"); err != nil {
		t.Fatal(err)
	}
	if err := f.client.WaitConverged(within(t, 5*time.Second), 2); err != nil {
		t.Fatal(err)
	}
	check("after e3 joined")
	p.set(false, "e1")
	f.seen(t)
	eventually(t, "e1 is used again", func() bool { return f.whoBy(t, "p2c", "") == "e1" })
}

// TestAllUnhealthy_HR07: by default RPCs spread over all, and the status says so;
// with the option they fail at once. Owners of slices are used either way.
func TestAllUnhealthy_HR07(t *testing.T) {
	for name, fails := range map[string]bool{"spread": false, "fail": true} {
		t.Run(name, func(t *testing.T) {
			p, reg := newProbes(t)
			opts := []sdk.Option{sdk.WithHealth(reg), sdk.WithSelector("p2c", selection.P2C())}
			if fails {
				opts = append(opts, sdk.WithFailAllUnhealthy())
			}
			f := start(t, testSharding(), []string{"e1", "e2", "e3"}, opts...)
			f.AssignEven(testTarget)
			f.whoBy(t, "p2c", "")
			f.allConnected(t)
			p.set(true, "e1", "e2", "e3")
			f.seen(t, "e1", "e2", "e3")
			f.who(t, "some key") // a slice: only connectivity counts
			got := map[string]int{}
			if fails {
				eventually(t, "a prompt UNAVAILABLE", func() bool {
					_, err := f.echo.Who(selectorCtx(t, "p2c"), "")
					return status.Code(err) == codes.Unavailable
				})
				p.set(false, "e2")
				f.seen(t, "e1", "e3")
				eventually(t, "e2", func() bool {
					name, err := f.echo.Who(selectorCtx(t, "p2c"), "")
					return err == nil && name == "e2"
				})
				return
			}
			eventually(t, "the gauge", func() bool { return f.client.Status().AllUnhealthy })
			for range 90 {
				got[f.whoBy(t, "p2c", "")]++
			}
			if len(got) != 3 {
				t.Errorf("RPCs went to %v, want all three", got)
			}
			p.set(false, "e2")
			f.seen(t, "e1", "e3")
			eventually(t, "normal choice", func() bool { return !f.client.Status().AllUnhealthy })
			for range 30 {
				if name := f.whoBy(t, "p2c", ""); name != "e2" {
					t.Fatalf("with e2 healthy an RPC went to %s", name)
				}
			}
		})
	}
}

// TestOneProbeForAllClients_P21: three clients of two servers, whose gRPC health
// is asked over the connections they have: the servers see one probe each an
// interval, and no connection for it.
func TestOneProbeForAllClients_P21(t *testing.T) {
	const interval = 50 * time.Millisecond
	reg, err := health.NewRegistry(health.Options{Checker: health.GRPC(""), Interval: interval, Jitter: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reg.Close)
	c := sdktest.NewCluster(t)
	var asked [2]atomic.Int64
	servers := [2]*healthsrv.Server{healthsrv.NewServer(), healthsrv.NewServer()}
	for i, name := range []string{"e1", "e2"} {
		_, err := c.Start(name, sdktest.WithServices(func(r grpc.ServiceRegistrar) {
			healthgrpc.RegisterHealthServer(r, countedHealth{servers[i], &asked[i]})
		}))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Resolve("e1", "e2"); err != nil {
		t.Fatal(err)
	}
	var clients []*fixture
	for range 3 {
		f := dial(t, c, testSharding(), sdk.WithHealth(reg), sdk.WithSelector("p2c", selection.P2C()))
		f.whoBy(t, "p2c", "")
		clients = append(clients, f)
	}
	for _, b := range c.Backends() {
		if err := b.WaitConnections(within(t, 5*time.Second), 3); err != nil {
			t.Fatal(err)
		}
	}
	began, before := time.Now(), asked[0].Load()
	eventually(t, "ten probes", func() bool { return asked[0].Load() >= before+10 })
	if took := time.Since(began); took < 9*interval-interval/2 {
		t.Errorf("ten probes within %v, want one each %v", took, interval)
	}
	for _, b := range c.Backends() {
		if n := b.Connections().Accepted; n != 3 {
			t.Errorf("%s accepted %d connections, want one of each client", b.Name(), n)
		}
	}
	servers[0].SetServingStatus("", healthgrpc.HealthCheckResponse_NOT_SERVING)
	for _, f := range clients {
		f.seen(t, "e1")
		for range 10 {
			if got := f.whoBy(t, "p2c", ""); got != "e2" {
				t.Fatalf("an RPC went to %s", got)
			}
		}
	}
}

type countedHealth struct {
	healthgrpc.HealthServer
	n *atomic.Int64
}

func (c countedHealth) Check(ctx context.Context, r *healthgrpc.HealthCheckRequest) (*healthgrpc.HealthCheckResponse, error) {
	c.n.Add(1)
	return c.HealthServer.Check(ctx, r)
}

// TestSickServerComesBack: a server whose probes failed, and whose connection was
// lost meanwhile, is connected again by the RPCs that want it, so that its probes
// can tell better.
func TestSickServerComesBack(t *testing.T) {
	for _, p := range []selection.Policy{selection.Ketama(selection.KetamaOptions{}), selection.P2C(), selection.Weighted(nil)} {
		t.Run(p.String(), func(t *testing.T) {
			reg, err := health.NewRegistry(health.Options{Checker: health.GRPC(""), Interval: 20 * time.Millisecond, Initial: health.Unknown})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(reg.Close)
			f := startPlain(t, nil, p, sdk.WithHealth(reg))
			server := healthsrv.NewServer()
			b, err := f.Start("e1", sdktest.WithServices(func(r grpc.ServiceRegistrar) { healthgrpc.RegisterHealthServer(r, server) }))
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Resolve("e1"); err != nil {
				t.Fatal(err)
			}
			f.whoBy(t, "", "k") // unknown is the last resort, and better than none
			server.SetServingStatus("", healthgrpc.HealthCheckResponse_NOT_SERVING)
			f.seen(t, "e1")
			f.whoBy(t, "", "k")
			if err := b.GoAway(); err != nil {
				t.Fatal(err)
			}
			server.SetServingStatus("", healthgrpc.HealthCheckResponse_SERVING)
			f.whoBy(t, "", "k")
			eventually(t, "a better verdict", func() bool {
				f.whoBy(t, "", "k")
				return f.unhealthy() == 0
			})
		})
	}
}

// TestKeylessCallWaitsForTheFirstBuild: its policy can do without a key, so the
// call waits and is not refused for the want of one.
func TestKeylessCallWaitsForTheFirstBuild(t *testing.T) {
	ring := &slowRing{let: make(chan struct{}, 1)}
	f := startPlain(t, []string{"e1", "e2"}, selection.CustomBuilt("slow ring", ring, true), sdk.WithKeyHeader("x-key"))
	answer := make(chan error, 1)
	go func() {
		_, err := f.echo.Who(within(t, 10*time.Second), "")
		answer <- err
	}()
	eventually(t, "the build", func() bool { return ring.builds.Load() == 1 })
	eventually(t, "the call", func() bool { return f.client.Status().Selectors[0].Picks.Queued > 0 || len(answer) > 0 })
	ring.let <- struct{}{}
	if err := <-answer; err != nil {
		t.Error(err)
	}
}
