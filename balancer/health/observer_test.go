package health_test

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slicewire/slicewire/balancer/health"
)

// The observer is told once per flip and may call back.
func TestP27Observer(t *testing.T) {
	var r *health.Registry
	var v *health.View
	var told []string
	observer := func(f health.Flip) {
		told = append(told, f.Key+" "+f.To.String())
		// All of these take the registry's lock.
		if got := v.Cell("a").State(); got != f.To {
			t.Errorf("the observer of %v reads %v", f, got)
		}
		_, _ = r.Stats(), r.Targets()
		_ = v.Set(named("a"))
		other, err := r.NewView(nil)
		if err != nil {
			t.Error(err)
			return
		}
		_ = other.Set(named("a"))
		other.Close()
	}
	inBubble(t, health.Options{Observer: observer}, func(t *testing.T, registry *health.Registry, s *stage) {
		r = registry
		v = newView(t, r, nil)
		s.script("a", "SSFFS")
		set(t, v, named("a")...)
		pass(10 * time.Second)
		if want := []string{"a unhealthy", "a healthy"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// An observer that blocks delays neither probes nor what picks read nor notify.
func TestP27SlowObserver(t *testing.T) {
	var told atomic.Int64
	observer := func(health.Flip) {
		time.Sleep(time.Minute)
		told.Add(1)
	}
	inBubble(t, health.Options{Observer: observer}, func(t *testing.T, r *health.Registry, s *stage) {
		s.script("a", "FSFSFSFSFS")
		var notified atomic.Int64
		v := newView(t, r, func(string) { notified.Add(1) }, named("a")...)
		pass(8500 * time.Millisecond)
		wantState(t, v, "a", health.Unhealthy)
		if n := notified.Load(); n != 9 {
			t.Errorf("notified %d times, want 9", n)
		}
		pass(20 * time.Minute)
		if n := told.Load(); n != 10 {
			t.Errorf("told %d flips late, want all 10", n)
		}
	})
}

func TestP27CallbacksThatMisbehave(t *testing.T) {
	for name, misbehave := range map[string]func(){"panic": func() { panic("oops") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			var told, notified int
			observer := func(health.Flip) { told++; misbehave() }
			inBubble(t, health.Options{Observer: observer}, func(t *testing.T, r *health.Registry, s *stage) {
				s.script("a", "FSFS")
				newView(t, r, func(string) { notified++; misbehave() }, named("a")...)
				pass(10 * time.Second)
				if told != 4 || notified != 4 {
					t.Errorf("told %d and notified %d times, want 4 each", told, notified)
				}
				if n := r.Stats().CallbackPanics; name == "panic" && n != 8 {
					t.Errorf("%d panics counted, want 8", n)
				}
			})
		})
	}
}

// A storm of flips with nobody to hear it is bounded.
func TestP27EventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var told int
		broken := new(atomic.Bool)
		r := newRegistry(t, health.Options{
			Interval: time.Second, Jitter: -1, Workers: 100,
			Checker: health.Func(func(context.Context, health.Target) error {
				if broken.Load() {
					return errBroken
				}
				return nil
			}),
			Observer: func(health.Flip) { <-release; told++ },
		})
		newView(t, r, nil, numbered(1000)...)
		for range 30 {
			pass(time.Second)
			broken.Store(!broken.Load())
		}
		stats := r.Stats()
		flips := stats.ToHealthy + stats.ToUnhealthy
		if stats.EventsLost == 0 || flips < 28000 {
			t.Fatalf("stats %+v", stats)
		}
		close(release)
		r.Close()
		if uint64(told)+stats.EventsLost != flips {
			t.Errorf("told %d of %d, %d counted as lost", told, flips, stats.EventsLost)
		}
	})
}

func TestLog(t *testing.T) {
	var log lockedBuffer
	o := health.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	inBubble(t, o, func(t *testing.T, r *health.Registry, s *stage) {
		boom := func(context.Context) error { panic("boom") }
		s.play("a", boom, boom, boom, func(context.Context) error { return nil }, boom)
		newView(t, r, nil, health.Target{Name: "shop-1", Address: "a"})
		pass(4500 * time.Millisecond)
	})
	text := log.String()
	if n := strings.Count(text, "a health checker panicked"); n != 2 {
		t.Errorf("panics were logged %d times, want once per row of them, so 2:\n%s", n, text)
	}
	if n := strings.Count(text, "a server's health changed"); n != 3 {
		t.Errorf("%d changes logged, want 3:\n%s", n, text)
	}
	for _, want := range []string{"boom", "a (shop-1) is unhealthy", "observer_test.go"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log does not contain %q:\n%s", want, text)
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
