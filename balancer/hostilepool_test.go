package balancer

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// TestG33LostWhileSampling: an endpoint that had scaled up and has lost everything is
// not looked at again and again: time to scale down comes only with a connection.
func TestG33LostWhileSampling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Max: 4, Streams: 10, ScaleDownAfter: time.Minute}, "a")
		all := w.beginMany(35)
		w.cc.answer("a", refuses)
		for _, s := range w.cc.open("a") {
			s.tell(connectivity.Idle)
		}
		synctest.Wait()
		for _, r := range all {
			r.endWith(lb.DoneInfo{})
		}
		w.policy.mu.Lock() // the policy takes it before it begins with anything
		at := w.policy.picker.cur.Load().view.endpoints[0].pool.nextSample
		w.policy.mu.Unlock()
		if !at.IsZero() {
			t.Fatalf("with nothing to scale down a sample is due at %v", at) // and then for ever
		}
		looked := w.cc.updates.Load()
		wait(time.Hour)
		if n := w.cc.updates.Load() - looked; n > 10 {
			t.Errorf("gRPC was told %d times of nothing", n)
		}
		w.cc.answer("a", accepts)
		wait(2 * time.Second) // the backoff
		w.connected()
		w.wantStates("a", ConnectionStates{Ready: 1})
		w.nothingLeft("a")
	})
}

// TestEC07LeavesWhileGrowing: an endpoint that leaves while several connections are
// on their way ends all of these: nothing is dialled any more.
func TestEC07LeavesWhileGrowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{RetireTimeout: time.Hour, Connections: Connections{Max: 4, Streams: 2}}, "a", "x")
		b.finish(nil)
		b.connect()
		ep := b.policy.picker.cur.Load().view.byName["x"]
		ep.pool.mu.Lock()
		for range 4 {
			c := newChildConn(b.policy, ep)
			c.child = pickFirst.Build(c, b.policy.opts)
			ep.pool.add(c)
		}
		ep.publish()
		ep.pool.mu.Unlock()
		b.resolve("a")
		if n := len(ep.pool.conns); n != 1 {
			t.Errorf("%d connections are kept, want the one that is READY", n)
		}
		b.finish(nil)
	})
}

// TestG42AgeAfterAMove: a connection to another address is a new one: it is as old,
// and as silent, as itself.
func TestG42AgeAfterAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{MaxAge: time.Hour, Unresponsive: watched.Unresponsive}, "a")
		w.move("h", "a")
		w.connected()
		wait(50 * time.Minute)
		w.move("h", "b")
		w.wantStates("h", ConnectionStates{Ready: 1})
		w.wantCounts(ConnectionCounts{Opened: 2, Closed: map[string]uint64{"removed": 1}})
		wait(50 * time.Minute)
		w.wantCounts(ConnectionCounts{Opened: 2, Closed: map[string]uint64{"removed": 1}})
		wait(20 * time.Minute)
		w.wantCounts(ConnectionCounts{Opened: 3, Closed: map[string]uint64{"removed": 1, "max_age": 1}})
		w.nothingLeft("a", "b")
	})
}

// TestG38AnswersAfterAll: a silent connection whose heirs are lost is replaced no more
// once it has answered, and counts once.
func TestG38AnswersAfterAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, watched, "a")
		w.begin().endWith(lb.DoneInfo{})
		old := w.cc.open("a")[0]
		w.cc.answer("a", drops)
		for range 20 {
			r := w.begin()
			wait(time.Second)
			r.timeOut()
		}
		synctest.Wait()
		if n := w.counts().Unresponsive; n != 1 {
			t.Errorf("one connection is silent, %d were counted", n)
		}
		w.connected() // it answers
		wait(time.Minute)
		w.cc.dialledAt()
		w.cc.answer("a", accepts)
		wait(time.Minute)
		if n := len(w.cc.dialledAt()); n != 0 || old.shut.Load() {
			t.Errorf("it answers, and was replaced: %d attempts", n)
		}
		w.nothingLeft("a")
	})
}

// TestS18RefusedWhileFull: where admission refuses, an RPC goes elsewhere at once also
// if all connections there are full, and none is opened for it.
func TestS18RefusedWhileFull(t *testing.T) {
	for _, p := range everyPolicy()[:6] {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDoors(t)
				w := newPoolWorldOf(t, RouterOptions{Connections: Connections{Max: 4, Streams: 2}, Admission: d}, "a", "b")
				if _, err := w.router.Selector(DefaultSelector).Publish(p, FromCode); err != nil {
					t.Fatal(err)
				}
				n := 0
				begin := func() rpc {
					n++
					info := typedKey(fmt.Sprint("key ", n), "")
					info.FullMethodName = "/test/Method"
					return w.beginWith(info)
				}
				for range 20 { // connect both
					endAll([]rpc{begin()})
				}
				var all []rpc
				for len(w.load("a")) == 0 || w.load("a")[0] < 2 {
					all = append(all, begin())
				}
				synctest.Wait()
				a := d.of("a")[0]
				a.shut.Store(true)
				a.after.Store(int64(time.Minute))
				opened := len(w.load("a"))
				began := time.Now()
				for range 10 {
					if r := begin(); r.on.addr != "b" {
						t.Error("an RPC was sent where admission refuses it")
					} else {
						r.end()
					}
				}
				if n := len(w.load("a")); n != opened || time.Since(began) != 0 {
					t.Errorf("%d connections where there were %d, after %v", n, opened, time.Since(began))
				}
				endAll(all)
				w.nothingLeft("a", "b")
			})
		})
	}
}
