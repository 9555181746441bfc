package sdk_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
)

// TestS27Numbers: everything that the row has operators count can be read as plain
// numbers from Status, and moves when what it counts happens.
func TestS27Numbers(t *testing.T) {
	t.Parallel()
	_, breaker := breakers(t)
	ring := &slowRing{let: make(chan struct{}, 8)}
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.RoundRobin(), quick(), breaker,
		sdk.WithServiceConfig("{"+retryConfig+"}"), sdk.WithSelector("bad", selection.Custom("bad", panicking{})),
		sdk.WithSelector("ring", selection.CustomBuilt("slow ring", ring, true)))
	number := map[string]func(balancer.Status) uint64{
		"endpoints active":   func(s balancer.Status) uint64 { return uint64(len(s.Endpoints)) },
		"endpoints ready":    countEndpoints(func(e balancer.EndpointStatus) bool { return e.State == connectivity.Ready }),
		"endpoints draining": countEndpoints(func(e balancer.EndpointStatus) bool { return e.Draining }),
		"resolver updates":   func(s balancer.Status) uint64 { return s.ResolverUpdates },
		"resolver failures":  func(s balancer.Status) uint64 { return s.ResolverErrors },
		"retiring":           func(s balancer.Status) uint64 { return uint64(s.Retiring) },
		"attempts":           func(s balancer.Status) uint64 { return s.Picks.Ready },
		"retries":            func(s balancer.Status) uint64 { return s.Picks.Retries },
		"admission rejected": func(s balancer.Status) uint64 { return s.Picks.Refused },
		"breaker open":       countEndpoints(func(e balancer.EndpointStatus) bool { return e.RetryAfter > 0 }),
		"picks failed":       func(s balancer.Status) uint64 { return s.Picks.Failed },
		"picks dropped":      func(s balancer.Status) uint64 { return s.Picks.Dropped },
		"selector unknown":   func(s balancer.Status) uint64 { return s.UnknownSelectors },
		"selection failures: panic": func(s balancer.Status) uint64 {
			var n uint64
			for _, sel := range s.Selectors {
				n += sel.BadResults["panic"]
			}
			return n
		},
	}
	// moves does something and wants a number to rise by so much, or, without a step,
	// to rise at all.
	moves := func(name string, by uint64, do func()) {
		t.Helper()
		before := number[name](f.client.Status().Status)
		do()
		eventually(t, name, func() bool {
			now := number[name](f.client.Status().Status)
			return now == before+by || by == 0 && now > before
		})
	}
	who := func(selector string) { _, _ = f.echo.Who(bySelector(t, 10*time.Second, selector), "") }

	moves("endpoints active", 3, func() { who("") })
	moves("endpoints ready", 0, func() { f.allConnected(t) })
	if n := number["endpoints ready"](f.client.Status().Status); n != 3 {
		t.Errorf("%d endpoints are ready, want 3", n)
	}
	moves("attempts", 10, func() {
		for range 10 {
			who("")
		}
	})
	f.Backend("e1").FailNext(1, codes.Unavailable)
	f.Backend("e2").FailNext(1, codes.Unavailable)
	moves("retries", 2, func() {
		for range 3 {
			who("")
		}
	})
	moves("selection failures: panic", 1, func() {
		ctx := interceptors.WithSelector(within(t, 10*time.Second), "bad")
		if s, err := f.echo.Talk(ctx); err == nil {
			_, _ = s.Recv()
		}
	})
	moves("picks dropped", 0, func() { who("bad") })
	moves("selector unknown", 1, func() { who("nobody") })
	moves("resolver failures", 1, func() { f.Resolver().ReportError(errors.New("no answer")) })

	moves("breaker open", 1, func() { f.breakOpen(t, "e1") })
	moves("admission rejected", 0, func() {
		for range 3 {
			who("")
		}
	})
	if err := f.client.RemoveSelector("break-e1"); err != nil {
		t.Fatal(err)
	}

	s, err := f.echo.Talk(bySelector(t, 20*time.Second, ""))
	if err != nil {
		t.Fatal(err)
	}
	server, err := s.Ask("")
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	moves("endpoints draining", 1, func() { _ = f.client.Drain(short, server, "upgrade") })
	others := map[string][]string{"e1": {"e2", "e3"}, "e2": {"e1", "e3"}, "e3": {"e1", "e2"}}[server]
	moves("retiring", 1, func() {
		moves("resolver updates", 1, func() {
			if err := f.Resolve(others...); err != nil {
				t.Error(err)
			}
		})
	})
	_ = s.CloseSend()
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	close(ring.let)
	eventually(t, "nothing retires", func() bool { return f.client.Status().Retiring == 0 })
	for _, name := range others {
		f.client.SetEnabled(name, false, "the end")
	}
	moves("picks failed", 0, func() { who("") })
}

func countEndpoints(is func(balancer.EndpointStatus) bool) func(balancer.Status) uint64 {
	return func(s balancer.Status) (n uint64) {
		for _, e := range s.Endpoints {
			if is(e) {
				n++
			}
		}
		return n
	}
}

// TestS28WhatIsOut: a call chooses among declared selectors, and nothing else: it
// cannot bring a policy of its own, nor name one, and there are no policies, kinds or
// sources but those that the package has. Routing over several clusters is no part
// of a selector.
func TestS28WhatIsOut(t *testing.T) {
	t.Parallel()
	f := startPlain(t, []string{"e1", "e2"}, pinTo("e1"), sdk.WithSelector("reads", pinTo("e2")))
	f.whoBy(t, "", "")
	f.allConnected(t)
	for range 20 {
		if got := f.whoBy(t, "reads", ""); got != "e2" {
			t.Errorf("the declared selector leads to %s", got)
		}
		for _, name := range []string{"random", "round_robin", "pin-e2", "READS"} { // a policy's name is no selector's
			if got := f.whoBy(t, name, ""); got != "e1" {
				t.Errorf("%q is not declared, and led to %s", name, got)
			}
		}
	}
	if n := f.client.Status().UnknownSelectors; n != 80 {
		t.Errorf("%d calls named an unknown selector, want 80", n)
	}
	if _, err := selection.ByName("mine"); err == nil {
		t.Error("ByName knows a policy that the package has not")
	}
	if _, err := f.client.Selector("reads").Publish(selection.Policy{}, balancer.FromCode); err == nil {
		t.Error("a policy of no kind was published")
	}
	if _, err := f.client.Selector("reads").Publish(selection.P2C(), balancer.FromResolver+1); err == nil {
		t.Error("a policy of no source was published")
	}
}
