package sdk_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthsrv "google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// startWithHealth starts servers with the gRPC health service, all SERVING.
func startWithHealth(t testing.TB, names ...string) (places, map[string]*healthsrv.Server) {
	t.Helper()
	p, services := make(places), make(map[string]*healthsrv.Server)
	for _, name := range names {
		service := healthsrv.NewServer()
		b, err := sdktest.StartBackend(name, sdktest.WithServices(func(r grpc.ServiceRegistrar) {
			healthgrpc.RegisterHealthServer(r, service)
		}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		p[name], services[name] = b, service
	}
	return p, services
}

// judged makes a client of a group of the targets a and b, of which a is judged by
// its RPCs.
func judged(t testing.TB, p places, o failover.RatioOptions, more ...sdk.GroupConfig) *sdk.Client {
	t.Helper()
	top := p.topology(append([]sdk.GroupConfig{group("default", "a", "b")}, more...)...)
	top.Targets[0].ErrorRatio = &o
	return dialGroups(t, top)
}

// ratioOf is the error ratio of the target a.
func ratioOf(t testing.TB, client *sdk.Client) failover.RatioState {
	t.Helper()
	if s := poolOf(client, "a").ErrorRatio; s != nil {
		return *s
	}
	t.Fatal("the RPCs of a are not judged")
	return failover.RatioState{}
}

// outcomes sends RPCs of the default group, one after the other, that a answers with
// the codes.
func outcomes(t testing.TB, client *sdk.Client, a *sdktest.Backend, list ...codes.Code) {
	t.Helper()
	for _, want := range list {
		if want != codes.OK {
			a.FailNext(1, want)
		}
		if got, err := in(within(t, 10*time.Second), client, ""); status.Code(err) != want || err == nil && got != "a" {
			t.Fatalf("an RPC reached %q and ended with %v, want %q and %v", got, err, "a", want)
		}
	}
}

const (
	ok   = codes.OK
	fail = codes.Unavailable
)

// G-50: enough failures, and a large enough share of all RPCs, move the traffic with
// the RPC that makes it so; 2 failures never do.
func TestG50ErrorRatioSwitches(t *testing.T) {
	t.Parallel()
	half := failover.RatioOptions{Threshold: .5}
	for _, c := range []struct {
		name    string
		options failover.RatioOptions
		before  []codes.Code // do not
		last    codes.Code   // does
	}{
		{"60%, where half would do", half, []codes.Code{ok, ok, fail, fail}, fail},
		{"exactly half", half, []codes.Code{ok, ok, ok, fail, fail}, fail},
		{"2 failures never", half, []codes.Code{fail, fail}, fail},
		{"everything fails", failover.RatioOptions{}, []codes.Code{fail, fail}, fail},
		{"a minimum", failover.RatioOptions{MinFailures: 5}, []codes.Code{fail, fail, fail, fail}, fail},
		{"the default codes", failover.RatioOptions{}, []codes.Code{codes.DeadlineExceeded, codes.Unauthenticated}, fail},
		{"other codes", failover.RatioOptions{Codes: []uint32{5}}, []codes.Code{codes.NotFound, codes.NotFound}, codes.NotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := startPlaces(t, "a", "b")
			client := judged(t, p, c.options)
			outcomes(t, client, p["a"], c.before...)
			if got := client.Group("").Current(); got != "a" {
				t.Fatalf("the current target is %q before the last RPC: %+v", got, ratioOf(t, client))
			}
			outcomes(t, client, p["a"], c.last)
			if got := client.Group("").Current(); got != "b" {
				t.Errorf("the current target is %q: %+v", got, ratioOf(t, client))
			}
			goesTo(t, client, "", "b")
			if s := client.Status().Groups[0]; s.Reason != failover.ErrorRatio || s.Switches[failover.ErrorRatio] != 1 {
				t.Errorf("the reason is %v, switches %v", s.Reason, s.Switches)
			}
			connectionsTo(t, p["a"], 1, 1) // it is connected all the time
		})
	}
}

// G-50: the row's own numbers, with callers beside each other.
func TestG50SixtyOfAHundred(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	client := judged(t, p, failover.RatioOptions{Threshold: .5, MinFailures: 40})
	var running sync.WaitGroup
	p["a"].FailNext(60, fail)
	for range 10 {
		running.Go(func() {
			for range 10 {
				_, _ = in(within(t, 10*time.Second), client, "")
			}
		})
	}
	running.Wait()
	if got := client.Group("").Current(); got != "b" {
		t.Errorf("the current target is %q: %+v", got, ratioOf(t, client))
	}
	if n := client.Status().Groups[0].Switches[failover.ErrorRatio]; n != 1 {
		t.Errorf("%d switches for the error ratio, want 1", n)
	}
}

// G-50: answers of the service itself are no failures.
func TestG50OtherCodesAreSuccesses(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	client := judged(t, p, failover.RatioOptions{Threshold: .1})
	for _, code := range []codes.Code{codes.NotFound, codes.Internal, codes.InvalidArgument, codes.ResourceExhausted, codes.Unknown} {
		outcomes(t, client, p["a"], code, code, code)
	}
	if s := ratioOf(t, client); s.Calls != 15 || s.Failures != 0 || s.Condemned {
		t.Errorf("the error ratio is %+v", s)
	}
	goesTo(t, client, "", "a")
}

// G-50: a deadline that passes while the server is silent counts.
func TestG50Deadlines(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	client := judged(t, p, failover.RatioOptions{})
	eventually(t, "a to be connected", func() bool {
		_, err := in(within(t, time.Second), client, "")
		return err == nil
	})
	p["a"].Hold()
	top := client.Topology()
	top.Targets[0].ErrorRatio = &failover.RatioOptions{Threshold: .5}
	update(t, client, top)
	for range 3 {
		if _, err := in(within(t, 20*time.Millisecond), client, ""); status.Code(err) != codes.DeadlineExceeded {
			t.Fatalf("an RPC ended with %v", err)
		}
	}
	if got := client.Group("").Current(); got != "b" {
		t.Errorf("the current target is %q: %+v", got, ratioOf(t, client))
	}
}

// G-55, SP-06: what its caller cancels is neither a failure nor a success.
func TestG55SP06CancelledByTheCaller(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	client := judged(t, p, failover.RatioOptions{Threshold: .01, Codes: []uint32{1, 4, 14}}) // CANCELED among them
	goesTo(t, client, "", "a")
	const n = 500
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p["a"].Hold()
	ended := make(chan error, n)
	for i := range n {
		go func() {
			if i%2 == 0 {
				_, err := in(ctx, client, "")
				ended <- err
				return
			}
			s, err := sdktest.NewEcho(client).Talk(ctx)
			if err == nil {
				_, err = s.Recv()
			}
			ended <- err
		}()
	}
	if err := p["a"].WaitInFlight(within(t, 20*time.Second), n); err != nil {
		t.Fatal(err)
	}
	cancel()
	for range n {
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("an RPC ended with %v", err)
		}
	}
	eventually(t, "no RPC in flight", func() bool { return poolOf(client, "a").InFlight == 0 })
	p["a"].Heal()
	if s := ratioOf(t, client); s.Calls != 1 || s.Failures != 0 || s.Condemned {
		t.Errorf("the error ratio is %+v, want the one RPC that was not cancelled", s)
	}
	goesTo(t, client, "", "a")
}

