package balancer

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var watched = Connections{Unresponsive: Unresponsive{Deadlines: 3, Window: 10 * time.Second}}

// silent sends RPCs each second that run into their deadline, until others than
// that connection get them. It says how long that took.
func (w *poolWorld) silent(sc *moodySubConn, most time.Duration) time.Duration {
	w.t.Helper()
	began := time.Now()
	for time.Since(began) <= most {
		r := w.begin()
		if r.on != sc {
			r.end()
			synctest.Wait()
			return time.Since(began)
		}
		wait(time.Second)
		r.timeOut()
		synctest.Wait()
	}
	return most
}

// TestG38Unresponsive: a server that stops answering gets a fresh connection once
// the window is over, RPCs on the old one go on until they end, the next one comes
// after twice the time, and a response makes the window what it was.
func TestG38Unresponsive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, watched, "a")
		stream := w.begin()
		for range 10 { // it answers for ten seconds
			wait(time.Second)
			w.connected()
		}
		old := stream.on
		if d := w.silent(old, time.Hour); d < 10*time.Second || d > 12*time.Second {
			t.Errorf("after %v there was a fresh connection, want 10 s", d)
		}
		w.wantStates("a", ConnectionStates{Ready: 1, Draining: 1})
		if old.shut.Load() {
			t.Error("the connection with a stream was closed")
		}
		w.wantCounts(ConnectionCounts{Opened: 2, Unresponsive: 1, Closed: map[string]uint64{}})
		stream.end()
		synctest.Wait()
		if !old.shut.Load() {
			t.Error("the old connection is empty and still there")
		}
		// The RPC that found the fresh one was answered, which ended the doubling.
		if d := w.silent(w.cc.open("a")[0], time.Hour); d < 10*time.Second || d > 12*time.Second {
			t.Errorf("after an answer the window is %v, want 10 s", d)
		}
		w.nothingLeft("a")
	})
}

// TestG38WindowDoubles: without a response each window is twice the one before, up
// to 16 times the first.
func TestG38WindowDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, watched, "a")
		w.begin().endWith(lb.DoneInfo{})
		var took []int
		for range 7 {
			sc := w.cc.open("a")[0]
			began := time.Now()
			for len(w.cc.open("a")) == 1 && w.cc.open("a")[0] == sc {
				r := w.begin()
				wait(time.Second)
				r.timeOut()
				synctest.Wait()
			}
			took = append(took, int(time.Since(began).Seconds()))
		}
		if want := []int{10, 20, 40, 80, 160, 160, 160}; !slices.Equal(took, want) {
			t.Errorf("windows of %v seconds, want %v", took, want)
		}
		w.nothingLeft("a")
	})
}

// TestG38WhatCounts: only what shows that nobody answers is held against a
// connection.
func TestG38WhatCounts(t *testing.T) {
	ended := func(code codes.Code, bytes bool) lb.DoneInfo {
		return lb.DoneInfo{BytesSent: true, BytesReceived: bytes, Err: status.Error(code, "")}
	}
	for name, c := range map[string]struct {
		settings Unresponsive
		end      lb.DoneInfo
		bad      bool
	}{
		"deadline":             {watched.Unresponsive, ended(codes.DeadlineExceeded, false), true},
		"deadline by server":   {watched.Unresponsive, ended(codes.DeadlineExceeded, true), false},
		"cancelled":            {watched.Unresponsive, ended(codes.Canceled, false), false},
		"unavailable":          {watched.Unresponsive, ended(codes.Unavailable, false), false},
		"not sent":             {watched.Unresponsive, lb.DoneInfo{}, false},
		"off":                  {Unresponsive{}, ended(codes.DeadlineExceeded, false), false},
		"too few of them":      {Unresponsive{Deadlines: 1000}, ended(codes.DeadlineExceeded, false), false},
		"not for long enough":  {Unresponsive{Deadlines: 3, Window: 10 * time.Minute}, ended(codes.DeadlineExceeded, false), false},
		"with other settings":  {Unresponsive{Deadlines: 1, Window: time.Minute}, ended(codes.DeadlineExceeded, false), true},
		"deadline and answers": {watched.Unresponsive, ended(codes.OK, true), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newPoolWorld(t, Connections{Max: 2, Unresponsive: c.settings}, "a")
				w.begin().endWith(lb.DoneInfo{})
				sc := w.cc.open("a")[0]
				for range 120 {
					r := w.begin()
					wait(time.Second)
					r.endWith(c.end)
				}
				synctest.Wait()
				if bad := sc.shut.Load(); bad != c.bad {
					t.Errorf("replaced: %v, want %v", bad, c.bad)
				}
				w.nothingLeft("a")
			})
		})
	}
}

