package balancer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// TestSP05AnyOrderOfEvents: servers, settings, addresses, health and RPCs change in
// random orders. At any time the policy comes to rest, no RPC is sent to a
// connection that is closed, and what picks see is what the connections are; at the
// end every count is back and every connection is closed.
func TestSP05AnyOrderOfEvents(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { anyOrder(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func anyOrder(t *testing.T, rng *rand.Rand) {
	addrs := []string{"a", "b"}
	anySettings := func() Connections {
		c := Connections{
			Min: rng.IntN(4), Streams: 1 + rng.IntN(6), MinReady: rng.IntN(3),
			ScaleDownAfter: time.Duration(1 + rng.Int64N(int64(20*time.Second))),
			MaxAge:         time.Duration(rng.IntN(2)) * (time.Second + time.Duration(rng.Int64N(int64(20*time.Second)))),
			Unresponsive:   Unresponsive{Deadlines: rng.IntN(3), Window: time.Second},
		}
		if rng.IntN(3) > 0 {
			c.Max = c.Min + 1 + rng.IntN(4)
		}
		return c
	}
	w := newPoolWorld(t, anySettings(), addrs...)
	everyone := everyPolicy()[:6] // ours
	var all []rpc
	direct := true // the policy chooses among those that are READY
	begin := func() {
		seen := w.cc.updates.Load()
		if res, err := w.policy.picker.Pick(typedKey(fmt.Sprint(rng.IntN(9)), "")); err == nil {
			sc := res.SubConn.(*moodySubConn)
			if sc.shut.Load() { // just now: gRPC picks anew when it is told to
				res.Done(lb.DoneInfo{})
				if synctest.Wait(); w.cc.updates.Load() == seen {
					t.Error("a pick chose a connection that is closed, and gRPC is told nothing")
				}
				return
			}
			sc.active++
			all = append(all, rpc{sc, res.Done})
		} else if errors.Is(err, lb.ErrNoSubConnAvailable) && direct && w.usable() {
			time.Sleep(growPatience + 10*time.Millisecond)
			if synctest.Wait(); w.cc.updates.Load() == seen {
				t.Error("an RPC waits, and nobody wakes it")
			}
		}
	}
	for range 150 {
		switch rng.IntN(13) {
		case 0, 1, 2:
			for range rng.IntN(12) {
				begin()
			}
		case 3, 4:
			for range rng.IntN(12) {
				if len(all) == 0 {
					break
				}
				i := rng.IntN(len(all))
				r := all[i]
				all = append(all[:i], all[i+1:]...)
				switch rng.IntN(4) {
				case 0:
					r.timeOut()
				case 1:
					r.endWith(lb.DoneInfo{})
				default:
					r.end()
				}
			}
		case 5:
			w.cc.answer(addrs[rng.IntN(2)], answer(rng.IntN(3)))
		case 6:
			for _, s := range w.cc.open(addrs[rng.IntN(2)]) {
				if rng.IntN(2) == 0 {
					s.tell(connectivity.Idle)
				}
			}
		case 7:
			if err := w.router.SetConnections(anySettings()); err != nil {
				t.Fatal(err)
			}
		case 8:
			w.resolve(addrs[rng.IntN(2):]...)
		case 9:
			w.router.SetEnabled("a", rng.IntN(2) == 0, "")
		case 10:
			p := everyone[rng.IntN(len(everyone))]
			direct = !p.Built()
			if _, err := w.router.Selector(DefaultSelector).Publish(p, FromCode); err != nil {
				t.Fatal(err)
			}
		case 11:
			time.Sleep(time.Duration(rng.Int64N(int64(5 * time.Second))))
		case 12:
			w.move("a", fmt.Sprint("a", rng.IntN(2)))
		}
		if rng.IntN(2) == 0 {
			synctest.Wait()
			w.sound()
		}
	}
	w.router.SetEnabled("a", true, "")
	for _, a := range []string{"a", "b", "a0", "a1"} {
		w.cc.answer(a, accepts)
		for _, s := range w.cc.open(a) {
			s.tell(connectivity.Idle) // what is on hold is on its way no more
		}
	}
	w.resolve("a", "b")
	w.set(Connections{Min: 2})
	wait(5 * time.Second)
	for range 20 {
		w.connected()
	}
	endAll(all)
	wait(5 * time.Second)
	for _, a := range []string{"a", "b"} {
		if s := w.states(a); s.Ready != 2 && s.Ready != 0 || s.Draining+s.Connecting+s.Failing > 0 {
			t.Errorf("at the end %s has %+v", a, s)
		}
	}
	w.nothingLeft("a", "b", "a0", "a1")
}

// sound fails unless what is published of each endpoint is what its connections are,
// and nothing is due that has passed.
func (w *poolWorld) sound() {
	w.t.Helper()
	w.policy.mu.Lock() // the policy takes it before it begins with anything
	defer w.policy.mu.Unlock()
	for _, ep := range w.policy.picker.cur.Load().view.endpoints {
		ep.pool.mu.Lock()
		if now := ep.cur.Load().connectivity; now != ep.counted {
			w.t.Errorf("%s is %v and counted as %v", ep.name, now, ep.counted)
		}
		inUse := 0
		for _, c := range ep.pool.conns {
			if c.closed || c.leaving == 0 && c.emptying.Load() {
				w.t.Errorf("%s has a connection that is closed, or said to be leaving", ep.name)
			}
			if c.heir != nil && c.heir.replaces != c || c.replaces != nil && c.replaces.heir != c {
				w.t.Errorf("%s has an heir of nobody", ep.name)
			}
			if c.serves() {
				inUse++
			}
		}
		if len(ep.pool.conns) > 0 && inUse == 0 {
			w.t.Errorf("none of the %d connections of %s is in use", len(ep.pool.conns), ep.name)
		}
		if inUse > max(1, ep.pool.limits.Max) {
			w.t.Errorf("%s has %d connections, at most %d are allowed", ep.name, inUse, ep.pool.limits.Max)
		}
		if ep.pool.asked.Load() || len(ep.pool.conns) > 0 && ep.pool.wishes.Load() != 0 {
			w.t.Errorf("a wish of %s is not heard", ep.name)
		}
		ep.pool.mu.Unlock()
	}
}

// usable says whether an endpoint is READY and not disabled.
func (w *poolWorld) usable() bool {
	return slices.ContainsFunc(w.router.Status().Endpoints, func(e EndpointStatus) bool {
		return e.State == connectivity.Ready && e.Disabled == nil
	})
}
