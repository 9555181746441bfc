package health_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slicewire/slicewire/balancer/health"
)

// Three clients, two backends, one probe per backend per interval.
func TestP21SharedRegistry(t *testing.T) {
	inBubble(t, health.Options{}, func(t *testing.T, r *health.Registry, s *stage) {
		views := make([]*health.View, 3)
		for i := range views {
			views[i] = newView(t, r, nil, named("a", "b")...)
		}
		pass(10*time.Second + time.Millisecond)
		if a, b := s.count("a"), s.count("b"); a != 11 || b != 11 {
			t.Errorf("in 10 s at 1 s after the first probe, a was probed %d times and b %d, want 11 each", a, b)
		}
		if views[0].Cell("a") != views[2].Cell("a") {
			t.Error("two views of the same backend read different cells")
		}

		s.breaks("b")
		pass(time.Second)
		for _, v := range views {
			wantState(t, v, "a", health.Healthy)
			wantState(t, v, "b", health.Unhealthy)
		}

		// Closing one channel removes only its contribution, and health is kept.
		views[0].Close()
		set(t, views[1], named("a")...)
		pass(5 * time.Second)
		if n := s.count("b"); n != 17 {
			t.Errorf("b, which one view still has, was probed %d times after 16 s, want 17", n)
		}
		wantState(t, views[2], "b", health.Unhealthy)
		views[2].Close()
		pass(5 * time.Second)
		if a, b := s.count("a"), s.count("b"); a != 22 || b != 17 {
			t.Errorf("a was probed %d times, want 22; b, which nobody has, %d, want 17", a, b)
		}
	})
}

func TestP22EquivalenceKey(t *testing.T) {
	for _, c := range []struct {
		name        string
		equivalence func(health.Target) string
		probes      int
	}{
		{"by address", nil, 1},
		{"by name", func(t health.Target) string { return t.Name }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, health.Options{Equivalence: c.equivalence}, func(t *testing.T, r *health.Registry, s *stage) {
				notified := make(chan string, 10)
				v := newView(t, r, func(name string) { notified <- name },
					health.Target{Name: "light", Address: "a"}, health.Target{Name: "heavy", Address: "a"})
				s.breaks("a")
				synctest.Wait()
				if n := s.count("a"); n != c.probes {
					t.Errorf("probed %d times, want %d", n, c.probes)
				}
				wantState(t, v, "light", health.Unhealthy)
				wantState(t, v, "heavy", health.Unhealthy)
				names := []string{<-notified, <-notified}
				slices.Sort(names)
				if !slices.Equal(names, []string{"heavy", "light"}) {
					t.Errorf("notified of %v", names)
				}
			})
		})
	}
}

func TestP26ParallelWithLimit(t *testing.T) {
	const workers, targets = 16, 1000
	inBubble(t, health.Options{Workers: workers, Interval: time.Minute}, func(t *testing.T, r *health.Registry, s *stage) {
		list := numbered(targets)
		for _, target := range list {
			s.act(target.Address, func(ctx context.Context) error {
				time.Sleep(10 * time.Millisecond)
				return nil
			})
		}
		before := runtime.NumGoroutine()
		v := newView(t, r, nil, list...)
		time.Sleep(5 * time.Millisecond)
		// A worker and what its checker needs, of which a Func has none.
		if n := runtime.NumGoroutine() - before; n > workers+10 {
			t.Errorf("%d goroutines more while probing, want about %d", n, workers)
		}
		pass(time.Second)
		if n := s.atOnce(); n != workers {
			t.Errorf("%d probes at once, want %d", n, workers)
		}
		for _, target := range list {
			if n := s.count(target.Address); n != 1 {
				t.Fatalf("%s was probed %d times, want once", target.Name, n)
			}
		}
		stats := r.Stats()
		if stats.BusyMax != workers || stats.Busy != 0 || stats.Passed != targets || stats.Healthy != targets {
			t.Errorf("stats %+v", stats)
		}
		v.Close()
	})
}

// A hang holds one worker, whether or not the checker heeds its context.
func TestP26HangingProbe(t *testing.T) {
	for _, c := range []struct {
		name  string
		hang  func(ctx context.Context) error
		stuck int
	}{
		{"heeds its context", hangs, 0},
		{"ignores its context", func(context.Context) error { time.Sleep(10 * time.Second); return nil }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, health.Options{Workers: 2, Timeout: 500 * time.Millisecond, FailAfter: 3}, func(t *testing.T, r *health.Registry, s *stage) {
				s.act("slow", c.hang)
				v := newView(t, r, nil, named("slow", "a", "b", "c")...)
				pass(2400 * time.Millisecond)
				wantState(t, v, "slow", health.Healthy)
				if n := r.Stats().Stuck; n != c.stuck {
					t.Errorf("%d workers stuck, want %d", n, c.stuck)
				}
				pass(300 * time.Millisecond)
				wantState(t, v, "slow", health.Unhealthy) // its third failure, 2.5 s after the first began
				pass(7 * time.Second)
				for _, name := range []string{"a", "b", "c"} {
					for i, at := range s.times(name) {
						if at != time.Duration(i)*time.Second {
							t.Errorf("probe %d of %s came at %v, want %ds", i, name, at, i)
						}
					}
				}
				s.works("slow")
				pass(3 * time.Second)
				wantState(t, v, "slow", health.Healthy)
				if stats := r.Stats(); stats.Late != 0 || stats.Stuck != 0 {
					t.Errorf("stats %+v", stats)
				}
			})
		})
	}
}

