package sdk_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

func withRevision(r assignment.Revision) func(*sdk.Sharding) {
	return func(sh *sdk.Sharding) { sh.Revision = r }
}

// down kills a backend and waits until the client has noticed, which takes a
// call to it.
func (f *fixture) down(t testing.TB, name, key string) {
	t.Helper()
	f.Backend(name).Kill()
	eventually(t, name+" in TRANSIENT_FAILURE", func() bool {
		_, _ = f.call(key, 5*time.Second)
		return f.state(name) == connectivity.TransientFailure
	})
}

// state is an endpoint's as the client sees it; SHUTDOWN if it knows none.
func (f *fixture) state(name string) connectivity.State {
	for _, ep := range f.client.Status().Endpoints {
		if ep.Name == name {
			return ep.State
		}
	}
	return connectivity.Shutdown
}

// TestFallbackCoversEverythingAndEnds_PF07 also holds: the pool is
// every endpoint, also those in no slice, each live one gets its share, and the
// owner has its slice back as soon as it returns.
func TestFallbackCoversEverythingAndEnds_PF07(t *testing.T) {
	names := []string{"e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8"}
	f := start(t, testSharding(withFallback), names, quick())
	f.Sharding().Assign(testTarget, sdktest.Ranges(
		sdktest.From("", "e1"), sdktest.From("m", "e2", "e3", "e4", "e5", "e6"))) // e7, e8 in none
	f.down(t, "e1", "a")
	eventually(t, "all others READY", func() bool {
		_, _ = f.call("a", time.Second)
		ready := 0
		for _, ep := range f.client.Status().Endpoints {
			if ep.State == connectivity.Ready {
				ready++
			}
		}
		return ready == 7
	})

	const calls = 8000
	counts := f.spread(t, "a", calls)
	for _, name := range names[1:] {
		if got, fair := counts[name], calls/7; got < fair*8/10 || got > fair*12/10 {
			t.Errorf("%s got %d calls, want %d within 20%%; all: %v", name, got, fair, counts)
		}
	}

	if err := f.Backend("e1").Restart(); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	eventually(t, "slice back on its owner", func() bool { return f.who(t, "a") == "e1" })
	if d := time.Since(back); d > time.Second {
		t.Errorf("the slice was back on its owner after %v, want within 1 s", d)
	}
	before := f.client.Status().Picks.Fallbacks["all_failing"]
	if counts := f.spread(t, "a", 400); counts["e1"] != 400 {
		t.Errorf("after the owner's return: %v", counts)
	}
	if after := f.client.Status().Picks.Fallbacks["all_failing"]; before == 0 || after != before {
		t.Errorf("fallback counter went from %d to %d; it should have counted and stopped", before, after)
	}
}

// TestNobodyServesTheSlice_A10: the four ways in which nobody serves a slice, in
// both drafts, with fallback on and off.
func TestNobodyServesTheSlice_A10(t *testing.T) {
	type nobody struct {
		name, key, reason, says string
		only                    assignment.Revision // if set, the other refuses such an assignment
		pool08, pool10          bool                // falls back
	}
	ways := []nobody{
		{name: "gap", key: "c", reason: "gap", says: "no usable slice", pool10: true, only: assignment.Revision202610},
		{name: "empty by server", key: "g", reason: "server_empty", says: "assigned no endpoint", pool08: true},
		{name: "unknown hosts", key: "n", reason: "unknown_endpoint", says: "knows none of the endpoints", pool08: true, pool10: true},
		{name: "all failing", key: "s", reason: "all_failing", says: "connection refused", pool08: true, pool10: true},
	}
	for _, revision := range []assignment.Revision{assignment.Revision202608, assignment.Revision202610} {
		for _, fallback := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v/fallback=%v", revision, fallback), func(t *testing.T) {
				t.Parallel()
				f := start(t, testSharding(withRevision(revision), func(sh *sdk.Sharding) { sh.Fallback = fallback }),
					[]string{"live", "dead"}, quick())
				slices := []sdktest.Slice{
					{Start: "", End: "c", Endpoints: []string{"live"}},
					{Start: "c", End: "g", Endpoints: []string{"live"}},
					{Start: "g", End: "n"},
					{Start: "n", End: "s", Endpoints: []string{"stranger", "alien"}},
					{Start: "s", Endpoints: []string{"dead"}},
				}
				if revision == assignment.Revision202610 {
					slices = append(slices[:1], slices[2:]...)
				}
				f.Sharding().Assign(testTarget, sdktest.Assignment{Slices: slices})
				if got := f.who(t, "a"); got != "live" {
					t.Fatalf("reached %q", got)
				}
				f.down(t, "dead", "s")
				for _, w := range ways {
					pool := w.pool08
					if revision == assignment.Revision202610 {
						pool = w.pool10
					} else if w.only == assignment.Revision202610 {
						continue
					}
					name, err := f.call(w.key, 10*time.Second)
					if pool && fallback {
						if name != "live" || f.client.Status().Picks.Fallbacks[w.reason] == 0 {
							t.Errorf("%s: %q, %v, counted %v; want the pool", w.name, name, err, f.client.Status().Picks.Fallbacks)
						}
						continue
					}
					if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), w.says) || !strings.Contains(err.Error(), f.Target()) {
						t.Errorf("%s: %q, %v; want UNAVAILABLE with %q and the target", w.name, name, err, w.says)
					}
				}
			})
		}
	}
}

// TestFailingOwnerStaysFailing_A28: while a dead owner is tried again and again,
// its slice stays in fallback: no call queues behind an attempt.
func TestFailingOwnerStaysFailing_A28(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(withFallback), []string{"owner", "other"}, quick())
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "owner"), sdktest.From("m", "other")))
	f.who(t, "a")
	f.who(t, "z")
	f.down(t, "owner", "a")
	// Each attempt is accepted and then says nothing: CONNECTING for long, were
	// the failure not sticky.
	owner := f.Backend("owner")
	before := owner.Connections().Accepted
	if err := owner.BlackHole(); err != nil {
		t.Fatal(err)
	}
	if err := owner.WaitConnections(within(t, 5*time.Second), before+1); err != nil {
		t.Fatal(err)
	}
	queued := f.client.Status().Picks.Queued
	for range 500 {
		if got := f.who(t, "a"); got != "other" {
			t.Fatalf("reached %q", got)
		}
	}
	if s := f.state("owner"); s != connectivity.TransientFailure {
		t.Errorf("owner is %v while it is tried again, want TRANSIENT_FAILURE", s)
	}
	if now := f.client.Status().Picks.Queued; now != queued {
		t.Errorf("%d picks queued behind an attempt", now-queued)
	}
}
