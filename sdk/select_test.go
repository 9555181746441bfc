package sdk_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/sdk"
)

// TestP02OrderIsAPermutation: of each policy the order of candidates names every
// endpoint once, and is the same for a key where the policy hashes it.
func TestP02OrderIsAPermutation(t *testing.T) {
	f := startPlain(t, []string{"e1", "e2", "e3", "e4"}, selection.P2C())
	f.whoBy(t, "", "")
	f.allConnected(t)
	s := f.client.Selector(sdk.DefaultSelector)
	for _, p := range []selection.Policy{
		selection.P2C(), selection.Random(), selection.RoundRobin(), selection.LeastPending(),
		selection.Weighted(nil), selection.Ketama(selection.KetamaOptions{}), selection.Custom("pin", pin{"e3"}),
	} {
		pub, err := s.Publish(p, balancer.FromCode)
		if err != nil {
			t.Fatal(err)
		}
		if err := pub.Wait(within(t, 5*time.Second)); err != nil {
			t.Fatal(err)
		}
		var order []string
		for c := range s.Order("some key") {
			order = append(order, c.Name)
		}
		sorted := slices.Sorted(slices.Values(order))
		if !slices.Equal(sorted, []string{"e1", "e2", "e3", "e4"}) {
			t.Errorf("%v: the order is %v, want each endpoint once", p, order)
		}
		if p.Kind() == selection.KindCustom && order[0] != "e3" {
			t.Errorf("%v: the order is %v, want e3 first", p, order)
		}
		if p.Kind() == selection.KindKetama {
			c, err := s.Select("some key")
			if err != nil || c.Name != order[0] || f.whoBy(t, "", "some key") != order[0] {
				t.Errorf("selected %+v, %v; order %v", c, err, order)
			}
		}
	}
}

// TestP03SelectWith: accept is asked in order and may take an endpoint that is not
// connected. It also holds P-04, the cap, and P-05, the error that says why.
func TestP03SelectWith(t *testing.T) {
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.Ketama(selection.KetamaOptions{}))
	s := f.client.Selector(sdk.DefaultSelector)
	var none *balancer.NoEndpointError
	if _, err := s.Select("k"); !errors.As(err, &none) || none.Cause == nil || !errors.Is(err, balancer.ErrNoEndpoint) {
		t.Errorf("P-05: before the first RPC: %v", err)
	}
	first := f.whoBy(t, "", "k")
	order := slices.Collect(s.Order("k"))
	if len(order) != 3 || order[0].Name != first || !order[0].Usable() {
		t.Fatalf("order %+v, want 3 with %s first", order, first)
	}

	var seen []balancer.Candidate
	c, err := s.SelectWith("k", 0, func(c balancer.Candidate) bool {
		seen = append(seen, c)
		return len(seen) == 3
	})
	if err != nil || c.State != connectivity.Idle || c.Name != order[2].Name || seen[1].Name != order[1].Name {
		t.Errorf("accepted %+v, %v after %+v, want the third", c, err, seen)
	}
	if n := f.Backend(c.Name).Connections().Accepted; n != 0 {
		t.Errorf("a selection opened %d connections", n)
	}

	f.client.SetEnabled(first, false, "test")
	_, err = s.SelectWith("k", 2, balancer.Candidate.Usable)
	if !errors.As(err, &none) || !none.Capped || none.Tried != 2 || none.Reasons["disabled"] != 1 || none.Reasons["IDLE"] != 1 {
		t.Errorf("P-04: %v (%+v), want 2 tried of 3, one disabled and one IDLE", err, none)
	}
}

// TestSelectorsFromTheResolver: a service config declares selectors and publishes
// policies; what it repeats undoes nothing that code has published since.
func TestSelectorsFromTheResolver(t *testing.T) {
	f := startPlain(t, []string{"e1", "e2"}, selection.P2C(),
		sdk.WithServiceConfig(`{"loadBalancingConfig":[{"slicewire":{"sharding":false,"selectors":{"reads":"round_robin","default":"random"}}}]}`))
	f.whoBy(t, "reads", "")
	reads, main := f.client.Selector("reads"), f.client.Selector(sdk.DefaultSelector)
	if reads == nil || reads.Policy().String() != "round_robin" || main.Policy().String() != "random" {
		t.Fatalf("selectors %v and %v", reads, main)
	}
	if _, err := main.Publish(selection.LeastPending(), balancer.FromCode); err != nil {
		t.Fatal(err)
	}
	if err := f.Resolve("e2", "e1"); err != nil { // the same config again
		t.Fatal(err)
	}
	f.whoBy(t, "", "")
	eventually(t, "the update", func() bool { return f.client.Status().Endpoints[0].Name == "e2" })
	if got := main.Policy().String(); got != "least_pending" {
		t.Errorf("the resolver repeated itself and put %s in force", got)
	}
	st := f.client.Status().Selectors
	if len(st) != 2 || st[0].Name != sdk.DefaultSelector || st[0].Source != balancer.FromCode || len(st[0].History) != 3 {
		t.Errorf("S-16: status %+v", st)
	}
}
