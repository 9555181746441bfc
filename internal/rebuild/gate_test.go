package rebuild

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestGateOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{})
		if err := g.Enter(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		var order []int
		enter := func(id int, first bool) {
			go func() {
				if err := g.Enter(t.Context(), first); err != nil {
					t.Error(err)
				}
				order = append(order, id)
				g.Leave()
			}()
			synctest.Wait()
		}
		enter(1, false)
		enter(2, false)
		enter(3, true)
		enter(4, false)
		enter(5, true)
		if s := g.Stats(); s.Waiting != 5 || s.Entered != 1 {
			t.Errorf("stats are %+v", s)
		}
		g.Leave()
		synctest.Wait()
		same(t, "who entered", order, []int{3, 5, 1, 2, 4})
		if s := g.Stats(); s != (GateStats{Entered: 6}) {
			t.Errorf("stats are %+v", s)
		}
	})
}

// Who gives up waiting leaves the queue, and the rest keeps its order.
func TestGateCancelWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{})
		_ = g.Enter(t.Context(), false)
		var order []int
		var cancels []context.CancelCauseFunc
		for id := range 6 {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			cancels = append(cancels, cancel)
			go func() {
				switch err := g.Enter(ctx, id%2 == 0); {
				case err == nil:
					order = append(order, id)
					g.Leave()
				case !errors.Is(err, context.Canceled):
					t.Errorf("Enter failed with %v", err)
				}
			}()
			synctest.Wait()
		}
		cancels[2](nil)
		cancels[1](nil)
		synctest.Wait()
		if s := g.Stats(); s.Waiting != 4 {
			t.Errorf("%d wait, want 4", s.Waiting)
		}
		g.Leave()
		synctest.Wait()
		same(t, "who entered", order, []int{0, 4, 3, 5})
	})
}

// A context that has ended does not get in, not even through a free gate.
func TestGateEndedContext(t *testing.T) {
	g := NewGate(GateOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if err := g.Enter(ctx, false); !errors.Is(err, context.Canceled) {
			t.Fatalf("Enter returned %v", err)
		}
	}
	if g.held || g.Stats().Entered != 0 {
		t.Error("an ended context got in")
	}
}

// The permit comes and the context ends before the one who waits runs again: it
// fails, and hands the permit on.
func TestGateHandsOnWhatCameTooLate(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that it does not run in between
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{})
		for range 100 {
			_ = g.Enter(t.Context(), true)
			ctx, cancel := context.WithCancel(t.Context())
			late := make(chan error, 1)
			go func() { late <- g.Enter(ctx, true) }()
			synctest.Wait()
			next := make(chan error, 1)
			go func() { next <- g.Enter(t.Context(), false) }()
			synctest.Wait()
			cancel()
			g.Leave()
			if err := <-late; !errors.Is(err, context.Canceled) {
				t.Fatalf("Enter returned %v after its context had ended", err)
			}
			synctest.Wait()
			select {
			case <-next:
			default:
				t.Fatal("the permit is lost")
			}
			g.Leave()
		}
	})
}

// The permit and the end of the wait come at the same instant: whichever wins, the
// permit is not lost and never given twice.
func TestGateCancelMeetsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{})
		var inside atomic.Int32
		var entered, gaveUp atomic.Uint64
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for range 200 {
					// Times of whole milliseconds, so that many events share an instant.
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(8))*time.Millisecond)
					if err := g.Enter(ctx, rand.IntN(4) == 0); err != nil {
						gaveUp.Add(1)
					} else {
						entered.Add(1)
						if n := inside.Add(1); n != 1 {
							t.Errorf("%d inside", n)
						}
						time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
						inside.Add(-1)
						g.Leave()
					}
					cancel()
				}
			})
		}
		all.Wait()
		if g.held || g.Stats().Waiting != 0 {
			t.Error("the permit is lost")
		}
		if n := g.Stats().Entered; n != entered.Load() || n == 0 || gaveUp.Load() == 0 {
			t.Errorf("entered %d, counted %d; %d gave up", entered.Load(), n, gaveUp.Load())
		}
	})
}