// G-50: streams count as they end, cancelled ones not at all.
func TestG50Streams(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	client := judged(t, p, failover.RatioOptions{Threshold: .5})
	talk := func(ctx context.Context) *sdktest.EchoStream {
		t.Helper()
		s, err := sdktest.NewEcho(client).Talk(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	counted := func(calls, failures int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d of %d RPCs to have failed", failures, calls), func() bool {
			s := ratioOf(t, client)
			return s.Calls == calls && s.Failures == failures
		})
	}
	good := talk(within(t, time.Minute))
	ask(t, good, "a")
	counted(0, 0)
	_ = good.CloseSend()
	_, _ = good.Recv()
	counted(1, 0)
	ctx, cancel := context.WithCancel(context.Background())
	ask(t, talk(ctx), "a")
	cancel()
	for i := range 3 {
		p["a"].FailNext(1, fail)
		if _, err := talk(within(t, 10*time.Second)).Recv(); status.Code(err) != fail {
			t.Fatalf("a stream ended with %v", err)
		}
		if i < 2 {
			counted(2+i, 1+i)
		}
	}
	eventually(t, "the switch", func() bool { return client.Group("").Current() == "b" })
	counted(4, 3)
}

// G-50: a group of a single target goes on, and a group whose targets are all
// condemned stays where it is.
func TestG50NowhereToGo(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	top := p.topology(group("default", "a", "b"), group("alone", "a"))
	top.Targets[0].ErrorRatio, top.Targets[1].ErrorRatio = &failover.RatioOptions{}, &failover.RatioOptions{}
	client := dialGroups(t, top)
	outcomes(t, client, p["a"], fail, fail, fail)
	goesTo(t, client, "", "b")
	goesTo(t, client, "alone", "a")
	top.Targets[1].ErrorRatio.Threshold = .5 // an RPC has reached b
	update(t, client, top)
	p["b"].FailNext(3, fail)
	for range 3 {
		if _, err := in(within(t, 10*time.Second), client, ""); status.Code(err) != fail {
			t.Errorf("an RPC ended with %v", err)
		}
	}
	if s := poolOf(client, "b").ErrorRatio; !s.Condemned {
		t.Errorf("the error ratio of b is %+v", s)
	}
	goesTo(t, client, "", "b")
	goesTo(t, client, "alone", "a")
}

