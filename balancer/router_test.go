package balancer

import (
	"testing"

	lb "google.golang.org/grpc/balancer"
)

// TestRouterFollowsTheSurvivor: of two policies on one Router, as under xDS
// priorities, the first one leaves. What the Router says is about the other then,
// and only the last one's route outlives its policy (idle mode).
func TestRouterFollowsTheSurvivor(t *testing.T) {
	router := NewRouter(RouterOptions{})
	defer router.Close()
	join := func(header string, addrs ...string) *policy {
		u := poolUpdate(addrs...)
		u.ResolverState = SetRouter(u.ResolverState, router)
		config := *u.BalancerConfig.(*Config)
		config.KeyHeader = header
		u.BalancerConfig = &config
		p := newPolicy(newFakeConn(t), lb.BuildOptions{})
		t.Cleanup(p.Close)
		if err := p.UpdateClientConnState(u); err != nil {
			t.Fatal(err)
		}
		// Picks come first, then what the Router says of them.
		soon(t, "the update", func() bool { return p.picker.cur.Load() != nil && p.route.current.Load() != nil })
		return p
	}
	first := join("x-first", "a")
	second := join("x-second", "b", "c")
	if s := router.Status(); router.Config().KeyHeader != "x-first" || len(s.Endpoints) != 1 {
		t.Fatalf("the Router is about %q with %d endpoints, want the first policy", router.Config().KeyHeader, len(s.Endpoints))
	}
	first.Close()
	if s := router.Status(); router.Config().KeyHeader != "x-second" || len(s.Endpoints) != 2 || len(router.routes()) != 1 {
		t.Errorf("the first policy left, and the Router is about %q with %d endpoints and %d routes", router.Config().KeyHeader, len(s.Endpoints), len(router.routes()))
	}
	uuid := router.Status().Assignment.ClientUUID
	second.Close()
	third := join("x-third", "d")
	if got := router.Status().Assignment.ClientUUID; got != uuid || third.route != second.route {
		t.Errorf("A-33: after an idle time the client is %q, before it was %q", got, uuid)
	}
}
