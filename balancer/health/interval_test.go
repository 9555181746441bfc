package health_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/health"
)

// gaps are the times between the probes of a target, from one on.
func gaps(times []time.Duration, from int) (list []time.Duration) {
	for i := from + 1; i < len(times); i++ {
		list = append(list, times[i]-times[i-1])
	}
	return list
}

// TestP26Backoff: a target that goes on failing is probed more and more seldom, up
// to MaxInterval, and as before once a probe passes. What leads to a change of state
// is not slowed.
func TestP26Backoff(t *testing.T) {
	o := health.Options{FailAfter: 3, PassAfter: 2, MaxInterval: 5 * time.Second}
	inBubble(t, o, func(t *testing.T, r *health.Registry, s *stage) {
		v := newView(t, r, nil, named("a", "b")...)
		pass(time.Second + time.Millisecond) // probes at 0 and 1 s
		s.breaks("a")
		pass(30 * time.Second)
		const sec = time.Second
		// The third failure, at 4 s, makes it unhealthy.
		want := []time.Duration{sec, sec, sec, sec, sec, 2 * sec, 4 * sec, 5 * sec, 5 * sec, 5 * sec, 5 * sec}
		if got := gaps(s.times("a"), 0); !slices.Equal(got, want) {
			t.Errorf("it was probed after %v, want %v", got, want)
		}
		wantState(t, v, "a", health.Unhealthy)

		before := s.count("a")
		s.works("a")
		pass(9 * time.Second)
		wantState(t, v, "a", health.Healthy)
		if got := gaps(s.times("a"), before); len(got) < 4 || slices.ContainsFunc(got, func(d time.Duration) bool { return d != sec }) {
			t.Errorf("after it works again it was probed after %v, want 1s each", got)
		}
		if got := gaps(s.times("b"), 0); len(got) != 40 || slices.ContainsFunc(got, func(d time.Duration) bool { return d != sec }) {
			t.Errorf("the other one was probed after %v", got)
		}
		v.Close()
	})
}

// TestP26NoBackoff: by default a target that fails is probed as often as others.
func TestP26NoBackoff(t *testing.T) {
	inBubble(t, health.Options{}, func(t *testing.T, r *health.Registry, s *stage) {
		v := newView(t, r, nil, named("a")...)
		s.breaks("a")
		pass(100*time.Second + time.Millisecond)
		if n := s.count("a"); n != 101 {
			t.Errorf("%d probes in 100 s at 1 s", n)
		}
		v.Close()
	})
}

// TestP26BackoffOfHangingProbes: what ignores its deadline is counted as failing
// more and more seldom too, and the jitter is that of the longer interval.
func TestP26BackoffOfHangingProbes(t *testing.T) {
	o := health.Options{MaxInterval: 8 * time.Second, Jitter: 0.1, Timeout: 100 * time.Millisecond}
	inBubble(t, o, func(t *testing.T, r *health.Registry, s *stage) {
		v := newView(t, r, nil, named("a")...)
		s.hangs("a")
		pass(1000 * time.Second)
		settled := gaps(s.times("a"), 5)
		for _, d := range settled {
			if d < 7200*time.Millisecond || d > 8800*time.Millisecond {
				t.Errorf("two probes %v apart, want 8s ± 10%%", d)
			}
		}
		if len(settled) < 100 || len(settled) > 140 {
			t.Errorf("%d probes", len(settled))
		}
		v.Close()
	})
}

// TestP26IntervalOf: an interval for each target; of targets that are one the
// shortest counts, and what Set says later holds from the next probe on.
func TestP26IntervalOf(t *testing.T) {
	intervals := map[string]time.Duration{"slow": 4 * time.Second, "quick": 500 * time.Millisecond}
	o := health.Options{
		Timeout: 100 * time.Millisecond, MaxInterval: 2 * time.Second,
		IntervalOf: func(t health.Target) time.Duration {
			if t.Name == "panics" {
				panic("no idea")
			}
			return intervals[t.Name]
		},
	}
	inBubble(t, o, func(t *testing.T, r *health.Registry, s *stage) {
		at := func(name, address string) health.Target { return health.Target{Name: name, Address: address} }
		v := newView(t, r, nil, at("slow", "s"), at("quick", "q"), at("other", "o"), at("one", "both"))
		two := newView(t, r, nil, at("slow", "both"))
		want := func(counts map[string]int) {
			t.Helper()
			for address, n := range counts {
				if got := s.count(address); got != n {
					t.Errorf("%s was probed %d times, want %d", address, got, n)
				}
			}
		}
		pass(8*time.Second + time.Millisecond)
		want(map[string]int{"s": 3, "q": 17, "o": 9, "both": 9})
		// "one" leaves, and the key has the interval of who is left.
		set(t, v, at("slow", "s"), at("quick", "q"), at("other", "o"))
		pass(9 * time.Second) // at 9 s, 13 s and 17 s
		want(map[string]int{"both": 12})
		s.breaks("s") // a long interval does not get shorter by MaxInterval
		before := s.count("s")
		pass(16 * time.Second)
		want(map[string]int{"s": before + 4})

		for _, bad := range []health.Target{at("panics", "p"), at("short", "p"), at("negative", "p")} {
			intervals["short"], intervals["negative"] = 99*time.Millisecond, -1
			err := v.Set([]health.Target{bad})
			if err == nil || !strings.Contains(err.Error(), "IntervalOf") {
				t.Errorf("%s: %v", bad.Name, err)
			}
		}
		if err := v.Set([]health.Target{at("negative", "p")}); !strings.Contains(err.Error(), "allowed is 100ms and more") {
			t.Error(err)
		}
		wantState(t, v, "quick", health.Healthy) // nothing was changed
		v.Close()
		two.Close()
	})
}

func TestMaxIntervalBelowInterval(t *testing.T) {
	_, err := health.NewRegistry(health.Options{Checker: health.TCP(), Interval: 2 * time.Second, MaxInterval: time.Second})
	if err == nil || !strings.Contains(err.Error(), "MaxInterval is 1s, allowed is the interval of 2s and more") {
		t.Errorf("got %v", err)
	}
}
