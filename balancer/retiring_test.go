package balancer

import (
	"testing"
	"testing/synctest"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// TestP08RemovedEndpointStays: an endpoint that has left stays connected while a
// selector's data leads to it, and no longer. P-07: that data sees what happens to
// it: an operator's word at the next pick, and a connection that breaks.
func TestP08RemovedEndpointStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{RetireTimeout: time.Hour}, "a", "x", "y")
		b.finish(nil)
		b.connect()
		b.want("", "a", "x", "y")
		b.want("built", "a", "x", "y")

		b.resolve("a")
		b.want("", "a")
		b.want("built", "a", "x", "y")
		for _, addr := range []string{"x", "y"} {
			if n := b.cc.count(b.cc.opened, addr); n != 1 {
				t.Errorf("%q has left, older data leads to it, and it has %d SubConns, want 1", addr, n)
			}
		}
		b.router.SetEnabled("x", false, "a test")
		b.want("built", "a", "y")
		b.router.SetEnabled("x", true, "")
		b.want("built", "a", "x", "y")

		b.breaks("y")
		b.want("built", "a", "x")
		if n := b.cc.count(b.cc.dialled, "y"); n != 1 {
			t.Errorf("an endpoint that has left was dialled %d times, want the one before", n)
		}

		b.finish(nil) // the data without x and y
		b.want("built", "a")
		for _, addr := range []string{"x", "y"} {
			if n := b.cc.count(b.cc.opened, addr); n != 0 {
				t.Errorf("no data leads to %q any more, and it has %d SubConns", addr, n)
			}
		}
	})
}

// breaks has the connection to addr break.
func (b *bench) breaks(addr string) {
	b.t.Helper()
	for range 100 {
		res, err := b.policy.picker.Pick(selectorInfo("built"))
		if err != nil {
			b.t.Fatal(err)
		}
		res.Done(lb.DoneInfo{})
		if sc := res.SubConn.(*fakeSubConn); sc.addr == addr {
			sc.tell(connectivity.Idle)
			synctest.Wait()
			return
		}
	}
	b.t.Fatalf("no pick reaches %q", addr)
}

// TestP08RetireTimeout: a build that does not end holds an endpoint that has left
// for RetireTimeout, and then picks by older data pass it over.
func TestP08RetireTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{RetireTimeout: 3 * time.Second}, "a", "x")
		b.finish(nil)
		b.connect()
		b.resolve("a")
		time.Sleep(3*time.Second - time.Nanosecond)
		synctest.Wait()
		b.want("built", "a", "x")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := b.cc.count(b.cc.opened, "x"); n != 0 {
			t.Errorf("after RetireTimeout x has %d SubConns", n)
		}
		b.want("built", "a")
		b.finish(nil)
		b.want("built", "a")
	})
}

// TestP08ReturnsWhileRetiring: an endpoint that comes back while the old one of its
// name is kept is another one, and both are closed in their time.
func TestP08ReturnsWhileRetiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{RetireTimeout: time.Hour}, "a", "x")
		b.finish(nil)
		b.connect()
		b.resolve("a")
		b.resolve("a", "x")
		b.want("", "a", "x")
		b.want("built", "a", "x")
		if n := b.cc.count(b.cc.opened, "x"); n != 2 {
			t.Errorf("x has %d SubConns, want the old one and the new one", n)
		}
		b.router.SetEnabled("x", false, "a test") // both
		b.want("", "a")
		b.want("built", "a")
		b.router.SetEnabled("x", true, "")
		b.finish(nil) // the membership without x, which is no longer the newest
		b.finish(nil)
		b.want("built", "a", "x")
		if n := b.cc.count(b.cc.opened, "x"); n != 1 {
			t.Errorf("x has %d SubConns, want the new one", n)
		}
		b.policy.Close()
		if n := b.cc.count(b.cc.opened, "x") + b.cc.count(b.cc.opened, "a"); n != 0 {
			t.Errorf("%d SubConns are left", n)
		}
	})
}

// TestP08CloseWhileRetiring: endpoints that are kept end with the policy.
func TestP08CloseWhileRetiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{RetireTimeout: time.Hour}, "a", "x")
		b.finish(nil)
		b.connect()
		b.resolve("a")
		b.policy.Close()
		if n := b.cc.count(b.cc.opened, "x") + b.cc.count(b.cc.opened, "a"); n != 0 {
			t.Errorf("%d SubConns are left", n)
		}
	})
}
