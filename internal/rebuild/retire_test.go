package rebuild

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"
)

func large(*thing) int64 { return 1<<20 + 1 }

// held is a pipeline whose results are all kept, as by a reader that is stuck.
type held struct {
	*Pipeline[int, *thing]
	mu  sync.Mutex
	all []*thing
	at  []time.Time
}

func newHeld(g *Gate, bytes func(*thing) int64) *held {
	h := &held{}
	h.Pipeline = New(g, Options[*thing]{Bytes: bytes},
		func(_ context.Context, in int) (*thing, error) { return &thing{in: in}, nil },
		func(_ int, out *thing) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.all = append(h.all, out)
			h.at = append(h.at, time.Now())
		})
	return h
}

// times is when each was in force.
func (h *held) times() []time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.at)
}

// took asks for a build and returns how long it was until it was in force.
func (h *held) took(t *testing.T) time.Duration {
	t.Helper()
	n := len(h.times())
	began := time.Now()
	h.Request(n)
	pass(time.Minute)
	at := h.times()
	if len(at) != n+1 {
		t.Fatalf("%d publications, want %d", len(at), n+1)
	}
	return at[n].Sub(began)
}

// Seed row P-12: a reader that holds on delays the next build by RetireWait at
// most, and is counted; small values and first builds are not waited for.
func TestP12StuckHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{})
		a, b := newHeld(g, large), newHeld(g, large)
		small, unknown := newHeld(g, func(*thing) int64 { return 1 << 20 }), newHeld(g, nil)
		ask := func(what string, h *held, timeouts uint64, want time.Duration) {
			t.Helper()
			if d := h.took(t); d != want {
				t.Errorf("%s took %v, want %v", what, d, want)
			}
			if n := g.Stats().RetireTimeouts; n != timeouts {
				t.Errorf("after %s there are %d timeouts, want %d", what, n, timeouts)
			}
		}
		ask("a first build", a, 0, 0)
		ask("a first build", b, 0, 0)
		ask("a first build", small, 0, 0)
		ask("a first build", unknown, 0, 0)
		ask("a replacement", a, 0, 0)
		// The time runs from the replacement, so a change that comes alone never waits.
		ask("a build a minute after it", b, 1, 0)
		ask("a build after b's", small, 2, 0)
		ask("a build after a small one", unknown, 2, 0)

		// Both at once: one waits for what the other replaced.
		a.Request(10)
		synctest.Wait()
		b.Request(10)
		pass(time.Minute)
		if d := b.times()[2].Sub(a.times()[2]); d != 250*time.Millisecond {
			t.Errorf("the second was published %v after the first, want 250 ms", d)
		}
		if n := g.Stats().RetireTimeouts; n != 3 {
			t.Errorf("%d timeouts, want 3", n)
		}
		// A first build goes ahead, and leaves the mark to the one after it.
		a.Request(11)
		synctest.Wait()
		fresh := newHeld(g, large)
		fresh.Request(1)
		synctest.Wait()
		b.Request(11)
		synctest.Wait()
		if len(fresh.times()) != 1 || len(b.times()) != 3 {
			t.Fatalf("%d first builds and %d in all of b's went ahead, want 1 and 3", len(fresh.times()), len(b.times()))
		}
		pass(time.Minute)
		if d := b.times()[3].Sub(a.times()[3]); d != 250*time.Millisecond {
			t.Errorf("published %v after, want 250 ms", d)
		}
		runtime.KeepAlive([]*held{a, b, small, unknown, fresh})
	})
}

func TestP12Options(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{RetireOver: 100, RetireWait: time.Second})
		a, b := newHeld(g, func(*thing) int64 { return 101 }), newHeld(g, func(*thing) int64 { return 100 })
		for _, h := range []*held{a, b, b} {
			if d := h.took(t); d != 0 {
				t.Errorf("took %v", d)
			}
		}
		a.Request(1)
		synctest.Wait()
		b.Request(2)
		pass(time.Minute)
		if d := b.times()[2].Sub(a.times()[1]); d != time.Second {
			t.Errorf("waited for %v, want 1 s", d)
		}
		runtime.KeepAlive(a)
	})
}

