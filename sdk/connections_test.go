package sdk_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/sdk/sdktest"
)

// TestReconnectingOwner_PF03 also holds A-09: the only owner sends its clients
// away all the time; calls queue, and none fails or goes elsewhere.
func TestReconnectingOwner_PF03(t *testing.T) {
	t.Parallel()
	c := sdktest.NewCluster(t, "e2", "e3")
	if _, err := c.Start("e1", sdktest.WithServerOptions(grpc.KeepaliveParams(keepalive.ServerParameters{
		MaxConnectionAge: 200 * time.Millisecond, MaxConnectionAgeGrace: time.Second,
	}))); err != nil {
		t.Fatal(err)
	}
	if err := c.Resolve("e1", "e2", "e3"); err != nil {
		t.Fatal(err)
	}
	c.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "e1"), sdktest.From("m", "e2", "e3")))
	f := dial(t, c, testSharding(withFallback))
	f.who(t, "k")
	tr := f.flow(t, 4, 10*time.Millisecond, "k")
	if err := f.Backend("e1").WaitConnections(within(t, 20*time.Second), 16); err != nil {
		t.Fatal(err)
	}
	if answers := tr.mustBeClean(t); answers["e1"] < 500 || len(answers) != 1 {
		t.Errorf("answers from %v, want e1 alone, 500 and more", answers)
	}
	if n := f.client.Status().Picks.Fallbacks; n["all_failing"] != 0 {
		t.Errorf("fallbacks: %v", n)
	}
}

// TestOneReadyOwnerAmongBlackHoles_PF04 also holds A-07.
func TestOneReadyOwnerAmongBlackHoles_PF04(t *testing.T) {
	f := start(t, testSharding(withFallback), []string{"good", "b1", "b2", "b3", "b4"})
	for _, b := range f.Backends()[1:] {
		if err := b.BlackHole(); err != nil {
			t.Fatal(err)
		}
	}
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "good")))
	f.who(t, "k")
	g := f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "b1", "b2", "good", "b3", "b4")))
	if _, err := f.Sharding().WaitAck(within(t, 5*time.Second), testTarget, g); err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for range 500 {
		began := time.Now()
		if got := f.who(t, "k"); got != "good" {
			t.Fatalf("reached %q", got)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	if p99 := took[495]; p99 > 20*time.Millisecond {
		t.Errorf("p99 is %v, want under 20 ms", p99)
	}
}

// TestSpreadInsideASlice_A07
func TestSpreadInsideASlice_A07(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "other"}
	f := start(t, testSharding(), names)
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a", "b", "c", "d"), sdktest.From("m", "other")))
	eventually(t, "all READY", func() bool {
		f.who(t, "k")
		return !slices.ContainsFunc(names[:4], func(n string) bool { return f.state(n) != connectivity.Ready })
	})
	const calls = 10_000
	counts := f.spread(t, "k", calls)
	for _, n := range names[:4] {
		if got, fair := counts[n], calls/4; got < fair*9/10 || got > fair*11/10 {
			t.Errorf("%s got %d calls, want %d within 10%%; all: %v", n, got, fair, counts)
		}
	}
}

// TestLazyConnect_PF05 also holds A-08: no connection without a pick, one for
// each RPC.
func TestLazyConnect_PF05(t *testing.T) {
	t.Parallel()
	var names []string
	var ranges []sdktest.Slice
	for s := range 10 {
		var owners []string
		for e := range 10 {
			owners = append(owners, fmt.Sprintf("e%d%d", s, e))
		}
		names = append(names, owners...)
		ranges = append(ranges, sdktest.From([]string{"", "b", "c", "d", "e", "f", "g", "h", "i", "j"}[s], owners...))
	}
	f := start(t, testSharding(withFallback), names)
	f.Sharding().Assign(testTarget, sdktest.Ranges(ranges...))
	if _, err := f.client.WaitReady(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the endpoints", func() bool { return len(f.client.Status().Endpoints) == 100 })
	if s := f.client.Status(); f.connections() != 0 || s.State != connectivity.Idle {
		t.Errorf("before any RPC: %d connections, %v; want 0, IDLE", f.connections(), s.State)
	}
	for i, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		f.who(t, key)
		if n := f.connecting(); n != i+1 {
			t.Errorf("after %d RPCs in as many slices: %d endpoints are connected to or being so", i+1, n)
		}
	}
	if n := f.connections(); n != 10 {
		t.Errorf("%d connections, want 10", n)
	}
	// Later picks warm up the other owners, one at most for each.
	eventually(t, "all owners of one slice", func() bool { f.who(t, "a"); return f.connecting() == 19 })
}

// connecting is how many endpoints are not IDLE.
func (f *fixture) connecting() int {
	n := 0
	for _, ep := range f.client.Status().Endpoints {
		if ep.State != connectivity.Idle {
			n++
		}
	}
	return n
}

