package health_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slicewire/slicewire/balancer/health"
)

func TestP36ViewDrop(t *testing.T) {
	inBubble(t, health.Options{Timeout: time.Second}, func(t *testing.T, r *health.Registry, s *stage) {
		s.hangs("b") // its probe is in flight while the view goes
		v := newView(t, r, nil, named("a", "b")...)
		pass(500 * time.Millisecond)
		a := v.Cell("a")
		v.Close()
		v.Close()
		synctest.Wait()
		if stats := r.Stats(); stats.Healthy+stats.Unhealthy+stats.Unknown != 0 || stats.Busy != 0 || len(r.Targets()) != 0 {
			t.Errorf("after its only view: %+v, %v", stats, r.Targets())
		}
		pass(time.Hour)
		if s.count("a") != 1 || s.count("b") != 1 {
			t.Errorf("probed %d and %d times, want once each, before the view was closed", s.count("a"), s.count("b"))
		}
		if !a.Healthy() || v.Cell("a") != nil {
			t.Error("the cell of a closed view changed, or is still given out")
		}
		if err := v.Set(named("a")); !errors.Is(err, health.ErrClosed) {
			t.Errorf("Set of a closed view: %v", err)
		}
	})
}

// Closed views are not told, and views that come and go leave nothing.
func TestP36Churn(t *testing.T) {
	inBubble(t, health.Options{}, func(t *testing.T, r *health.Registry, s *stage) {
		var late []string
		v := newView(t, r, func(name string) { late = append(late, name) }, named("a")...)
		keeper := newView(t, r, nil, named("a")...)
		pass(time.Millisecond)
		v.Close()
		s.breaks("a")
		pass(2 * time.Second)
		wantState(t, keeper, "a", health.Unhealthy)
		if len(late) != 0 {
			t.Errorf("a closed view was notified of %v", late)
		}

		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 200 {
					v := newView(t, r, nil, numbered(j%20)...)
					set(t, v, numbered((i+j)%30)...)
					if j%50 == 0 {
						time.Sleep(time.Second)
					}
					v.Close()
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if got := r.Targets(); len(got) != 1 || got[0].Key != "a" {
			t.Errorf("left: %v", got)
		}
	})
}

func TestP23WaitFirst(t *testing.T) {
	ready := func(r *health.Registry, targets int) chan error {
		c := make(chan error, 1)
		go func() { c <- r.WaitFirst(context.Background(), targets) }()
		synctest.Wait()
		return c
	}
	t.Run("periodic is ready when empty and the first target wakes it", func(t *testing.T) {
		inBubble(t, health.Options{Interval: time.Hour, Timeout: time.Minute}, func(t *testing.T, r *health.Registry, s *stage) {
			if err := r.WaitFirst(t.Context(), 0); err != nil {
				t.Error(err)
			}
			pass(90 * time.Minute) // between two looks at an empty schedule
			s.act("a", func(context.Context) error { time.Sleep(time.Second); return errBroken })
			v := newView(t, r, nil, named("a")...)
			c := ready(r, 0)
			if len(c) != 0 {
				t.Error("ready while a target was not probed")
			}
			pass(time.Second)
			if len(c) != 1 || <-c != nil {
				t.Error("not ready after the first probe")
			}
			wantState(t, v, "a", health.Unhealthy)
		})
	})
	t.Run("one-shot waits for the first target", func(t *testing.T) {
		inBubble(t, health.Options{}, func(t *testing.T, r *health.Registry, s *stage) {
			c := ready(r, 1)
			pass(time.Hour)
			if len(c) != 0 {
				t.Error("ready without a target")
			}
			s.breaks("a")
			v := newView(t, r, nil, named("a")...)
			synctest.Wait()
			if len(c) != 1 || <-c != nil {
				t.Error("not ready after the first target's probe")
			}
			r.Close()
			pass(time.Hour)
			wantState(t, v, "a", health.Unhealthy)
			if n := s.count("a"); n != 1 {
				t.Errorf("probed %d times, want once", n)
			}
		})
	})
	t.Run("no checker is refused", func(t *testing.T) {
		if _, err := health.NewRegistry(health.Options{}); err == nil || !strings.Contains(err.Error(), "there is no Checker") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a probe without verdict is a probe", func(t *testing.T) {
		inBubble(t, health.Options{}, func(t *testing.T, r *health.Registry, s *stage) {
			s.act("a", func(context.Context) error { return health.ErrNoVerdict })
			newView(t, r, nil, named("a")...)
			if err := r.WaitFirst(t.Context(), 1); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("a target that goes is not waited for", func(t *testing.T) {
		inBubble(t, health.Options{}, func(t *testing.T, r *health.Registry, s *stage) {
			s.hangs("a")
			v := newView(t, r, nil, named("a")...)
			c := ready(r, 0)
			v.Close()
			if err := <-c; err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("cancelled and closed", func(t *testing.T) {
		inBubble(t, health.Options{}, func(t *testing.T, r *health.Registry, s *stage) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := r.WaitFirst(ctx, 3)
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "0 targets are there") {
				t.Errorf("error %v", err)
			}
			c := ready(r, 1)
			r.Close()
			if err := <-c; !errors.Is(err, health.ErrClosed) {
				t.Errorf("error %v, want ErrClosed", err)
			}
		})
	})
}

func TestP34Misuse(t *testing.T) {
	var nilFunc health.Func
	ok := health.Options{Checker: health.TCP()}
	with := func(change func(o *health.Options)) health.Options {
		o := ok
		change(&o)
		return o
	}
	for _, c := range []struct {
		name    string
		options health.Options
		want    []string
	}{
		{"no checker", health.Options{}, []string{"no Checker"}},
		{"nil func", health.Options{Checker: nilFunc}, []string{"function of the checker is nil"}},
		{"nil func on a port", health.Options{Checker: health.OnPort(80, nilFunc)}, []string{"function of the checker is nil"}},
		{"port", health.Options{Checker: health.OnPort(0, health.TCP())}, []string{"port to probe is 0", "1 to 65535"}},
		{"HTTP", health.Options{Checker: health.HTTP(health.HTTPOptions{Path: "health", MaxBody: -1, Method: "a b"})}, []string{`Path is "health"`, "MaxBody is -1", "Method"}},
		{"HTTP host in path", health.Options{Checker: health.HTTP(health.HTTPOptions{Path: "http://x/y"})}, []string{`Path is "http://x/y"`}},
		{"interval", with(func(o *health.Options) { o.Interval = time.Microsecond }), []string{"Interval is 1µs", "10ms"}},
		{"timeout", with(func(o *health.Options) { o.Interval, o.Timeout = time.Second, time.Minute }), []string{"Timeout is 1m0s", "up to the interval of 1s"}},
		{
			"negative", with(func(o *health.Options) { o.FailAfter, o.PassAfter, o.Workers, o.Timeout = -1, -2, -3, -4 }),
			[]string{"FailAfter is -1", "PassAfter is -2", "Workers is -3", "0 for 16", "Timeout is -4ns"},
		},
		{"jitter", with(func(o *health.Options) { o.Jitter = 0.6 }), []string{"Jitter is 0.6"}},
		{"jitter not a number", with(func(o *health.Options) { o.Jitter = math.NaN() }), []string{"Jitter is NaN"}},
		{"initial", with(func(o *health.Options) { o.Initial = 7 }), []string{"Initial is State(7)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := health.NewRegistry(c.options)
			if err == nil {
				r.Close()
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}

	t.Run("a closed registry takes no view", func(t *testing.T) {
		r := newRegistry(t, ok)
		v := newView(t, r, nil)
		r.Close()
		r.Close()
		if _, err := r.NewView(nil); !errors.Is(err, health.ErrClosed) {
			t.Errorf("NewView: %v", err)
		}
		if err := v.Set(nil); !errors.Is(err, health.ErrClosed) {
			t.Errorf("Set: %v", err)
		}
		v.Close()
	})
	t.Run("a set that is refused changes nothing", func(t *testing.T) {
		equivalence := func(t health.Target) string {
			if t.Address == "panic" {
				panic("oops")
			}
			return t.Address
		}
		inBubble(t, health.Options{Equivalence: equivalence}, func(t *testing.T, r *health.Registry, s *stage) {
			v := newView(t, r, nil, named("a")...)
			cell := v.Cell("a")
			for want, targets := range map[string][]health.Target{
				"two targets have the name": named("b", "c", "b"),
				"has no name":               named("b", ""),
				"Equivalence panicked":      named("b", "panic"),
			} {
				if err := v.Set(targets); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
			}
			if v.Cell("a") != cell || v.Cell("b") != nil {
				t.Error("a refused set changed the view")
			}
		})
	})
}

func TestTargets(t *testing.T) {
	inBubble(t, health.Options{FailAfter: 2}, func(t *testing.T, r *health.Registry, s *stage) {
		start := time.Now()
		s.breaks("b")
		newView(t, r, nil, health.Target{Name: "y", Address: "b"}, health.Target{Name: "x", Address: "b"})
		newView(t, r, nil, health.Target{Name: "x", Address: "b"}, health.Target{Name: "a"})
		pass(2500 * time.Millisecond)
		got := r.Targets()
		text := ""
		for i := range got {
			text += fmt.Sprintf("%s %v %v %v %v\n", got[i].Key, got[i].Names, got[i].State, got[i].Streak, got[i].LastError)
		}
		if diff := cmp.Diff("a [a] healthy 3 <nil>\nb [x y] unhealthy -3 broken\n", text); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if b := got[1]; b.Since.Sub(start) != time.Second || b.LastProbe.Sub(start) != 2*time.Second || !errors.Is(b.LastError, errBroken) {
			t.Errorf("%+v", b)
		}
	})
}

// What a checker keeps for a target is closed once, after its last probe.
func TestStateful(t *testing.T) {
	keeper := &statefulChecker{}
	inBubble(t, health.Options{Checker: keeper}, func(t *testing.T, r *health.Registry, s *stage) {
		v := newView(t, r, nil, named("a", "b", "c")...)
		pass(3 * time.Second)
		set(t, v, named("b", "c")...)
		synctest.Wait()
		if made, closed := keeper.count(); made != 3 || closed != 1 {
			t.Errorf("made %d, closed %d after one of three targets has gone", made, closed)
		}
		v.Close()
		set(t, newView(t, r, nil), named("d")...)
		synctest.Wait()
		r.Close()
		if made, closed := keeper.count(); made != 4 || closed != 4 {
			t.Errorf("made %d, closed %d", made, closed)
		}
		if n := r.Stats().CallbackPanics; n != 4 {
			t.Errorf("%d panics of Close counted, want 4", n)
		}
	})
}

type statefulChecker struct {
	mu           sync.Mutex
	made, closed int
}

func (s *statefulChecker) Check(context.Context, health.Target) error {
	return errors.New("the checker of all targets was asked")
}

func (s *statefulChecker) ForTarget() health.Checker {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	return &oneTarget{keeper: s}
}

func (s *statefulChecker) count() (made, closed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made, s.closed
}

type oneTarget struct {
	keeper *statefulChecker
	name   string
}

func (o *oneTarget) Check(_ context.Context, t health.Target) error {
	if o.name != "" && o.name != t.Name {
		return errors.New("the checker of another target was asked")
	}
	o.name = t.Name
	return nil
}

func (o *oneTarget) Close() error {
	o.keeper.mu.Lock()
	defer o.keeper.mu.Unlock()
	o.keeper.closed++
	panic("while closing")
}