// G-51, G-52: the way back is by probes, after the hold, which doubles while returns
// do not last; the traffic leaves the target at most once in a period.
func TestG51G52WayBack(t *testing.T) {
	t.Parallel()
	p, services := startWithHealth(t, "a", "b")
	const period = time.Second
	client := judged(t, p, failover.RatioOptions{Window: period})
	var switches []sdk.Switch
	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for s := range client.Group("").Watch(ctx) {
			switches = append(switches, s)
		}
	}()

	for round, hold := range []time.Duration{period, 2 * period} {
		services["a"].SetServingStatus("", healthgrpc.HealthCheckResponse_NOT_SERVING)
		outcomes(t, client, p["a"], fail, fail, fail)
		goesTo(t, client, "", "b")
		state := ratioOf(t, client)
		if !state.Condemned || state.Hold != hold {
			t.Errorf("round %d: the state is %+v, want a hold of %v", round, state, hold)
		}
		if round == 0 {
			// The hold is over, and probes do not pass.
			eventually(t, "the end of the hold", func() bool { return time.Now().After(state.Until) })
			if got := client.Group("").Current(); got != "b" {
				t.Errorf("the current target is %q though no probe passed", got)
			}
		}
		services["a"].SetServingStatus("", healthgrpc.HealthCheckResponse_SERVING)
		eventually(t, "the way back", func() bool { return client.Group("").Current() == "a" })
		if now := ratioOf(t, client); now.Condemned || now.Since.Before(state.Until) {
			t.Errorf("round %d: good again since %v, the hold ended at %v: %+v", round, now.Since, state.Until, now)
		}
	}
	goesTo(t, client, "", "a")
	cancel()
	<-watched
	var left []time.Time
	for _, s := range switches[1:] {
		if s.From == "a" {
			left = append(left, s.At)
		}
	}
	if len(switches) != 5 || len(left) != 2 || left[1].Sub(left[0]) < period {
		t.Errorf("switches %v, want to b and back twice, and b once in %v", switches, period)
	}
	for _, m := range p["a"].Calls() {
		if m.Method == healthgrpc.Health_Check_FullMethodName && len(m.Metadata.Get("x-user")) > 0 {
			t.Error("a probe carries a key")
		}
	}
	connectionsTo(t, p["a"], 1, 1) // probes have none of their own
}

// G-55: RPCs of every group of a target count together.
func TestG50GroupsShareTheRatio(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	client := judged(t, p, failover.RatioOptions{}, group("other", "a", "b"))
	for i := range 3 {
		p["a"].FailNext(1, fail)
		name := []string{"default", "other"}[i%2]
		if _, err := sdktest.NewEcho(client).Who(interceptors.WithGroup(within(t, 10*time.Second), name), ""); status.Code(err) != fail {
			t.Fatalf("an RPC ended with %v", err)
		}
	}
	goesTo(t, client, "default", "b")
	goesTo(t, client, "other", "b")
}
