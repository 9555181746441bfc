package sdk_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
)

// Selectors hold in every target, whichever is current: those declared at Dial,
// those added since, and their policies, also in a target that joins later.
func TestGroupSelectors(t *testing.T) {
	t.Parallel()
	r := startRegions(t, sdk.WithSelector("reads", selection.RoundRobin()))
	all := []string{"east", "plain", "west"}
	pub, err := r.client.Selector("reads").Publish(selection.Random(), balancer.FromCode)
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.Wait(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(pub.Targets)); !slices.Equal(got, all) || !pub.Changed || pub.Generation != 2 {
		t.Errorf("published to %v: %+v", got, pub)
	}
	if again, err := r.client.Selector("reads").Publish(selection.Random(), balancer.FromCode); err != nil || again.Changed || again.Generation != 2 {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	// A policy that builds data is waited for in all of them.
	if _, err := r.client.AddSelector("by-hash", selection.P2C()); err != nil {
		t.Fatal(err)
	}
	ring := r.publish(t, "by-hash", selection.Ketama(selection.KetamaOptions{}))
	if len(ring.Targets) != 3 {
		t.Errorf("the ring was published to %d targets", len(ring.Targets))
	}
	for _, target := range []string{"east", "west"} {
		r.pinned(t, target)
		first := r.whoBy(t, "by-hash", "anna")
		for range 20 {
			if got := r.whoBy(t, "by-hash", "anna"); got != first {
				t.Fatalf("at %s one key reached %s and %s by its hash", target, first, got)
			}
		}
		both := make(map[string]bool)
		eventually(t, "reads reach both servers of "+target, func() bool {
			both[r.whoBy(t, "reads", "anna")] = true
			return len(both) == 2
		})
		if got := r.who(t, "anna"); !strings.HasSuffix(got, "1") {
			t.Errorf("at %s the default selector reached %s, not the owner", target, got)
		}
	}

	// One that joins later knows what was said.
	late := startPlaces(t, "late")["late"]
	if err := r.client.RemoveSelector("reads"); err != nil {
		t.Fatal(err)
	}
	top := r.topology()
	top.Targets = append(top.Targets, sdk.TargetConfig{Name: "late", URI: "dns:///" + late.Addr()})
	top.Groups[0].Targets = append(top.Groups[0].Targets, "late")
	if _, err := r.client.UpdateTopology(top); err != nil {
		t.Fatal(err)
	}
	r.pinned(t, "late")
	if got := r.whoBy(t, "by-hash", "anna"); got != "late" {
		t.Fatalf("the RPC reached %s", got)
	}
	for _, s := range r.target(t, "late").Router.Selectors {
		switch {
		case s.Name == "reads":
			t.Error("the late target has a selector that was removed")
		case s.Name == "by-hash" && s.Policy != "ketama":
			t.Errorf("the late target's selector has the policy %s", s.Policy)
		}
	}
	if n := r.target(t, "late").Router.UnknownSelectors; n != 0 {
		t.Errorf("the late target did not know the selector of %d RPCs", n)
	}
	pub = r.publish(t, "by-hash", selection.LeastPending())
	if got := slices.Sorted(maps.Keys(pub.Targets)); !slices.Equal(got, []string{"east", "late", "plain", "west"}) {
		t.Errorf("published to %v", got)
	}
	// A group's own selector, where the call names none.
	top.Groups[0].Selector = "by-hash"
	if _, err := r.client.UpdateTopology(top); err != nil {
		t.Fatal(err)
	}
	r.publish(t, "by-hash", pinTo("w2"))
	r.pinned(t, "west")
	if got := r.who(t, "anna"); got != "w2" {
		t.Errorf("by its group's selector the RPC reached %s", got)
	}
	if got := r.whoBy(t, sdk.DefaultSelector, "anna"); got != "w1" {
		t.Errorf("by the selector it names the RPC reached %s", got)
	}
}

// A target that is listed again while its RPCs run out has missed nothing of what
// was said of selectors and endpoints meanwhile.
func TestGroupReturnedTargetIsToldAll(t *testing.T) {
	t.Parallel()
	r := startRegions(t, sdk.WithSelector("reads", selection.P2C()), sdk.WithSelector("old", selection.P2C()))
	r.shared(t)
	r.connected(t, "west", "w1", "w2")
	r.client.SetEnabled("w1", false, "maintenance")
	stream, err := r.echo.Talk(interceptors.WithKeyString(within(t, 10*time.Second), "k"))
	if err != nil {
		t.Fatal(err)
	}
	ask(t, stream, "w2")
	top := r.topology()
	top.Groups = []sdk.GroupConfig{group("default", "east", "plain")}
	if _, err := r.client.UpdateTopology(top); err != nil {
		t.Fatal(err)
	}
	if s := r.target(t, "west"); !s.Leaving || s.InFlight != 1 {
		t.Fatalf("west: leaving %v with %d RPCs in flight", s.Leaving, s.InFlight)
	}
	r.client.SetEnabled("w1", true, "")
	if err := r.client.Drain(within(t, 50*time.Millisecond), "w2", "repair"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"west"`) {
		t.Errorf("Drain with a stream open in a target that leaves: %v", err)
	}
	r.publish(t, "reads", pinTo("w2"))
	if _, err := r.client.AddSelector("new", selection.P2C()); err != nil {
		t.Fatal(err)
	}
	if err := r.client.RemoveSelector("old"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.UpdateTopology(r.topology()); err != nil {
		t.Fatal(err)
	}
	if e1, e2 := r.endpointOf(t, "west", "w1"), r.endpointOf(t, "west", "w2"); e1.Disabled != nil || e2.Disabled == nil || e2.Disabled.Reason != "repair" {
		t.Errorf("w1 is disabled for %v, w2 for %v", e1.Disabled, e2.Disabled)
	}
	var policies []string
	for _, s := range r.target(t, "west").Router.Selectors {
		policies = append(policies, s.Name+" "+s.Policy)
	}
	if slices.Sort(policies); !slices.Equal(policies[1:], []string{"new p2c", "reads pin-w2"}) {
		t.Errorf("west has the selectors %q", policies)
	}
	r.pinned(t, "west")
	for range 20 {
		if got := r.who(t, "k"); got != "w1" {
			t.Fatalf("an RPC reached %s", got)
		}
	}
	ask(t, stream, "w2") // as before, over the same connection
	if n := r.west.Backend("w2").Connections().Accepted; n != 1 {
		t.Errorf("w2 accepted %d connections", n)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream went on after its end")
	}
}
