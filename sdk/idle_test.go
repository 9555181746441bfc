package sdk_test

import (
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

func idleAfter(d time.Duration) sdk.Option {
	return sdk.WithDialOptions(grpc.WithIdleTimeout(d))
}

// idles waits until grpc has torn down resolver and LB policy.
func (f *fixture) idles(t testing.TB) {
	t.Helper()
	eventually(t, "idle mode", func() bool {
		s := f.client.Status()
		return s.State == connectivity.Idle && len(s.Endpoints) == 0
	})
}

// what the client knows outlives grpc's idle mode.
func TestStateSurvivesIdleMode_A33(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		f := startQuick(t, testSharding(inRevision), []string{"a", "b"}, idleAfter(150*time.Millisecond))
		f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
		for key, want := range map[string]string{"alice": "a", "zoe": "b"} {
			if got := f.who(t, key); got != want {
				t.Fatalf("%q reached %q", key, got)
			}
		}
		before := f.client.Status()
		for round := range 3 {
			f.idles(t)
			idle := f.client.Status()
			if idle.Assignment.Generation != before.Assignment.Generation || !idle.Assignment.StreamConnected {
				t.Errorf("idle: generation %d, connected %v", idle.Assignment.Generation, idle.Assignment.StreamConnected)
			}
			if idle.Picks.Ready < before.Picks.Ready {
				t.Errorf("idle: %d picks, before %d", idle.Picks.Ready, before.Picks.Ready)
			}
			began := time.Now()
			if got := f.who(t, "zoe"); got != "b" {
				t.Errorf("after idle zoe reached %q", got)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("round %d: the first RPC after idle took %v", round, took)
			}
			after := f.client.Status()
			if after.Picks.Ready < idle.Picks.Ready+1 {
				t.Errorf("after idle: %d picks, idle %d", after.Picks.Ready, idle.Picks.Ready)
			}
			before = after
		}
		if f.Resolver().Builds() < 4 {
			t.Errorf("the resolver was built %d times: the channel was not idle", f.Resolver().Builds())
		}
		if first := f.Sharding().FirstMessages(); len(first) != 1 {
			t.Errorf("%d streams, want the first one to go on: %+v", len(first), first)
		}
		if a := f.client.Status().Assignment; a.Accepted != 1 || a.StreamsOpened != 1 {
			t.Errorf("accepted %d, streams %d", a.Accepted, a.StreamsOpened)
		}
	})
}

// An assignment that comes while the channel is idle is in force for the first
// RPC after.
func TestAssignmentsArriveWhileIdle_A33(t *testing.T) {
	t.Parallel()
	f := startQuick(t, testSharding(), []string{"a", "b"}, idleAfter(100*time.Millisecond))
	f.assigned(t, sdktest.From("", "a"))
	_ = f.who(t, "k")
	f.idles(t)
	f.reaches(t, f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "b"))))
	if s := f.client.Status(); s.Target != "" {
		t.Fatal("the channel is not idle")
	}
	for range 10 {
		if got := f.who(t, "k"); got != "b" {
			t.Fatalf("after idle the key reached %q, want its new owner", got)
		}
	}
}

// The channel goes in and out of idle mode as fast as it can, under sparse
// traffic: there is one client of the sharding service all the while.
func TestIdleFlapping_A33_A35(t *testing.T) {
	t.Parallel()
	f := startQuick(t, testSharding(), []string{"a", "b"}, idleAfter(10*time.Millisecond))
	f.assigned(t, sdktest.From("", "a"), sdktest.From("m", "b"))
	stop, watched := make(chan struct{}), make(chan struct{})
	go func() { // the count never falls, whoever looks when
		defer close(watched)
		for last := uint64(0); ; {
			select {
			case <-stop:
				return
			default:
			}
			now := f.client.Status().Picks.Ready
			if now < last {
				t.Errorf("%d picks after %d", now, last)
			}
			last = now
		}
	}()
	defer func() { close(stop); <-watched }()
	picks := uint64(0)
	for i := range 60 {
		time.Sleep(time.Duration(8+i%8) * time.Millisecond) // near the timeout, from both sides
		if got := f.who(t, "zoe"); got != "b" {
			t.Fatalf("zoe reached %q", got)
		}
		now := f.client.Status().Picks.Ready
		if now <= picks {
			t.Errorf("%d picks after %d", now, picks)
		}
		picks = now
	}
	if f.Resolver().Builds() < 3 {
		t.Errorf("the channel was idle %d times only", f.Resolver().Builds()-1)
	}
	if first := f.Sharding().FirstMessages(); len(first) != 1 {
		t.Errorf("%d streams were opened, want 1", len(first))
	}
}

// WaitReady brings a channel back from idle mode.
func TestWaitReadyWakesAnIdleChannel_LL06(t *testing.T) {
	t.Parallel()
	f := startQuick(t, testSharding(), []string{"a"}, idleAfter(100*time.Millisecond))
	f.assigned(t, sdktest.From("", "a"))
	f.idles(t)
	if ready, err := f.client.WaitReady(within(t, 5*time.Second)); err != nil || !ready.Assigned {
		t.Errorf("%v, %v", ready, err)
	}
}
