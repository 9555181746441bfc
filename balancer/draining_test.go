package balancer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	lb "google.golang.org/grpc/balancer"
)

// hold has one RPC in flight at addr, by a selector. What it returns ends the RPC.
func (b *bench) hold(selector, addr string) (end func()) {
	b.t.Helper()
	for range 100 {
		res, err := b.policy.picker.Pick(selectorInfo(selector))
		if err != nil {
			b.t.Fatal(err)
		}
		if res.SubConn.(*fakeSubConn).addr == addr {
			return func() { res.Done(lb.DoneInfo{}) }
		}
		res.Done(lb.DoneInfo{})
	}
	b.t.Fatalf("no pick reaches %q", addr)
	return nil
}

// drains starts a drain; what it returns says whether it is over.
func (b *bench) drains(addr string) (over func() bool) {
	b.t.Cleanup(drained.send) // its channel is of this bubble
	ended := make(chan error, 1)
	go func() { ended <- b.router.Drain(b.t.Context(), addr, "a test") }()
	synctest.Wait()
	return func() bool {
		b.t.Helper()
		synctest.Wait()
		select {
		case err := <-ended:
			if err != nil {
				b.t.Error(err)
			}
			return true
		default:
			return false
		}
	}
}

func (b *bench) retiring(want int) {
	b.t.Helper()
	if n := b.router.Status().Retiring; n != want {
		b.t.Errorf("%d endpoints retire, want %d", n, want)
	}
}

// TestS25DrainOfOneThatHasLeft: a drain waits for what is in flight at an endpoint
// that had left before, whether it is closed or not, and at its successor too.
func TestS25DrainOfOneThatHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{RetireTimeout: time.Hour}, "a", "x")
		b.finish(nil)
		b.connect()
		first := b.hold("", "x")
		b.resolve("a") // x retires, since the build of "built" is held up
		second := b.hold("built", "x")
		over := b.drains("x")
		if over() {
			t.Fatal("drained with two RPCs in flight at one that retires")
		}
		b.want("built", "a") // it is disabled, older data or not
		first()
		if over() {
			t.Fatal("drained with one RPC in flight at one that retires")
		}
		b.finish(nil)
		if n := b.cc.count(b.cc.opened, "x"); n != 0 {
			t.Errorf("x has %d SubConns", n)
		}
		b.retiring(1)
		if over() {
			t.Fatal("drained with one RPC in flight at one that is closed")
		}

		b.resolve("a", "x")
		b.router.SetEnabled("x", true, "")
		b.finish(nil)
		b.connect()
		third := b.hold("built", "x")
		again := b.drains("x") // finds both
		second()
		if over() {
			t.Error("drained with an RPC in flight at the successor") // found by SetEnabled's wake-up
		}
		b.retiring(0)
		if again() {
			t.Error("drained with an RPC in flight at the successor")
		}
		third()
		if !again() || !over() {
			t.Error("not drained with nothing in flight")
		}
	})
}

// TestS25DrainAfterPolicy: RPCs in flight are waited for also when the policy that
// had the endpoint is gone. The error says how many they are.
func TestS25DrainAfterPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "x")
		b.finish(nil)
		b.connect()
		end := b.hold("", "x")
		b.policy.Close()
		b.retiring(1)
		t.Cleanup(drained.send)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := b.router.Drain(ctx, "x", "a test")
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"x" still has 1 RPCs`) {
			t.Errorf("%v", err)
		}
		over := b.drains("x")
		end()
		if !over() {
			t.Error("not drained with nothing in flight")
		}
		b.retiring(0)
		if !b.drains("nobody")() {
			t.Error("a drain of a name that nobody knows waits")
		}
	})
}

// TestS25RetiringCap: of endpoints that retire so many stay at most, and those that
// left first are closed first. RPCs in flight there go on.
func TestS25RetiringCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{RetireTimeout: time.Hour, MaxRetiring: 2}, "a", "u", "v", "x", "y")
		b.finish(nil)
		b.connect()
		opened := func(want map[string]int) {
			t.Helper()
			for addr, n := range want {
				if got := b.cc.count(b.cc.opened, addr); got != n {
					t.Errorf("%s has %d SubConns, want %d", addr, got, n)
				}
			}
		}
		b.resolve("a", "v", "x", "y")
		b.resolve("a", "x", "y")
		opened(map[string]int{"u": 1, "v": 1})
		b.retiring(2)
		b.want("built", "a", "u", "v", "x", "y")

		end := b.hold("built", "u")
		b.resolve("a", "y")
		opened(map[string]int{"u": 0, "v": 1, "x": 1})
		b.want("built", "a", "v", "x", "y")
		b.retiring(3) // with the one that has an RPC in flight
		end()
		b.retiring(2)

		b.resolve("a")
		opened(map[string]int{"v": 0, "x": 1, "y": 1})
		b.want("built", "a", "x", "y")
		b.finish(nil) // the membership of a, v, x, y
		b.want("built", "a", "x", "y")
		b.finish(nil)
		opened(map[string]int{"a": 1, "v": 0, "x": 0, "y": 0})
		b.want("built", "a")
		b.retiring(0)
	})
}

// TestS25RetiringCapByDefault: a list of any length may be replaced as a whole.
func TestS25RetiringCapByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = leastMaxRetiring + 10
		names := func(prefix string) (list []string) {
			for i := range n {
				list = append(list, prefix+string(rune('A'+i)))
			}
			return list
		}
		b := newBench(t, RouterOptions{RetireTimeout: time.Hour}, names("old")...)
		b.finish(nil)
		b.connect()
		b.resolve(names("new")...)
		b.retiring(n)
		b.resolve("one")
		b.retiring(leastMaxRetiring)
		b.policy.Close()
		b.retiring(0)
		if n := b.cc.count(b.cc.opened, "one"); n != 0 {
			t.Errorf("%d SubConns", n)
		}
	})
}

// TestS25DrainRaces: endpoints leave, RPCs start and end, and drains run; each
// drain that ends found nothing in flight at its endpoint that began before it.
func TestS25DrainRaces(t *testing.T) {
	t.Cleanup(drained.send) // its channel is of no bubble
	cc := newFakeConn(t)
	router := NewRouter(RouterOptions{RetireTimeout: time.Millisecond})
	defer router.Close()
	p := newPolicy(cc, lb.BuildOptions{})
	defer p.Close()
	for range 300 {
		if err := p.UpdateClientConnState(unsharded(router, "x")); err != nil {
			t.Fatal(err)
		}
		var res lb.PickResult
		soon(t, "a pick", func() bool {
			if p.picker.cur.Load() == nil {
				return false
			}
			var err error
			if res, err = p.picker.Pick(selectorInfo("")); err != nil {
				return false
			}
			if sc := res.SubConn.(*fakeSubConn); sc.addr != "x" || sc.shut.Load() {
				res.Done(lb.DoneInfo{}) // a pick by the list before, which gRPC would do again
				return false
			}
			return true
		})
		left := make(chan struct{})
		go func() {
			defer close(left)
			_ = p.UpdateClientConnState(unsharded(router, "y"))
		}()
		ended := make(chan error, 1)
		go func() { ended <- router.Drain(t.Context(), "x", "a test") }()
		<-left
		time.Sleep(50 * time.Microsecond)
		select {
		case <-ended:
			t.Fatal("drained with an RPC in flight")
		default:
		}
		res.Done(lb.DoneInfo{})
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		router.SetEnabled("x", true, "")
	}
	soon(t, "nothing to retire", func() bool { return router.Status().Retiring == 0 })
}
