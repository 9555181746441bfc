package sdktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/experimental/balancer/hostname"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/internal/wire"
)

const roundRobin = `{"loadBalancingConfig":[{"round_robin":{}}]}`

func TestClusterAnnouncesBackends(t *testing.T) {
	c := NewCluster(t, "h1", "h2")
	ctx := patience(t)
	// Two channels, one resolver.
	e1 := NewEcho(dial(t, c.Target(), grpc.WithResolvers(c.Resolver())))
	e2 := NewEcho(dial(t, c.Target(), grpc.WithResolvers(c.Resolver())))
	wantWho(t, e1, "h1")
	wantWho(t, e2, "h1")
	if err := c.Resolve("h2"); err != nil {
		t.Fatal(err)
	}
	for _, e := range []Echo{e1, e2} {
		wantWho(t, e, "h2")
	}
	if err := c.Resolve("h2", "h9"); err == nil {
		t.Error("announced a backend that is not there")
	}
	if _, err := c.Start("h2"); err == nil {
		t.Error("started h2 twice")
	}
	if _, err := c.Start("h3"); err != nil {
		t.Fatal(err)
	}
	if err := c.Resolve("h3"); err != nil {
		t.Fatal(err)
	}
	wantWho(t, e1, "h3")
	if name := hostname.FromEndpoint(c.Endpoints()[0]); name != "h3" {
		t.Errorf("hostname attribute is %q", name)
	}
	if got := fmt.Sprint(c.Counts()); got != "map[h1:2 h2:2 h3:1]" {
		t.Errorf("counts %s", got)
	}
	c.SetEndpoints(Endpoint("h1", c.Backend("h1").Addr()))
	wantWho(t, e2, "h1")
	if c.Backend("nobody") != nil {
		t.Error("found nobody")
	}
	if err := c.Resolve(); err != nil { // EC-03
		t.Fatal(err)
	}
	if _, err := e1.Who(ctx, ""); status.Code(err) != codes.Unavailable {
		t.Errorf("no endpoints: %v", err)
	}
	if g := c.AssignEven("t"); g != 1 || !slices.Equal(c.Sharding().Owners("t", ""), []string{"h1"}) {
		t.Errorf("generation %d, first owner %v", g, c.Sharding().Owners("t", ""))
	}
	c.Close()
	if _, err := c.Start("h4"); !errors.Is(err, ErrClosed) {
		t.Errorf("started in a closed cluster: %v", err)
	}
}

func TestResolverServiceConfig(t *testing.T) {
	c := NewCluster(t, "h1", "h2")
	c.Resolver().SetServiceConfig(roundRobin)
	cc := dial(t, c.Target(), grpc.WithResolvers(c.Resolver()))
	e := NewEcho(cc)
	ctx := patience(t)
	seen := make(map[string]bool)
	for len(seen) < 2 && ctx.Err() == nil {
		name, err := e.Who(ctx, "", grpc.WaitForReady(true))
		if err != nil {
			t.Fatal(err)
		}
		seen[name] = true
	}
	if len(seen) != 2 {
		t.Errorf("saw %v", seen)
	}
	if cc.GetState() != connectivity.Ready {
		t.Error(cc.GetState())
	}
}

func TestResolverState(t *testing.T) {
	r := NewResolver("x")
	one, two := new(recordingConn), new(recordingConn)
	first := must[resolver.Resolver](t)(r.Build(resolver.Target{}, one, resolver.BuildOptions{}))
	if len(one.states) != 0 {
		t.Error("said something before it was told")
	}
	r.SetEndpoints(Endpoint("a", "1"), Endpoint("b", "2"))
	r.SetAttributes(attributes.New("k", "v"))
	must[resolver.Resolver](t)(r.Build(resolver.Target{}, two, resolver.BuildOptions{}))
	if len(one.states) != 2 || len(two.states) != 1 {
		t.Fatalf("%d and %d updates", len(one.states), len(two.states))
	}
	got := two.states[0]
	if len(got.Endpoints) != 2 || got.Attributes.Value("k") != "v" {
		t.Errorf("state %+v", got)
	}
	got.Endpoints[0] = resolver.Endpoint{} // LL-07: a client's copy is its own
	if hostname.FromEndpoint(r.State().Endpoints[0]) != "a" {
		t.Error("a client changed the state")
	}
	first.ResolveNow(resolver.ResolveNowOptions{})
	r.ReportError(errors.New("no DNS")) // EC-08
	if r.ResolveNows() != 1 || r.Builds() != 2 || len(one.errs) != 1 || len(two.errs) != 1 {
		t.Errorf("%d resolve-nows, %d builds, errors %v %v", r.ResolveNows(), r.Builds(), one.errs, two.errs)
	}
	first.Close()
	r.UpdateState(resolver.State{})
	if len(one.states) != 2 || len(two.states) != 2 {
		t.Errorf("%d and %d updates", len(one.states), len(two.states))
	}
}

// recordingConn is a channel that notes what its resolver says.
type recordingConn struct {
	resolver.ClientConn
	states []resolver.State
	errs   []error
}

func (c *recordingConn) UpdateState(s resolver.State) error {
	c.states = append(c.states, s)
	return nil
}
func (c *recordingConn) ReportError(err error) { c.errs = append(c.errs, err) }
func (c *recordingConn) ParseServiceConfig(string) *serviceconfig.ParseResult {
	return nil
}

// Everything at once, for the race detector; the end is a cluster that works.
func TestClusterConcurrentUse(t *testing.T) {
	c := NewCluster(t, "h1", "h2")
	s := c.Sharding()
	b := c.Backend("h1")
	cc := dial(t, s.Addr())
	e := NewEcho(dial(t, c.Target(), grpc.WithResolvers(c.Resolver())))
	ctx := patience(t)
	var wg sync.WaitGroup
	for _, work := range []func(int){
		func(int) { s.AssignEven("t", "h1", "h2") },
		func(int) { s.Corrupt(CorruptOverlap); s.Heal() },
		func(int) {
			brief, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			if w, err := wire.Open(brief, cc, 1<<20); err == nil {
				_ = w.Send(&wire.WatchShardingAssignmentRequest{Request: &wire.WatchShardingAssignmentRequest_InitialClientConfig{
					InitialClientConfig: &wire.InitialClientConfig{Target: "t"},
				}})
				_, _ = w.Recv()
			}
		},
		func(int) { s.Cut(); s.Streams(); s.Acks(); s.Freeze() },
		func(i int) {
			if i%5 == 0 {
				s.Stop()
				_ = s.Restart()
			}
		},
		func(int) { _, _ = e.Who(ctx, ""); b.Calls() },
		func(i int) { _ = []func() error{b.Restart, b.Move, b.GoAway, b.BlackHole}[i%4]() },
		func(int) { b.Hold(); b.Heal() },
		func(int) { _ = c.Resolve("h1", "h2"); c.Endpoints() },
	} {
		wg.Go(func() {
			for i := range 20 {
				work(i)
			}
		})
	}
	wg.Wait()
	s.Heal()
	if err := errors.Join(b.Restart(), s.Restart(), c.Resolve("h1")); err != nil {
		t.Fatal(err)
	}
	wantWho(t, e, "h1")
	if _, err := recv(watch(t, cc, "t", 0)); err != nil {
		t.Error(err)
	}
}
