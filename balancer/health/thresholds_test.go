package health_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slicewire/slicewire/balancer/health"
)

// states runs one letter a second and gives the state after each probe (H, U, -).
func states(t *testing.T, o health.Options, letters string) (got string, flips []string) {
	t.Helper()
	o.Observer = func(f health.Flip) { flips = append(flips, f.String()) }
	inBubble(t, o, func(t *testing.T, r *health.Registry, s *stage) {
		s.script("a", letters)
		v := newView(t, r, nil, named("a")...)
		for range letters {
			pass(time.Millisecond)
			got += map[health.State]string{health.Healthy: "H", health.Unhealthy: "U", health.Unknown: "-"}[v.Cell("a").State()]
			time.Sleep(time.Second - time.Millisecond)
		}
	})
	return got, flips
}

func TestP24Thresholds(t *testing.T) {
	for _, c := range []struct {
		fail, pass int
		probes     string
		states     string
	}{
		{0, 0, "FSFFSS", "UHUUHH"}, // the defaults are 1 and 1
		{3, 1, "FFSFFS", "HHHHHH"},
		{3, 1, "FFFFS", "HHUUH"},
		{1, 3, "FSSFSSS", "UUUUUUH"},
	} {
		t.Run(fmt.Sprintf("fail %d pass %d %s", c.fail, c.pass, c.probes), func(t *testing.T) {
			got, _ := states(t, health.Options{FailAfter: c.fail, PassAfter: c.pass}, c.probes)
			if got != c.states {
				t.Errorf("states %s, want %s", got, c.states)
			}
		})
	}
}

func TestHR06EventsAreEdges(t *testing.T) {
	got, flips := states(t, health.Options{FailAfter: 3, PassAfter: 2}, "FFSFFS"+"FFF"+"SFS"+"SS"+"SSS")
	if want := "HHHHHH" + "HHU" + "UUU" + "HH" + "HHH"; got != want {
		t.Errorf("states %s, want %s", got, want)
	}
	want := []string{
		"a is unhealthy, it was healthy: 3 probes in a row failed, the last with: broken",
		"a is healthy, it was unhealthy: 2 probes in a row passed",
	}
	if diff := cmp.Diff(want, flips); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// A probe without verdict neither counts nor interrupts.
func TestNoVerdictDoesNotCount(t *testing.T) {
	inBubble(t, health.Options{FailAfter: 2}, func(t *testing.T, r *health.Registry, s *stage) {
		idle := func(context.Context) error { return fmt.Errorf("idle: %w", health.ErrNoVerdict) }
		s.play("a", breaks, idle, idle, breaks, idle)
		v := newView(t, r, nil, named("a")...)
		pass(2500 * time.Millisecond)
		wantState(t, v, "a", health.Healthy)
		pass(time.Second)
		wantState(t, v, "a", health.Unhealthy)
		pass(10 * time.Second)
		wantState(t, v, "a", health.Unhealthy)
		if stats := r.Stats(); stats.Failed != 2 || stats.NoVerdict != 12 {
			t.Errorf("stats %+v", stats)
		}
	})
}

func TestHR01LearnedIsKept(t *testing.T) {
	inBubble(t, health.Options{FailAfter: 3}, func(t *testing.T, r *health.Registry, s *stage) {
		s.breaks("a")
		v := newView(t, r, nil, named("a", "b")...)
		pass(1500 * time.Millisecond)
		s.breaks("b")
		pass(2 * time.Second)
		wantState(t, v, "a", health.Unhealthy)
		wantState(t, v, "b", health.Healthy) // two of three
		a, b := v.Cell("a"), v.Cell("b")

		set(t, v, named("c", "b", "a")...)
		other := newView(t, r, nil, named("a", "b")...)
		if v.Cell("a") != a || v.Cell("b") != b || other.Cell("b") != b {
			t.Error("a target that stayed has another cell")
		}
		if a.Healthy() {
			t.Error("a is used again because c joined")
		}
		pass(time.Second)
		wantState(t, v, "b", health.Unhealthy) // one more flipped it
		wantState(t, v, "c", health.Healthy)

		// Renamed is not gone; gone and back is as documented.
		set(t, v, append(named("b"), health.Target{Name: "renamed", Address: "a"})...)
		if v.Cell("renamed") != a {
			t.Error("a target that changed its name was forgotten")
		}
		other.Close()
		set(t, v, named("b")...)
		set(t, v, named("a", "b")...)
		if v.Cell("a") == a {
			t.Error("a target that left and came back has the old cell")
		}
		wantState(t, v, "a", health.Healthy)
		pass(time.Millisecond)
		if got := s.times("a"); got[len(got)-1] < 4500*time.Millisecond {
			t.Errorf("a target that came back was not probed at once: %v", got)
		}
		if a.Healthy() {
			t.Error("the cell of a target that left does not keep its last state")
		}
	})
}

func TestP28InitialHealth(t *testing.T) {
	for _, c := range []struct {
		initial health.State
		usable  bool
		states  string
	}{
		{health.Healthy, true, "HUUH"},
		{health.Unhealthy, false, "UUUH"},
		{health.Unknown, false, "-UUH"},
	} {
		t.Run(c.initial.String(), func(t *testing.T) {
			got, _ := states(t, health.Options{Initial: c.initial, FailAfter: 2, PassAfter: 2}, "FFSS")
			if got != c.states {
				t.Errorf("states %s, want %s", got, c.states)
			}
			inBubble(t, health.Options{Initial: c.initial}, func(t *testing.T, r *health.Registry, s *stage) {
				s.hangs("a")
				v := newView(t, r, nil, named("a")...)
				if got := v.Cell("a").Healthy(); got != c.usable {
					t.Errorf("usable in the first round: %v, want %v", got, c.usable)
				}
			})
		})
	}
	t.Run("unknown is left by the first verdict", func(t *testing.T) {
		got, flips := states(t, health.Options{Initial: health.Unknown}, "SS")
		if got != "HH" || len(flips) != 1 || flips[0] != "a is healthy, it was unknown: 1 probes in a row passed" {
			t.Errorf("states %s, events %q", got, flips)
		}
	})
}

func TestNilCellIsHealthy(t *testing.T) {
	var c *health.Cell
	if !c.Healthy() || c.State() != health.Healthy {
		t.Error("a target that nobody probes is not healthy")
	}
	inBubble(t, health.Options{}, func(t *testing.T, r *health.Registry, s *stage) {
		v := newView(t, r, nil)
		if v.Cell("stranger") != nil {
			t.Error("a name that the view does not have has a cell")
		}
		synctest.Wait()
	})
}
