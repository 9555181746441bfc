package balancer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	lb "google.golang.org/grpc/balancer"

	"github.com/slicewire/slicewire/balancer/selection"
)

// TestSelectorStorm: publications, endpoint lists, operators, selectors that come
// and go, and picks, all at once. At the end the Router converges, nothing is in
// flight, and every connection that is not wanted is shut down.
func TestSelectorStorm(t *testing.T) {
	const steps = 300
	cc := newFakeConn(t)
	router := NewRouter(RouterOptions{Gate: NewGate(), Admission: newDoors(t), RetireTimeout: 20 * time.Millisecond})
	defer router.Close()
	p := newPolicy(cc, lb.BuildOptions{})
	defer p.Close()
	hosts := func(rng *rand.Rand) []string {
		var addrs []string
		for i := range 8 {
			if i == 0 || rng.IntN(2) == 0 {
				addrs = append(addrs, fmt.Sprint("h", i))
			}
		}
		rng.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
		return addrs
	}
	if err := p.UpdateClientConnState(unsharded(router, "h0", "h1")); err != nil {
		t.Fatal(err)
	}
	soon(t, "the update", func() bool { return p.picker.cur.Load() != nil })
	policies := []selection.Policy{
		selection.P2C(), selection.Random(), selection.RoundRobin(), selection.LeastPending(), selection.Weighted(nil),
		selection.Ketama(selection.KetamaOptions{}), selection.Custom("first", first{}), selection.CustomBuilt("straight", straight(1), false),
	}

	var actors, pickers sync.WaitGroup
	act := func(seed uint64, step func(*rand.Rand) error) {
		actors.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 1))
			for range steps {
				if err := step(rng); err != nil {
					t.Error(err)
				}
			}
		})
	}
	act(1, func(rng *rand.Rand) error {
		err := p.UpdateClientConnState(unsharded(router, hosts(rng)...))
		time.Sleep(100 * time.Microsecond)
		return err
	})
	for seed := range uint64(2) {
		act(2+seed, func(rng *rand.Rand) error {
			_, err := router.Selector(DefaultSelector).Publish(policies[rng.IntN(len(policies))], FromCode+Source(seed))
			return err
		})
	}
	act(4, func(rng *rand.Rand) error {
		router.SetEnabled(fmt.Sprint("h", rng.IntN(8)), rng.IntN(2) == 0, "a test")
		return nil
	})
	act(5, func(rng *rand.Rand) error {
		name := fmt.Sprint("s", rng.IntN(2))
		if rng.IntN(3) == 0 {
			if err := router.RemoveSelector(name); err != nil && !errors.Is(err, ErrNoSelector) {
				return err
			}
			return nil
		}
		if _, err := router.AddSelector(name, policies[rng.IntN(len(policies))], FromCode); err != nil && !errors.Is(err, ErrSelectorExists) {
			return err
		}
		return nil
	})
	act(6, func(*rand.Rand) error { _ = router.Status(); return nil })
	halt := make(chan struct{})
	for w := range 2 {
		pickers.Go(func() {
			for i := w; ; i++ {
				select {
				case <-halt:
					return
				default:
				}
				info := selectorInfo([]string{"", "s0", "s1"}[i%3])
				info.FullMethodName = "/test/Method"
				if res, err := p.picker.Pick(info); err == nil {
					res.Done(lb.DoneInfo{BytesSent: true})
				}
			}
		})
	}
	actors.Wait()
	close(halt)
	pickers.Wait()

	for i := range 8 {
		router.SetEnabled(fmt.Sprint("h", i), true, "")
	}
	if _, err := router.Selector(DefaultSelector).Publish(selection.CustomBuilt("last", straight(2), false), FromCode); err != nil {
		t.Fatal(err)
	}
	if err := p.UpdateClientConnState(unsharded(router, "h0", "new")); err != nil {
		t.Fatal(err)
	}
	soon(t, "the last list", func() bool { return p.picker.cur.Load().view.byName["new"] != nil })
	if err := router.WaitConverged(t.Context(), router.MembershipGeneration()); err != nil {
		t.Fatal(err)
	}
	soon(t, "a pick", func() bool {
		info := selectorInfo("")
		info.FullMethodName = "/test/Method"
		res, err := p.picker.Pick(info)
		if err == nil {
			res.Done(lb.DoneInfo{})
		}
		return err == nil
	})
	for i := 1; i < 8; i++ {
		soon(t, "the connections of who left to be shut down", func() bool { return cc.count(cc.opened, fmt.Sprint("h", i)) == 0 })
	}
	for _, ep := range router.Status().Endpoints {
		if ep.Pending != 0 || ep.Disabled != nil {
			t.Errorf("at the end: %+v", ep)
		}
	}
	p.Close()
	if n := cc.count(cc.opened, "h0") + cc.count(cc.opened, "new"); n != 0 {
		t.Errorf("%d SubConns are left", n)
	}
}
