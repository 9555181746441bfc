package balancer

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// TestEC05SurplusThatFails: a connection that cannot be made beside a READY one is
// tried again with gRPC's backoff and no sooner, no other one is tried meanwhile, and
// the endpoint stays READY.
func TestEC05SurplusThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Max: 4, Streams: 10}, "a")
		all := w.beginMany(10)
		w.cc.answer("a", refuses)
		w.cc.dialledAt()
		for range 60 {
			all = append(all, w.beginMany(3)...)
			if s := w.router.Status(); s.State != connectivity.Ready || s.Endpoints[0].State != connectivity.Ready {
				t.Fatalf("the channel is %v, the endpoint %v", s.State, s.Endpoints[0].State)
			}
			wait(time.Second)
		}
		w.wantStates("a", ConnectionStates{Ready: 1, Failing: 1})
		if n := len(w.cc.dialledAt()); n < 50 || n > 62 {
			t.Errorf("%d attempts in a minute, want one for each backoff of a second", n)
		}
		w.cc.answer("a", accepts)
		wait(2 * time.Second)
		w.wantStates("a", ConnectionStates{Ready: 2})
		endAll(all)
		w.nothingLeft("a")
	})
}

// TestEC05OneIsLost: what is lost beside others is replaced if Min wants it, and the
// endpoint stays READY; when all are lost one is left, IDLE as ever.
func TestEC05OneIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Min: 3}, "a")
		w.connected()
		w.wantStates("a", ConnectionStates{Ready: 3})
		wait(time.Minute)
		lost := w.cc.open("a")[0]
		lost.tell(connectivity.Idle)
		synctest.Wait()
		w.wantStates("a", ConnectionStates{Ready: 3})
		if open := w.cc.open("a"); len(open) != 3 || slices.Contains(open, lost) {
			t.Errorf("%d are open", len(open))
		}
		w.cc.answer("a", holds)
		for _, s := range w.cc.open("a") {
			s.tell(connectivity.Idle)
		}
		synctest.Wait()
		if s := w.states("a"); s.Ready+s.Failing+s.Draining != 0 || s.Idle+s.Connecting != 1 {
			t.Errorf("all are lost, and there are %+v", s)
		}
		w.cc.answer("a", accepts)
		for _, s := range w.cc.open("a") {
			s.tell(connectivity.Ready)
		}
		synctest.Wait()
		w.connected()
		w.wantStates("a", ConnectionStates{Ready: 3})
		w.wantCounts(ConnectionCounts{Opened: w.counts().Opened, Closed: map[string]uint64{"lost": 4}})
		w.nothingLeft("a")
	})
}

// TestEC05ServerHangsUp: a server that hangs up on each connection but the first is
// dialled once a second.
func TestEC05ServerHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Min: 2}, "a")
		w.cc.answer("a", accepts)
		w.connected()
		wait(time.Minute)
		w.cc.answer("a", hangsUp)
		w.cc.dialledAt()
		w.cc.open("a")[1].tell(connectivity.Idle)
		wait(time.Minute)
		if n := len(w.cc.dialledAt()); n < 50 || n > 62 {
			t.Errorf("%d attempts in a minute", n)
		}
		w.cc.answer("a", accepts)
		wait(2 * time.Second)
		w.wantStates("a", ConnectionStates{Ready: 2})
		w.nothingLeft("a")
	})
}

// TestEC07RemovedWithManyConnections: an endpoint that leaves takes all of its
// connections with it, those on their way, leaving and to come among them.
func TestEC07RemovedWithManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Max: 4, Streams: 10, MaxAge: time.Hour, ScaleDownAfter: time.Minute}, "a")
		all := w.beginMany(35)
		w.cc.answer("a", holds)
		w.resolve("a", "b")
		wait(time.Hour + 10*time.Minute) // an heir is on its way
		if s := w.states("a"); s.Ready != 4 || s.Connecting != 1 {
			t.Fatalf("%+v, want 4 and an heir", s)
		}
		ep := w.policy.picker.cur.Load().view.byName["a"]
		w.cc.dialledAt()
		w.resolve("b")
		if n := len(w.cc.open("a")); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		ep.wish(w.policy, grow)
		w.policy.requestConnection(ep)
		endAll(all)
		wait(3 * time.Hour)
		if n := len(w.cc.dialledAt()); n > 3 { // b and its heirs
			t.Errorf("%d attempts after the removal", n)
		}
		if n := w.cc.count(w.cc.opened, "a"); n != 0 || ep.member.Pending() != 0 {
			t.Errorf("%d connections, %d RPCs", n, ep.member.Pending())
		}
		if n := w.counts().Closed["removed"]; n != 4 {
			t.Errorf("%d were counted as removed, want 4", n)
		}
		w.nothingLeft("a", "b")
	})
}

