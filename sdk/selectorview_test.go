package sdk_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/sdk"
)

// TestS05OnlyReadyOnesAreSeen: a policy is never shown an endpoint that is not
// READY.
func TestS05OnlyReadyOnesAreSeen(t *testing.T) {
	t.Parallel()
	var seen sync.Map
	spy := selection.Custom("spy", selectFunc(func(in selection.Input) int {
		for i := range in.Len() {
			seen.Store(in.Member(i).Name(), true)
		}
		return selection.NoOpinion
	}))
	f := startPlain(t, []string{"e1", "e2", "e3"}, spy, quick())
	f.whoBy(t, "", "")
	f.allConnected(t)
	sees := func(name string) bool {
		seen.Clear()
		for range 20 {
			f.whoBy(t, "", "")
		}
		_, ok := seen.Load(name)
		return ok
	}
	if !sees("e3") {
		t.Error("e3 is READY, and the policy does not see it")
	}
	f.Backend("e3").Kill()
	eventually(t, "the client notices", func() bool { return f.endpoint(t, "e3").State != connectivity.Ready })
	eventually(t, "e3 is seen no more", func() bool { return !sees("e3") })
	for range 10 {
		if sees("e3") {
			t.Fatal("the policy sees e3, which is dead")
		}
	}
	if err := f.Backend("e3").Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "e3 is seen again", func() bool { return sees("e3") })
}

// TestS14PublishDoesNotDial: on a client that has made no call, policies cost no
// connection and no name resolution.
func TestS14PublishDoesNotDial(t *testing.T) {
	t.Parallel()
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.RoundRobin())
	for _, p := range swaps {
		f.publish(t, sdk.DefaultSelector, p) // does not wait: there are no picks
	}
	if _, err := f.client.AddSelector("more", selection.Ketama(selection.KetamaOptions{})); err != nil {
		t.Fatal(err)
	}
	f.client.SetEnabled("e1", false, "maintenance")
	if n := f.Resolver().Builds(); n != 0 {
		t.Errorf("the name was resolved %d times", n)
	}
	if n := f.connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
	if st := f.client.Status(); len(st.Endpoints) != 0 || st.Target != "" {
		t.Errorf("status %v", st)
	}
	f.publish(t, sdk.DefaultSelector, pinTo("e3"))
	f.whoBy(t, "", "")
	f.whoBy(t, "more", "")
}

// TestS15SingleEndpoint: with one endpoint a policy is accepted and not asked. It
// is as soon as there are two.
func TestS15SingleEndpoint(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	f := startPlain(t, []string{"e1", "e2"}, selection.P2C())
	if err := f.Resolve("e1"); err != nil {
		t.Fatal(err)
	}
	f.whoBy(t, "", "")
	pub := f.publish(t, sdk.DefaultSelector, selection.Custom("counts", selectFunc(func(in selection.Input) int {
		asked.Add(1)
		return pin{"e2"}.Select(in)
	})))
	if !pub.Changed {
		t.Error("the policy was not accepted")
	}
	for range 20 {
		f.whoBy(t, "", "")
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the policy was asked %d times with one endpoint", n)
	}
	if err := f.Resolve("e1", "e2"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policy is asked", func() bool { return f.whoBy(t, "", "") == "e2" })
	f.oneConnectionEach(t)
}

// TestS16Snapshot: Status says of each selector what is in force, who published
// it, and what was before.
func TestS16Snapshot(t *testing.T) {
	t.Parallel()
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.P2C(), sdk.WithSelector("hash", selection.Ketama(selection.KetamaOptions{})))
	f.whoBy(t, "", "")
	f.whoAll(t)
	f.publish(t, sdk.DefaultSelector, selection.RoundRobin())
	again := f.publish(t, sdk.DefaultSelector, selection.RoundRobin())
	if again.Changed || again.Generation != 2 {
		t.Errorf("the same policy again: %+v, want no change", again)
	}
	for range 20 {
		f.publish(t, "hash", selection.Weighted(nil))
		f.publish(t, "hash", selection.Ketama(selection.KetamaOptions{}))
	}
	for range 30 {
		f.whoBy(t, "hash", "")
	}
	st := f.client.Status()
	if len(st.Selectors) != 3 || st.Selectors[0].Name != sdk.DefaultSelector {
		t.Fatalf("selectors %+v, want the default one first, and 3", st.Selectors)
	}
	s := f.selectorStatus(t, sdk.DefaultSelector)
	if s.Policy != "round_robin" || s.Generation != 2 || s.InForce != 2 || s.Source != balancer.FromCode || s.Membership != st.Membership {
		t.Errorf("the default selector: %+v", s)
	}
	if h := s.History; len(h) != 2 || h[0].Policy != "p2c" || h[1].Policy != "round_robin" || h[1].Generation != 2 || h[1].At.Before(h[0].At) {
		t.Errorf("its history: %+v", h)
	}
	s = f.selectorStatus(t, "hash")
	if s.Policy != "ketama" || s.Generation != 41 || s.InForce != 41 || s.Builds.Builds == 0 || s.LastBuildError != nil || s.Picks.Ready != 30 {
		t.Errorf("selector hash: %+v", s)
	}
	if h := s.History; len(h) != 16 || h[15].Generation != 41 || h[0].Generation != 26 {
		t.Errorf("the history of hash has %d entries, want the newest 16: %+v", len(h), h)
	}
}