// TestRecoveryWithoutTraffic_A27: two endpoints fail, two are IDLE, and nobody
// calls: the channel becomes READY by itself.
func TestRecoveryWithoutTraffic_A27(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"d1", "d2", "i1", "i2"})
	f.Sharding().Assign(testTarget, sdktest.Ranges(
		sdktest.From("", "d1"), sdktest.From("g", "d2"), sdktest.From("m", "i1", "i2")))
	f.Backend("d1").Kill()
	f.Backend("d2").Kill()
	// One call to each dead endpoint; the second makes the aggregate fail, or the
	// first already has a connection tried elsewhere.
	for _, key := range []string{"a", "h"} {
		if _, err := f.call(key, 5*time.Second); status.Code(err) != codes.Unavailable {
			t.Fatalf("call to a dead endpoint: %v", err)
		}
	}
	eventually(t, "READY by itself", func() bool { return f.client.Status().State == connectivity.Ready })
	if a, b := f.Backend("i1").Connections().Accepted, f.Backend("i2").Connections().Accepted; a != 1 || b != 0 {
		t.Errorf("%d connections to i1, %d to i2; want one, to the first in order", a, b)
	}
}

// TestConnectingEndpointRemoved_A27: the only endpoint that is being tried leaves;
// another one is tried in its place, without a call.
func TestConnectingEndpointRemoved_A27(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"dead", "hole", "idle"})
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "dead"), sdktest.From("m", "hole")))
	f.Backend("dead").Kill()
	if err := f.Backend("hole").BlackHole(); err != nil {
		t.Fatal(err)
	}
	queued := make(chan error, 1)
	go func() {
		_, err := f.call("z", 20*time.Second)
		queued <- err
	}()
	if err := f.Backend("hole").WaitConnections(within(t, 5*time.Second), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := f.call("a", 5*time.Second); status.Code(err) != codes.Unavailable {
		t.Fatalf("call to a dead endpoint: %v", err)
	}
	eventually(t, "CONNECTING", func() bool { return f.client.Status().State == connectivity.Connecting })
	if c := f.Backend("idle").Connections(); c.Accepted != 0 {
		t.Fatalf("%+v; want the third endpoint untouched", c)
	}
	if err := f.Resolve("dead", "idle"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "READY by itself", func() bool { return f.state("idle") == connectivity.Ready })
	// The call that was queued behind the removed endpoint is not forgotten.
	select {
	case err := <-queued:
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "resolver knows none") {
			t.Errorf("the queued call: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the call queued behind the removed endpoint hangs")
	}
}

// TestErrorsSayWhy_PF08
func TestErrorsSayWhy_PF08(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"a", "b"}, quick())
	const key = "a secret key"
	// Queued for the assignment until the deadline.
	_, err := f.call(key, 100*time.Millisecond)
	if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "assignment from the sharding service") {
		t.Errorf("without assignment: %v; want DEADLINE_EXCEEDED that says what the call waited for", err)
	}
	noKey(t, key, err)

	f.Backend("a").Kill()
	f.Backend("b").Kill()
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "a", "b")))
	for _, k := range []string{key, "z" + key} {
		eventually(t, "the dial error", func() bool {
			_, err = f.call(k, 5*time.Second)
			return status.Code(err) != codes.DeadlineExceeded
		})
		addr := f.Backend("a").Addr()
		if strings.Contains(err.Error(), `endpoint "b"`) {
			addr = f.Backend("b").Addr()
		}
		for _, part := range []string{"connection refused", addr, f.Target(), "every owner"} {
			if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), part) {
				t.Errorf("all owners down: %v; want UNAVAILABLE with %q", err, part)
			}
		}
		noKey(t, key, err)
		_, err = f.call(k, 100*time.Millisecond, patient)
		if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("waits for ready: %v; want DEADLINE_EXCEEDED with the dial error", err)
		}
		noKey(t, key, err)
	}
}

func noKey(t *testing.T, key string, err error) {
	t.Helper()
	if strings.Contains(err.Error(), key) {
		t.Errorf("the error holds the key: %v", err)
	}
}

// TestWaitForReadyIsReleased_PF08: owners come back, and every call that waited
// for them goes through.
func TestWaitForReadyIsReleased_PF08(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"a", "b"}, quick())
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a", "b")))
	f.who(t, "k")
	for round := range 20 {
		f.down(t, "a", "k")
		f.down(t, "b", "k")
		const calls = 20
		ended := make(chan error, calls)
		before := f.client.Status().Picks.Failed
		for range calls {
			go func() {
				_, err := f.call("k", 10*time.Second, patient)
				ended <- err
			}()
		}
		eventually(t, "calls queued", func() bool { return f.client.Status().Picks.Failed >= before+calls })
		name := []string{"a", "b"}[round%2]
		if err := f.Backend(name).Restart(); err != nil {
			t.Fatal(err)
		}
		for range calls {
			if err := <-ended; err != nil {
				s := f.client.Status()
				_, now := f.call("k", time.Second, patient)
				t.Fatalf("round %d, channel %v, endpoints %+v, a call now: %v: %v", round, s.State, s.Endpoints, now, err)
			}
		}
	}
}
