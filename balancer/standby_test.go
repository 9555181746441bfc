package balancer

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/connectivity"
)

// ready is how many endpoints are READY.
func (w *poolWorld) ready() int {
	n := 0
	for _, e := range w.router.Status().Endpoints {
		if e.State == connectivity.Ready {
			n++
		}
	}
	return n
}

// TestG34MinReady: so many endpoints are connected without an RPC, the first ones;
// what is lost is connected again, and another takes the place of one that fails.
func TestG34MinReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{MinReady: 2}, "a", "b", "c", "d")
		for addr, want := range map[string]int{"a": 1, "b": 1, "c": 0, "d": 0} {
			if n := len(w.cc.open(addr)); n != want {
				t.Errorf("%s has %d connections without an RPC, want %d", addr, n, want)
			}
		}
		if s := w.router.Status(); s.State != connectivity.Ready {
			t.Errorf("the channel is %v", s.State)
		}
		wait(time.Minute)
		w.cc.open("a")[0].tell(connectivity.Idle)
		synctest.Wait()
		w.wantStates("a", ConnectionStates{Ready: 1})
		wait(time.Minute)
		w.cc.answer("a", refuses)
		w.cc.open("a")[0].tell(connectivity.Idle)
		wait(time.Second)
		w.wantStates("b", ConnectionStates{Ready: 1})
		w.wantStates("c", ConnectionStates{Ready: 1})
		if n := len(w.cc.open("d")); n != 0 {
			t.Error("the fourth endpoint was connected")
		}
		// What operators and the resolver take away is made up for.
		w.router.SetEnabled("c", false, "a test")
		synctest.Wait()
		w.wantStates("d", ConnectionStates{Ready: 1})
		w.resolve("d", "e")
		w.wantStates("e", ConnectionStates{Ready: 1})
		w.nothingLeft("a", "b", "c", "d", "e")
	})
}

// TestG34AfterIdle: the settings live in the Router, so a policy that gRPC makes
// anew when the channel leaves idle mode has them, changed ones too.
func TestG34AfterIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{}, "a", "b")
		if w.ready() != 0 {
			t.Error("connected without an RPC by default")
		}
		w.set(Connections{MinReady: 1, Min: 2})
		w.wantStates("a", ConnectionStates{Ready: 2})
		w.policy.Close()
		w.set(Connections{MinReady: 2})
		w.wakeUp("a", "b")
		w.wantStates("a", ConnectionStates{Ready: 1})
		w.wantStates("b", ConnectionStates{Ready: 1})
		w.nothingLeft("a", "b")
	})
}

// TestG34ServerHangsUp: endpoints whose servers hang up at once are dialled once a
// second each.
func TestG34ServerHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{}, "a", "b")
		w.cc.answer("a", hangsUp)
		w.cc.answer("b", hangsUp)
		w.set(Connections{MinReady: 1})
		wait(time.Minute)
		if n := len(w.cc.dialledAt()); n < 50 || n > 2*62 {
			t.Errorf("%d attempts in a minute", n)
		}
		w.cc.answer("b", accepts)
		wait(2 * time.Second)
		w.wantStates("b", ConnectionStates{Ready: 1})
		w.nothingLeft("a", "b")
	})
}

// TestG34MoreThanThereAre: it asks for all of them then.
func TestG34MoreThanThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{MinReady: 10, Min: 2}, "a", "b")
		w.wantStates("a", ConnectionStates{Ready: 2})
		w.wantStates("b", ConnectionStates{Ready: 2})
		w.nothingLeft("a", "b")
	})
}

// TestG34Revive: without any MinReady one endpoint is kept connected from when that
// is asked for until it is asked for no more, over idle times too, and none where one
// is connected.
func TestG34Revive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{}, "a", "b")
		w.policy.Close()
		w.router.Revive(true)
		w.wakeUp("a", "b")
		w.wantStates("a", ConnectionStates{Ready: 1})
		w.router.Revive(true)
		wait(time.Minute)
		if n := len(w.cc.open("b")); n != 0 {
			t.Errorf("beside a connected endpoint %d connections were made", n)
		}
		w.cc.open("a")[0].tell(connectivity.Idle)
		wait(time.Minute)
		if n := w.ready(); n != 1 {
			t.Errorf("%d endpoints are connected after the loss, want one", n)
		}
		w.router.Revive(false)
		w.cc.open("a")[0].tell(connectivity.Idle)
		wait(time.Minute)
		if n := w.ready(); n != 0 {
			t.Errorf("%d endpoints are connected, and nobody asks for it", n)
		}
		w.router.Revive(true)
		wait(time.Second)
		if n := w.ready(); n != 1 {
			t.Errorf("%d endpoints are connected, want one", n)
		}
		w.nothingLeft("a", "b")
	})
}
