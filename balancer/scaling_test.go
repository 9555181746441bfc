package balancer

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/selection"
)

// TestG30ConnectionsByLoad: with at most 4 connections of 10 RPCs, 35 RPCs for each
// endpoint make 4, and none has more than 10.
func TestG30ConnectionsByLoad(t *testing.T) {
	for name, addrs := range map[string][]string{"one endpoint": {"a"}, "three endpoints": {"a", "b", "c"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newPoolWorld(t, Connections{Max: 4, Streams: 10}, addrs...)
				w.connected()
				all := w.beginMany(35 * len(addrs))
				for _, a := range addrs {
					load := w.load(a)
					if len(load) != 4 || slices.Max(load) > 10 {
						t.Errorf("%s has RPCs %v, want 4 connections and at most 10 each", a, load)
					}
					if s := w.states(a); s.Ready != 4 || s.Streams != 35 && len(addrs) == 1 {
						t.Errorf("status of %s: %+v", a, s)
					}
				}
				// The mark is no limit: all 4 are full, and RPCs go on.
				more := w.beginMany(20 * len(addrs))
				for _, a := range addrs {
					if n := len(w.load(a)); n != 4 {
						t.Errorf("%s has %d connections, want Max, 4", a, n)
					}
				}
				endAll(append(all, more...))
				if n := w.counts().ScaledUp; n != uint64(3*len(addrs)) {
					t.Errorf("scaled up %d times", n)
				}
				w.nothingLeft(addrs...)
			})
		})
	}
}

// TestG31TheNextStreamOpens: by default 100 RPCs fill a connection. The 101st opens
// the second and is the first on it.
func TestG31TheNextStreamOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Max: 2}, "a")
		all := w.beginMany(100)
		if load := w.load("a"); !slices.Equal(load, []int{100}) {
			t.Fatalf("100 RPCs are on %v", load)
		}
		all = append(all, w.begin())
		if load := w.load("a"); !slices.Equal(load, []int{100, 1}) {
			t.Errorf("101 RPCs are on %v", load)
		}
		endAll(all)
		w.nothingLeft("a")
	})
}

// TestG31OneAtATime: while a connection is on its way no other one is opened, and
// RPCs wait for it for a second, then use those that are full.
func TestG31OneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Max: 4, Streams: 10}, "a")
		all := w.beginMany(10)
		w.cc.answer("a", holds)
		began := time.Now()
		if r := w.begin(); r.on.active != 11 {
			t.Error("the RPC is not on the full connection")
		} else {
			all = append(all, r)
		}
		if d := time.Since(began); d < growPatience || d > 2*growPatience {
			t.Errorf("the RPC waited %v, want %v", d, growPatience)
		}
		began = time.Now()
		all = append(all, w.beginMany(50)...)
		if d := time.Since(began); d != 0 {
			t.Errorf("later RPCs waited %v", d)
		}
		w.wantStates("a", ConnectionStates{Ready: 1, Connecting: 1})
		w.cc.open("a")[1].tell(connectivity.Ready)
		synctest.Wait()
		if r := w.begin(); r.on != w.cc.open("a")[1] {
			t.Error("the RPC is not on the new connection")
		} else {
			all = append(all, r)
		}
		endAll(all)
		w.nothingLeft("a")
	})
}

// TestG33ScaleDownAndUp: the load goes from 200 to 20 and back, the connections from
// 4 to 1 and back, and no RPC fails.
func TestG33ScaleDownAndUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Max: 4, Streams: 50, ScaleDownAfter: time.Minute}, "a")
		w.connected()
		all := w.beginMany(200)
		w.wantStates("a", ConnectionStates{Ready: 4})
		wait(time.Hour)
		w.wantStates("a", ConnectionStates{Ready: 4})
		endAll(all[:180])
		all = all[180:]
		// Short peaks hold it up as much as a load that stays.
		for range 4 {
			wait(50 * time.Second)
			endAll(w.beginMany(140))
			w.wantStates("a", ConnectionStates{Ready: 4})
		}
		wait(30 * time.Second)
		endAll(all)
		all = w.beginMany(20)
		wait(2 * time.Minute)
		if s := w.states("a"); s.Ready != 1 || s.Draining == 0 || s.DrainingStreams+s.Streams != 20 {
			t.Errorf("20 RPCs: %+v, want one connection and others that drain", s)
		}
		endAll(all)
		w.wantStates("a", ConnectionStates{Ready: 1})
		if n := len(w.cc.open("a")); n != 1 {
			t.Errorf("%d connections are open, want 1", n)
		}
		all = w.beginMany(200)
		w.wantStates("a", ConnectionStates{Ready: 4})
		endAll(all)
		w.wantCounts(ConnectionCounts{Opened: 7, Closed: map[string]uint64{"scale_down": 3}, ScaledUp: 6, ScaledDown: 3})
		w.nothingLeft("a")
	})
}

// TestG33TheWholeWindow: connections stay for ScaleDownAfter, counted from when they
// were made.
func TestG33TheWholeWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Max: 4, Streams: 50, ScaleDownAfter: time.Minute}, "a")
		endAll(w.beginMany(200))
		wait(55 * time.Second)
		w.wantStates("a", ConnectionStates{Ready: 4})
		wait(25 * time.Second)
		w.wantStates("a", ConnectionStates{Ready: 1})
		w.nothingLeft("a")
	})
}

