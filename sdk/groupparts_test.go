package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// endpointAt is what Status says of an endpoint of a target.
func (r *regions) endpointOf(t testing.TB, target, name string) balancer.EndpointStatus {
	t.Helper()
	for _, e := range r.target(t, target).Router.Endpoints {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("target %q has no endpoint %q", target, name)
	return balancer.EndpointStatus{}
}

// shared gives each cluster's keys to both its servers.
func (r *regions) shared(t testing.TB) {
	t.Helper()
	for target, c := range map[string]*sdktest.Cluster{"east": r.Cluster, "west": r.west} {
		var owners []string
		for _, b := range c.Backends() {
			owners = append(owners, b.Name())
		}
		generation := c.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", owners...)))
		eventually(t, "the shared assignment of "+target, func() bool { return r.target(t, target).Router.Generation == generation })
	}
}

// connected has RPCs reach all servers of a target.
func (r *regions) connected(t testing.TB, target string, servers ...string) {
	t.Helper()
	r.pinned(t, target)
	missing := make(map[string]bool)
	for _, s := range servers {
		missing[s] = true
	}
	eventually(t, fmt.Sprint("RPCs reach all of ", servers), func() bool {
		delete(missing, r.who(t, "k"))
		return len(missing) == 0
	})
}

// An endpoint that was disabled stays so in a target that is not current, and in one
// that joins later; Drain waits for its RPCs though they are in another target than
// the current one.
func TestGroupDisableAndDrain(t *testing.T) {
	t.Parallel()
	r := startRegions(t)
	r.shared(t)
	r.connected(t, "east", "e1", "e2")
	r.client.SetEnabled("w1", false, "maintenance")
	r.client.SetEnabled("e1", false, "maintenance")
	for range 30 {
		if got := r.who(t, "k"); got != "e2" {
			t.Fatalf("an RPC reached %s, which is disabled", got)
		}
	}
	r.pinned(t, "west")
	for range 30 {
		if got := r.who(t, "k"); got != "w2" {
			t.Fatalf("an RPC reached %s, which is disabled", got)
		}
	}
	if e := r.endpointOf(t, "west", "w1"); e.Disabled == nil || e.Disabled.Reason != "maintenance" {
		t.Errorf("w1 is %+v", e)
	}

	// The stream is in west, and the group goes on to east.
	stream, err := r.echo.Talk(interceptors.WithKeyString(within(t, 10*time.Second), "k"))
	if err != nil {
		t.Fatal(err)
	}
	ask(t, stream, "w2")
	r.pinned(t, "east")
	if err := r.client.Drain(within(t, 50*time.Millisecond), "w2", "repair"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"west"`) {
		t.Errorf("Drain with a stream open: %v", err)
	}
	drained := make(chan error, 1)
	go func() { drained <- r.client.Drain(within(t, 10*time.Second), "w2", "repair") }()
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream went on after its end")
	}
	if err := <-drained; err != nil {
		t.Errorf("Drain: %v", err)
	}

	// West comes anew, and knows what was said.
	top := r.topology()
	without := top
	without.Groups = []sdk.GroupConfig{group("default", "east", "plain")}
	for _, next := range []sdk.Topology{without, top} {
		if _, err := r.client.UpdateTopology(next); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the old west is gone", func() bool { return len(r.client.Status().Targets) == len(next.Groups[0].Targets) })
	}
	r.pinned(t, "west")
	_, err = r.call("k", 5*time.Second)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "disabled") {
		t.Errorf("with both servers disabled: %v", err)
	}
	r.client.SetEnabled("w1", true, "")
	if got := r.who(t, "k"); got != "w1" {
		t.Errorf("enabled again, and an RPC reached %s", got)
	}
}

// One registry probes the servers of all targets, and those that fail are avoided in
// the target that is current.
func TestGroupHealth(t *testing.T) {
	t.Parallel()
	p, registry := newProbes(t)
	r := startRegions(t, sdk.WithHealth(registry))
	r.shared(t)
	for _, at := range []struct{ target, sick, well string }{{"east", "e1", "e2"}, {"west", "w2", "w1"}} {
		r.connected(t, at.target, at.sick, at.well)
		p.set(true, at.sick)
		eventually(t, "the verdict on "+at.sick, func() bool { return r.endpointOf(t, at.target, at.sick).Health == health.Unhealthy })
		for range 30 {
			if got := r.who(t, "k"); got != at.well {
				t.Fatalf("at %s an RPC reached the unhealthy %s", at.target, got)
			}
		}
	}
	// What was learned of east is still known.
	r.pinned(t, "east")
	for range 30 {
		if got := r.who(t, "k"); got != "e2" {
			t.Fatalf("back at east an RPC reached the unhealthy %s", got)
		}
	}
	p.set(false, "e1")
	r.connected(t, "east", "e1", "e2")
}

// A breaker that is open for a server of one target says nothing of the others.
func TestGroupBreaker(t *testing.T) {
	t.Parallel()
	pass, breaker := breakers(t)
	r := startRegions(t, breaker)
	r.shared(t)
	r.connected(t, "west", "w1", "w2")
	r.connected(t, "east", "e1", "e2")
	r.Backend("e1").FailCalls(codes.Unavailable)
	eventually(t, "an open breaker", func() bool {
		_, _ = r.call("k", time.Second)
		return r.endpointOf(t, "east", "e1").RetryAfter > 0
	})
	r.Backend("e1").Heal()
	for range 30 {
		if got := r.who(t, "k"); got != "e2" {
			t.Fatalf("an RPC reached %s, whose breaker is open", got)
		}
	}
	for _, name := range []string{"w1", "w2"} {
		if after := r.endpointOf(t, "west", name).RetryAfter; after != 0 {
			t.Errorf("the breaker of %s is open for %v", name, after)
		}
	}
	r.connected(t, "west", "w1", "w2")
	pass(11 * time.Second)
	r.connected(t, "east", "e1", "e2")
}

// A retry avoids the owner that its call has tried, in the call's target: the group
// may be at another one by then.
func TestGroupRetries(t *testing.T) {
	t.Parallel()
	r := startRegions(t, sdk.WithDialOptions(interceptors.Chain(interceptors.Retry(
		interceptors.RetryAttempts(2), interceptors.RetryBackoff(time.Millisecond, time.Millisecond)))...))
	r.shared(t)
	for _, at := range []struct {
		target    string
		cluster   *sdktest.Cluster
		bad, good string
	}{{"east", r.Cluster, "e1", "e2"}, {"west", r.west, "w2", "w1"}} {
		r.connected(t, at.target, at.bad, at.good)
		at.cluster.Backend(at.bad).FailCalls(codes.Unavailable)
		for range 30 {
			if got := r.who(t, "k"); got != at.good {
				t.Fatalf("at %s an RPC was answered by %s", at.target, got)
			}
		}
		if at.cluster.Backend(at.bad).Count() == 0 {
			t.Errorf("%s was never tried", at.bad)
		}
		at.cluster.Backend(at.bad).Heal()
	}

	// The group moves between the attempts.
	east := r.Backend("e1")
	r.pinned(t, "east")
	r.Backend("e2").FailCalls(codes.Unavailable)
	east.FailCalls(codes.Unavailable)
	r.Backend("e2").Hold()
	east.Hold()
	before := r.west.Backend("w1").Count() + r.west.Backend("w2").Count()
	failed := make(chan error, 1)
	go func() {
		_, err := r.call("k", 10*time.Second)
		failed <- err
	}()
	eventually(t, "the RPC is in flight", func() bool { return east.InFlight()+r.Backend("e2").InFlight() == 1 })
	r.pinned(t, "west")
	east.Release()
	r.Backend("e2").Release()
	if err := <-failed; status.Code(err) != codes.Unavailable {
		t.Errorf("an RPC whose target failed both attempts: %v", err)
	}
	if after := r.west.Backend("w1").Count() + r.west.Backend("w2").Count(); after != before {
		t.Errorf("an RPC of east was sent to west %d times", after-before)
	}
	if n := r.target(t, "east").InFlight; n != 0 {
		t.Errorf("%d RPCs in flight at east", n)
	}
}