func TestHR04HangingProbe(t *testing.T) {
	inBubble(t, health.Options{Workers: 2}, func(t *testing.T, r *health.Registry, s *stage) {
		s.act("hang", func(context.Context) error { time.Sleep(10 * time.Second); return errBroken })
		v := newView(t, r, nil, named("hang", "fails")...)
		pass(900 * time.Millisecond)
		s.breaks("fails")
		s.breaks("new")
		pass(50 * time.Millisecond)
		wantState(t, v, "fails", health.Healthy)
		pass(50 * time.Millisecond)
		set(t, v, named("hang", "fails", "new")...)
		pass(0)
		wantState(t, v, "fails", health.Unhealthy) // on its own schedule, at 1 s
		wantState(t, v, "new", health.Unhealthy)   // the change is in force
		wantState(t, v, "hang", health.Unhealthy)  // out at its deadline

		// A member that hangs leaves and returns: still one probe of it at a time.
		set(t, v, named("new")...)
		pass(time.Second)
		set(t, v, named("hang", "new")...)
		wantState(t, v, "hang", health.Healthy) // as documented: Initial
		pass(7900 * time.Millisecond)
		if n := s.count("hang"); n != 1 {
			t.Errorf("%d probes of a server whose first one hangs, want 1", n)
		}
		s.works("hang")
		pass(200 * time.Millisecond)
		if got := s.times("hang"); len(got) != 2 || got[1] != 10*time.Second {
			t.Errorf("probed at %v, want again when the first probe returned, at 10s", got)
		}
		wantState(t, v, "hang", health.Healthy)
	})
}

func TestHR05LoopSurvives(t *testing.T) {
	odd := func(context.Context) error { var e *oddError; return e }
	for name, oddity := range map[string]func(context.Context) error{
		"panic":                func(context.Context) error { panic("oops") },
		"goexit":               func(context.Context) error { runtime.Goexit(); return nil },
		"an error that panics": odd,
		"an odd error":         func(context.Context) error { return errors.ErrUnsupported },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, health.Options{}, func(t *testing.T, r *health.Registry, s *stage) {
				s.play("a", hangs, hangs, hangs, oddity, odd, func(context.Context) error { return nil })
				v := newView(t, r, nil, named("a", "b")...)
				pass(4500 * time.Millisecond)
				wantState(t, v, "a", health.Unhealthy)
				goroutines := runtime.NumGoroutine()
				pass(2 * time.Second)
				wantState(t, v, "a", health.Healthy)
				pass(100 * time.Second)
				if n := runtime.NumGoroutine(); n > goroutines+10 { // a few may just be ending
					t.Errorf("%d goroutines, %d a hundred probes ago", n, goroutines)
				}
				// The deadline of 1 s is also the interval, so nothing was skipped.
				if a, b := s.count("a"), s.count("b"); a != 107 || b != 107 {
					t.Errorf("a was probed %d times and b %d, want 107 each", a, b)
				}
				stats := r.Stats()
				if stats.TimedOut != 3 || stats.Failed != 5 || stats.ToHealthy != 1 || stats.ToUnhealthy != 1 || stats.Busy != 0 {
					t.Errorf("stats %+v", stats)
				}
			})
		})
	}
}

// oddError panics when it is looked at through a nil pointer.
type oddError struct{ text string }

func (e *oddError) Error() string { return e.text }

func TestJitter(t *testing.T) {
	inBubble(t, health.Options{Jitter: 0.1, Interval: 10 * time.Second}, func(t *testing.T, r *health.Registry, s *stage) {
		v := newView(t, r, nil, named("a", "b")...)
		pass(2000 * time.Second)
		times := s.times("a")
		if n := len(times); n < 190 || n > 212 {
			t.Errorf("%d probes in 2000 s at 10 s", n)
		}
		distinct := map[time.Duration]bool{}
		for i := 1; i < len(times); i++ {
			gap := times[i] - times[i-1]
			if gap < 9*time.Second || gap > 11*time.Second {
				t.Errorf("two probes %v apart, want 10s ± 10%%", gap)
			}
			distinct[gap] = true
		}
		if len(distinct) < 100 {
			t.Errorf("only %d distinct intervals", len(distinct))
		}
		v.Close()
	})
}

func TestTooFewWorkersAreSeen(t *testing.T) {
	inBubble(t, health.Options{Workers: 1}, func(t *testing.T, r *health.Registry, s *stage) {
		s.hangs("a")
		s.hangs("b")
		newView(t, r, nil, named("a", "b", "c")...)
		pass(10 * time.Second)
		if stats := r.Stats(); stats.Late == 0 || stats.BusyMax != 1 || s.atOnce() != 1 {
			t.Errorf("stats %+v, %d at once", stats, s.atOnce())
		}
		if s.count("c") < 3 {
			t.Errorf("c was probed %d times in 10 s: the worker is not shared fairly", s.count("c"))
		}
	})
}