// TestEC07RetiringDoesNotGrow: an endpoint that older data leads to keeps its
// connections and gets no more of them; RPCs above the mark do not wait.
func TestEC07RetiringDoesNotGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{RetireTimeout: time.Hour, Connections: Connections{Max: 4, Streams: 2}}, "a", "x")
		b.finish(nil)
		b.connect()
		b.resolve("a")
		var dones []func(lb.DoneInfo)
		for range 40 {
			res, err := b.policy.picker.Pick(selectorInfo("built"))
			for err != nil { // a grows meanwhile
				synctest.Wait()
				res, err = b.policy.picker.Pick(selectorInfo("built"))
			}
			dones = append(dones, res.Done)
			synctest.Wait()
		}
		if n := b.cc.count(b.cc.opened, "x"); n != 1 {
			t.Errorf("the endpoint that has left has %d connections", n)
		}
		if n := b.cc.count(b.cc.opened, "a"); n != 4 {
			t.Errorf("the one that stayed has %d connections", n)
		}
		last := b.policy.retiring[0].endpoint
		for range 10 {
			res, err := last.cur.Load().picker.Pick(lb.PickInfo{})
			if err != nil {
				t.Fatalf("a pick waits for a connection that is not to come: %v", err)
			}
			res.SubConn.(*readyConn).conn.release()
		}
		for _, d := range dones {
			d(lb.DoneInfo{})
		}
		b.finish(nil)
		if n := b.cc.count(b.cc.opened, "x"); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// TestCloseWhileScaling: connections on their way and leaving end with the policy.
func TestCloseWhileScaling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Max: 4, Streams: 10, ScaleDownAfter: time.Minute, MaxAge: time.Hour}, "a", "b")
		all := w.beginMany(60)
		endAll(all[:50])
		wait(2 * time.Minute)
		w.cc.answer("a", holds)
		w.cc.answer("b", holds)
		for range 40 { // some of them queue
			if res, err := w.policy.picker.Pick(selectorInfo("")); err == nil {
				defer res.Done(lb.DoneInfo{})
			}
		}
		w.policy.Close()
		if n := len(w.cc.open("a")) + len(w.cc.open("b")); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		endAll(all[50:]) // after the end
		wait(5 * time.Hour)
		if n := len(w.cc.open("a")) + len(w.cc.open("b")); n != 0 {
			t.Errorf("%d connections were made after Close", n)
		}
	})
}

// TestEC05LostTooSoon: while another connection may not be made yet, RPCs do not wait
// for it.
func TestEC05LostTooSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Max: 2, Streams: 2}, "a")
		all := w.beginMany(3)
		w.cc.open("a")[1].tell(connectivity.Idle)
		synctest.Wait()
		w.wantStates("a", ConnectionStates{Ready: 1})
		began := time.Now()
		all = append(all, w.beginMany(5)...)
		if d := time.Since(began); d != 0 {
			t.Errorf("RPCs waited %v", d)
		}
		w.wantStates("a", ConnectionStates{Ready: 1})
		wait(2 * time.Second)
		all = append(all, w.begin())
		w.wantStates("a", ConnectionStates{Ready: 2})
		endAll(all)
		w.nothingLeft("a")
	})
}

// TestEC05PickOfAClosedOne: gRPC holds an RPC whose connection was closed between
// pick and send until the next picker update, so there is one.
func TestEC05PickOfAClosedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Min: 3}, "a")
		w.connected()
		before := w.cc.updates.Load()
		w.set(Connections{})
		if n := len(w.cc.open("a")); n != 1 || w.cc.updates.Load() == before {
			t.Errorf("%d connections are left, and gRPC was told %d times", n, w.cc.updates.Load()-before)
		}
		w.nothingLeft("a")
	})
}

// TestEC05MovedWhileOneDrains: what drains is not connected to the new address.
func TestEC05MovedWhileOneDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Min: 3}, "a")
		w.move("h", "a")
		w.connected()
		all := w.beginMany(6)
		w.set(Connections{})
		w.wantStates("h", ConnectionStates{Ready: 1, Draining: 2})
		w.cc.dialledAt()
		w.move("h", "b")
		if n := len(w.cc.dialledAt()); n != 1 {
			t.Errorf("%d connections were dialled, want 1", n)
		}
		w.wantStates("h", ConnectionStates{Ready: 1})
		endAll(all)
		w.nothingLeft("a", "b")
	})
}