// TestG38BeganBefore: an RPC that began before the last response says nothing.
func TestG38BeganBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, watched, "a")
		old := w.beginMany(50)
		wait(time.Second)
		w.connected() // a response
		wait(time.Minute)
		for _, r := range old {
			r.timeOut()
		}
		synctest.Wait()
		if n := w.counts().Unresponsive; n != 0 {
			t.Errorf("%d connections were held for dead", n)
		}
		w.nothingLeft("a")
	})
}

// TestG38FreshOneFails: what cannot be replaced goes on, and gRPC's backoff holds.
func TestG38FreshOneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, watched, "a", "b")
		w.begin().endWith(lb.DoneInfo{})
		wait(time.Second)
		w.cc.answer("a", refuses)
		w.cc.answer("b", refuses)
		w.cc.dialledAt()
		for range 60 {
			r := w.begin()
			wait(time.Second)
			r.timeOut()
		}
		synctest.Wait()
		for _, addr := range []string{"a", "b"} {
			w.wantStates(addr, ConnectionStates{Ready: 1, Failing: 1})
		}
		if n := len(w.cc.dialledAt()); n > 2*60 {
			t.Errorf("%d attempts in a minute", n)
		}
		w.cc.answer("a", accepts)
		w.cc.answer("b", accepts)
		wait(2 * time.Second)
		for _, addr := range []string{"a", "b"} {
			w.wantStates(addr, ConnectionStates{Ready: 1})
		}
		w.wantCounts(ConnectionCounts{Opened: 4, Unresponsive: 2, Closed: map[string]uint64{"unresponsive": 2}})
		w.nothingLeft("a", "b")
	})
}

// TestG42MaxAge: connections are replaced one at a time, at their age give or take
// 10%, the new one READY before the old one drains; RPCs go on where they are.
func TestG42MaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addrs := []string{"a", "b", "c"}
		w := newPoolWorld(t, Connections{Min: 2, MaxAge: time.Hour, MinReady: 3}, addrs...)
		streams := w.beginMany(6)
		first := map[string][]*moodySubConn{}
		for _, a := range addrs {
			first[a] = w.cc.open(a)
		}
		for range 53 {
			wait(time.Minute)
		}
		if n := w.counts().Opened; n != 6 {
			t.Errorf("%d connections were made before their age, want 6", n)
		}
		for range 4 * 66 { // every 15 s until 119 min
			wait(15 * time.Second)
			for _, a := range addrs {
				if s := w.states(a); s.Ready != 2 {
					t.Fatalf("%s has %+v, want 2 that are READY at any time", a, s)
				}
			}
			w.connected()
		}
		draining := 0
		for _, a := range addrs {
			for _, sc := range first[a] {
				if gone := sc.shut.Load(); gone != (sc.active == 0) {
					t.Errorf("a connection of %s that is too old has %d RPCs and is closed: %v", a, sc.active, gone)
				}
			}
			draining += w.states(a).DrainingStreams
		}
		if draining != 6 {
			t.Errorf("%d of the 6 streams are on what drains", draining)
		}
		endAll(streams)
		if got := w.counts(); got.Closed["max_age"] != got.Opened-6 || got.Opened < 12 {
			t.Errorf("%+v, want 6 or more closed for their age, and 6 left", got)
		}
		w.nothingLeft(addrs...)
	})
}

// TestG42HeirFails: what is too old goes on until there is another one.
func TestG42HeirFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{MaxAge: time.Hour, MinReady: 1}, "a")
		old := w.cc.open("a")
		if len(old) != 1 {
			t.Fatalf("MinReady made %d connections", len(old))
		}
		w.cc.answer("a", refuses)
		wait(3 * time.Hour)
		w.wantStates("a", ConnectionStates{Ready: 1, Failing: 1})
		if r := w.begin(); r.on != old[0] {
			t.Error("the RPC is not on the old connection")
		} else {
			r.end()
		}
		w.cc.answer("a", accepts)
		wait(2 * time.Second)
		w.wantStates("a", ConnectionStates{Ready: 1})
		if !old[0].shut.Load() {
			t.Error("the old connection is still there")
		}
		w.nothingLeft("a")
	})
}

// TestG42HeirIsLost: a server that drops each heir before it is READY is dialled once
// a second, and the old connection goes on.
func TestG42HeirIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{MaxAge: time.Hour, Unresponsive: watched.Unresponsive, MinReady: 1}, "a")
		old := w.cc.open("a")[0]
		w.cc.answer("a", drops)
		wait(67 * time.Minute)
		w.cc.dialledAt()
		wait(time.Minute)
		if n := len(w.cc.dialledAt()); n < 50 || n > 62 {
			t.Errorf("%d attempts in a minute", n)
		}
		if old.shut.Load() {
			t.Error("the old connection was closed")
		}
		w.cc.answer("a", accepts)
		wait(2 * time.Second)
		w.wantStates("a", ConnectionStates{Ready: 1})
		if !old.shut.Load() {
			t.Error("the old connection is still there")
		}
		w.nothingLeft("a")
	})
}