// Seed row P-14 and cancellation flow 2: who is cancelled while waiting for what
// was replaced leaves that to the next.
func TestP14MarkIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{})
		a, b, c := newHeld(g, large), newHeld(g, large), newHeld(g, large)
		for _, h := range []*held{a, b, c} {
			h.took(t)
		}
		a.Request(1) // replaces; the time begins
		synctest.Wait()
		began := time.Now()
		b.Request(1)
		pass(100 * time.Millisecond)
		c.Request(1) // behind b
		synctest.Wait()
		b.Close()
		if d := time.Since(began); d != 100*time.Millisecond {
			t.Errorf("Close returned %v after", d)
		}
		pass(time.Minute)
		if d := c.times()[1].Sub(began); d != 250*time.Millisecond {
			t.Errorf("the next was published after %v, want the rest of 250 ms", d)
		}
		if len(b.times()) != 1 || g.Stats().RetireTimeouts != 1 {
			t.Errorf("%d publications of the closed one, %d timeouts", len(b.times()), g.Stats().RetireTimeouts)
		}
		runtime.KeepAlive(a)
	})
}

// Cancellation flow 4 and 5: a result that was built and not published is waited
// for like one that was replaced.
func TestP14UnpublishedIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{})
		b := newHeld(g, large)
		b.took(t)
		var kept *thing
		p := New(g, Options[*thing]{Bytes: func(out *thing) int64 { kept = out; time.Sleep(time.Second); return 1 << 30 }},
			func(context.Context, int) (*thing, error) { return &thing{}, nil },
			func(int, *thing) { t.Error("published") })
		p.Request(1)
		synctest.Wait()
		b.Request(1)
		p.Cancel()
		pass(time.Second)
		dropped := time.Now()
		pass(time.Minute)
		if d := b.times()[1].Sub(dropped); d != 250*time.Millisecond {
			t.Errorf("waited for %v, want 250 ms", d)
		}
		runtime.KeepAlive(kept)
	})
}

// What is no pointer, and nil, is not waited for and harms nothing.
func TestP12NoPointer(t *testing.T) {
	g := NewGate(GateOptions{})
	for _, v := range []any{nil, 7, []int{1}, (*thing)(nil), struct{ p *thing }{&thing{}}} {
		if g.releaseOf(v, 1<<40) != nil {
			t.Errorf("a %T is watched", v)
		}
	}
	if g.releaseOf(&thing{}, 1<<40) == nil {
		t.Error("a pointer is not watched")
	}
}

// Seed row P-11: with a collector that runs, at most one value too many lives: that
// of each pipeline and the one in the making. Real time, as the collector has no other.
func TestP11LiveValues(t *testing.T) {
	const pipelines, requests = 6, 15
	g := NewGate(GateOptions{RetireWait: time.Minute})
	stop := make(chan struct{})
	var around sync.WaitGroup
	around.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})

	var built []weak.Pointer[thing] // guarded by the permit
	most := 0
	var wanted sync.WaitGroup
	for range pipelines {
		var cur atomic.Pointer[thing] // what readers load
		done := make(chan struct{})
		p := New(g, Options[*thing]{Bytes: large}, func(_ context.Context, in int) (*thing, error) {
			out := &thing{in: in}
			built = append(built, weak.Make(out))
			live := 0
			for _, w := range built {
				if w.Value() != nil {
					live++
				}
			}
			most = max(most, live)
			runtime.KeepAlive(out)
			return out, nil
		}, func(in int, out *thing) {
			cur.Store(out)
			if in == requests {
				close(done)
			}
		})
		around.Go(func() { // a reader that holds what it loaded for a moment
			for {
				if v := cur.Load(); v != nil {
					time.Sleep(time.Millisecond)
					runtime.KeepAlive(v)
				}
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
		})
		wanted.Go(func() {
			defer p.Close()
			for i := 1; i <= requests; i++ {
				p.Request(i)
				for p.Stats().Published+p.Stats().Coalesced < uint64(i) {
					time.Sleep(100 * time.Microsecond)
				}
			}
			<-done
		})
	}
	wanted.Wait()
	close(stop)
	around.Wait()
	if s := g.Stats(); s.RetireTimeouts != 0 || s.Entered != pipelines*requests {
		t.Errorf("stats are %+v", s)
	}
	if most > pipelines+1 || most < pipelines {
		t.Errorf("%d values were live at one time, want %d at most", most, pipelines+1)
	}
}