// TestG33DrainedIsUsedAgain: the load returns while connections still drain: they
// are used again and nothing is dialled.
func TestG33DrainedIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Max: 4, Streams: 50, ScaleDownAfter: time.Minute}, "a")
		all := w.beginMany(200)
		var few, rest []rpc
		seen := map[*moodySubConn]int{}
		for _, r := range all {
			if seen[r.on]++; seen[r.on] <= 5 {
				few = append(few, r)
			} else {
				rest = append(rest, r)
			}
		}
		endAll(rest)
		wait(2 * time.Minute)
		w.wantStates("a", ConnectionStates{Ready: 1, Draining: 3})
		for range 10 {
			r := w.begin()
			if open := w.cc.open("a"); r.on.active < 6 || len(open) != 4 {
				t.Errorf("a new RPC is on a connection with %d, of %v", r.on.active, w.load("a"))
			}
			r.end()
		}
		w.cc.dialledAt()
		back := w.beginMany(180)
		w.wantStates("a", ConnectionStates{Ready: 4})
		if n := len(w.cc.dialledAt()); n != 0 {
			t.Errorf("%d connections were dialled", n)
		}
		endAll(append(few, back...))
		w.wantCounts(ConnectionCounts{Opened: 4, ScaledUp: 6, ScaledDown: 3, Reused: 3, Closed: map[string]uint64{}})
		w.nothingLeft("a")
	})
}

// TestG33LostWhileOthersDrain: when the one that is left is lost, one that drains takes its
// place at once.
func TestG33LostWhileOthersDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Max: 2, Streams: 10, ScaleDownAfter: time.Minute}, "a")
		all := w.beginMany(11)
		var kept []rpc
		seen := map[*moodySubConn]bool{}
		for _, r := range all {
			if !seen[r.on] {
				seen[r.on] = true
				kept = append(kept, r)
			} else {
				r.end()
			}
		}
		wait(2 * time.Minute)
		w.wantStates("a", ConnectionStates{Ready: 1, Draining: 1})
		r := w.begin()
		r.on.tell(connectivity.Idle)
		synctest.Wait()
		w.cc.dialledAt()
		if next := w.begin(); next.on == r.on || len(w.cc.dialledAt()) != 0 {
			t.Error("the RPC waits for a new connection")
		} else {
			next.end()
		}
		r.end()
		endAll(kept)
		w.nothingLeft("a")
	})
}

// TestG32TiesSpread holds SP-03 and SP-04 for the connections of one endpoint.
func TestG32TiesSpread(t *testing.T) {
	for _, n := range []int{2, 4, 10} {
		synctest.Test(t, func(t *testing.T) {
			w := newPoolWorld(t, Connections{Min: n, Streams: 1000}, "a")
			w.connected()
			first := map[*moodySubConn]int{}
			for range 100 * n {
				r := w.begin()
				first[r.on]++
				r.end()
			}
			for _, got := range first {
				if got < 60 || got > 150 {
					t.Errorf("of %d idle connections one got %d of %d RPCs", n, got, 100*n)
				}
			}
			if len(first) != n {
				t.Errorf("%d of %d idle connections were used", len(first), n)
			}
			// One is stuck with many.
			busy := w.cc.open("a")[0]
			var stuck, others []rpc
			for len(stuck) < 50 {
				if r := w.begin(); r.on == busy {
					stuck = append(stuck, r)
				} else {
					others = append(others, r)
				}
			}
			endAll(others)
			for range 1000 {
				r := w.begin()
				if r.on == busy {
					t.Fatalf("of %d connections the one with 50 RPCs got another", n)
				}
				r.end()
			}
			endAll(stuck)
			w.nothingLeft("a")
		})
	}
}

// TestG31TheChoiceStands: an RPC whose endpoint is full waits for that endpoint's next
// connection, by whatever policy: it neither fails nor goes elsewhere.
func TestG31TheChoiceStands(t *testing.T) {
	for _, p := range append(everyPolicy(), selection.Custom("stubborn", stubborn{})) {
		for _, guarded := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/guarded=%v", p, guarded), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := RouterOptions{Connections: Connections{Max: 4, Streams: 2}}
					if guarded {
						o.Admission = openDoors{}
					}
					w := newPoolWorldOf(t, o, "a", "b")
					if _, err := w.router.Selector(DefaultSelector).Publish(p, FromCode); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					w.connected()
					wait(time.Second)
					w.connected()
					byKey := map[string]string{}
					var all []rpc
					for i := range 16 {
						key := fmt.Sprint("key-", i%2)
						r := w.beginWith(typedKey(key, ""))
						all = append(all, r)
						if old, ok := byKey[key]; ok && old != r.on.addr && p.Kind() == selection.KindKetama {
							t.Errorf("%s moved from %s to %s", key, old, r.on.addr)
						}
						byKey[key] = r.on.addr
					}
					for _, addr := range []string{"a", "b"} {
						if load := w.load(addr); len(load) > 4 {
							t.Errorf("%s has %v", addr, load)
						}
					}
					if n := w.counts().ScaledUp; n < 3 {
						t.Errorf("scaled up %d times", n)
					}
					endAll(all)
					w.nothingLeft("a", "b")
				})
			})
		}
	}
}

// stubborn always chooses the first one, excluded or not.
type stubborn struct{}

func (stubborn) Select(selection.Input) int { return 0 }

type openDoors struct{}

func (openDoors) Guard(string) admission.Guard { return open{} }
