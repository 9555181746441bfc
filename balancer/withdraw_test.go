package balancer

import (
	"context"
	"testing"
	"testing/synctest"

	lb "google.golang.org/grpc/balancer"

	"github.com/slicewire/slicewire/balancer/selection"
)

// listing is a resolver update whose LB config lists selectors.
func listing(r *Router, selectors map[string]selection.Policy) lb.ClientConnState {
	s := unsharded(r, "a", "b")
	s.BalancerConfig = &Config{Unsharded: true, Selectors: selectors}
	return s
}

// selectorsAre compares names and policies.
func selectorsAre(t *testing.T, r *Router, want map[string]string) {
	t.Helper()
	got := r.Status().Selectors
	if len(got) != len(want) {
		t.Errorf("%d selectors, want %v", len(got), want)
	}
	for _, s := range got {
		if want[s.Name] != s.Policy {
			t.Errorf("selector %q has policy %q, want %q", s.Name, s.Policy, want[s.Name])
		}
	}
}

// TestWithdrawnSelectors: what the LB config lists and a later one leaves out is
// withdrawn: a selector that nobody else has spoken of goes, another one has again
// what was said of it before.
func TestWithdrawnSelectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b")
		b.eager.Store(true)
		b.finish(nil)
		b.connect()
		put := func(selectors map[string]selection.Policy) {
			t.Helper()
			if err := b.policy.UpdateClientConnState(listing(b.router, selectors)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		publish := func(name string, p selection.Policy, source Source) {
			t.Helper()
			if _, err := b.router.Selector(name).Publish(p, source); err != nil {
				t.Fatal(err)
			}
		}
		type all = map[string]selection.Policy
		put(all{"default": selection.Random(), "built": selection.RoundRobin(), "reads": selection.LeastPending(), "writes": selection.Ketama(selection.KetamaOptions{})})
		selectorsAre(t, b.router, map[string]string{"default": "random", "built": "round_robin", "reads": "least_pending", "writes": "ketama"})

		publish("writes", selection.Random(), FromConfig)
		put(all{"default": selection.Random(), "built": selection.RoundRobin()})
		selectorsAre(t, b.router, map[string]string{"default": "random", "built": "round_robin", "writes": "random"})
		if _, err := b.policy.picker.Pick(selectorInfo("reads")); err != nil || b.router.Status().UnknownSelectors == 0 {
			t.Errorf("an RPC by a selector that is gone: %v, %d unknown", err, b.router.Status().UnknownSelectors)
		}

		put(nil)
		selectorsAre(t, b.router, map[string]string{"default": "p2c", "built": "own", "writes": "random"})
		b.want("built", "a", "b")
		if s := b.router.Status().Selectors; s[0].Source != FromDefault || s[1].Source != FromCode || s[1].Generation != 3 {
			t.Errorf("%+v", s)
		}
		put(all{"reads": selection.P2C()}) // as if it had never been there
		selectorsAre(t, b.router, map[string]string{"default": "p2c", "built": "own", "writes": "random", "reads": "p2c"})

		// While code has the last word, what the resolver takes back changes nothing.
		put(all{"default": selection.Random(), "reads": selection.P2C()})
		publish("default", selection.RoundRobin(), FromCode)
		publish("reads", selection.RoundRobin(), FromCode)
		before := b.router.Status().Selectors[0].Generation
		put(nil)
		selectorsAre(t, b.router, map[string]string{"default": "round_robin", "built": "own", "writes": "random", "reads": "round_robin"})
		if after := b.router.Status().Selectors[0].Generation; after != before {
			t.Errorf("generation %d, then %d", before, after)
		}
		// And what it says again after that is news.
		put(all{"reads": selection.P2C()})
		selectorsAre(t, b.router, map[string]string{"default": "round_robin", "built": "own", "writes": "random", "reads": "p2c"})
	})
}

// TestWithdrawnWhileIdle: the LB config's selectors outlive the policy, which gRPC
// closes when the channel goes idle.
func TestWithdrawnWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b")
		b.eager.Store(true)
		b.finish(nil)
		with := map[string]selection.Policy{"reads": selection.Ketama(selection.KetamaOptions{})}
		if err := b.policy.UpdateClientConnState(listing(b.router, with)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.policy.Close()
		selectorsAre(t, b.router, map[string]string{"default": "p2c", "built": "own", "reads": "ketama"})
		b.policy = newPolicy(b.cc, lb.BuildOptions{})
		defer b.policy.Close()
		if err := b.policy.UpdateClientConnState(listing(b.router, nil)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		selectorsAre(t, b.router, map[string]string{"default": "p2c", "built": "own"})
	})
}

// TestWithdrawnByOneOfTwo: of two policies on one Router each has a config; a
// selector goes when neither lists it.
func TestWithdrawnByOneOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b")
		b.eager.Store(true)
		b.finish(nil)
		second := newPolicy(newFakeConn(t), lb.BuildOptions{})
		with := map[string]selection.Policy{"reads": selection.RoundRobin()}
		for _, p := range []*policy{b.policy, second} {
			if err := p.UpdateClientConnState(listing(b.router, with)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if err := b.policy.UpdateClientConnState(listing(b.router, nil)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		selectorsAre(t, b.router, map[string]string{"default": "p2c", "built": "own", "reads": "round_robin"})
		second.Close()
		if err := b.policy.UpdateClientConnState(listing(b.router, nil)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		selectorsAre(t, b.router, map[string]string{"default": "p2c", "built": "own"})
	})
}

// TestWithdrawDoesNotWait: a selector goes at once, also while its data is built;
// Close of the Router waits for the build.
func TestWithdrawDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b")
		b.eager.Store(true)
		b.finish(nil)
		let, ended := make(chan struct{}), false
		deaf := selection.CustomBuilt("deaf", deafBuilder(func() { <-let; ended = true }), false)
		if err := b.policy.UpdateClientConnState(listing(b.router, map[string]selection.Policy{"deaf": deaf})); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := b.policy.UpdateClientConnState(listing(b.router, nil)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		selectorsAre(t, b.router, map[string]string{"default": "p2c", "built": "own"})
		closed := make(chan struct{})
		go func() { b.policy.Close(); b.router.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close did not wait for the build")
		default:
		}
		close(let)
		<-closed
		if !ended {
			t.Error("the build has not ended")
		}
	})
}

// deafBuilder does not look at its context.
type deafBuilder func()

func (d deafBuilder) Build(context.Context, selection.Membership) (selection.Order, error) {
	d()
	return straight(2), nil
}
