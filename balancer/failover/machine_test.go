package failover_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/failover"
)

func machine(t *testing.T, o failover.Options, targets ...string) *failover.Machine {
	t.Helper()
	m, err := failover.New(targets, o, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestNext(t *testing.T) {
	t.Parallel()
	m := machine(t, failover.Options{Recovery: 300 * ms, SwitchDelay: 500 * ms}, "a", "b")
	due := func(want int) {
		t.Helper()
		if next, ok := m.Next(); !ok || !next.Equal(at(want)) {
			t.Errorf("next is %v, %v; want %v", next, ok, at(want))
		}
	}
	quiet := func() {
		t.Helper()
		if next, ok := m.Next(); ok {
			t.Errorf("next is %v; want none", next)
		}
	}
	quiet()
	m.Observe("a", failover.Up, at(0))
	m.Observe("b", failover.Up, at(0))
	quiet()
	m.Observe("b", failover.Failed, at(50))
	due(350)
	m.Observe("a", failover.Failed, at(100))
	due(350)
	m.Observe("b", failover.Up, at(200))
	due(400)
	m.Tick(at(399))
	due(400)
	m.Tick(at(400))
	quiet()
	m.Observe("a", failover.Up, at(1000))
	due(1300) // stable
	m.Tick(at(1300))
	due(1500) // delayed
	if target, when, ok := m.Pending(); !ok || target != "a" || !when.Equal(at(1500)) {
		t.Errorf("pending %q at %v, %v", target, when, ok)
	}
	must(m.Pin("b", at(1400), at(1350)))
	due(1400)
	if target, _, ok := m.Pending(); ok {
		t.Errorf("pending %q while pinned", target)
	}
	m.Tick(at(1400))
	quiet()
	if m.Current() != "a" {
		t.Errorf("current is %q", m.Current())
	}
}

// A driver that's late, early, or whose clock goes back does no harm.
func TestClock(t *testing.T) {
	t.Parallel()
	o := failover.Options{Recovery: 300 * ms}
	t.Run("late", func(t *testing.T) {
		t.Parallel()
		m := machine(t, o, "a", "b")
		m.Observe("a", failover.Up, at(0))
		m.Observe("b", failover.Up, at(0))
		m.Observe("a", failover.Failed, at(1000))
		if s := m.Observe("a", failover.Up, at(5000)); s != nil {
			t.Errorf("back before anyone looked, and still %v", s)
		}
		m.Observe("a", failover.Failed, at(5100)) // its credit is gone all the same
		if m.Current() != "b" {
			t.Errorf("current is %q", m.Current())
		}
	})
	t.Run("early", func(t *testing.T) {
		t.Parallel()
		m := machine(t, o, "a", "b")
		m.Observe("b", failover.Up, at(0))
		m.Observe("a", failover.Failed, at(10))
		for now := 10; now < 300; now++ {
			if s := m.Tick(at(now)); s != nil {
				t.Fatalf("%v", s)
			}
		}
		if s := m.Tick(at(300)); len(s) != 1 {
			t.Errorf("switches %v", s)
		}
	})
	t.Run("back", func(t *testing.T) {
		t.Parallel()
		m := machine(t, o, "a", "b")
		m.Observe("b", failover.Up, at(0))
		m.Tick(at(1000))
		m.Observe("a", failover.Up, at(500)) // counts as 1000
		m.Observe("a", failover.Failed, at(-9000))
		if next, ok := m.Next(); !ok || !next.Equal(at(1300)) {
			t.Errorf("next is %v, %v", next, ok)
		}
		if s := m.Tick(at(1299)); s != nil {
			t.Errorf("too early: %v", s)
		}
		if s := m.Tick(at(1300)); len(s) != 1 || !s[0].At.Equal(at(1300)) {
			t.Errorf("switches %v", s)
		}
		if d := m.Targets(at(0))[0].Downtime; d != 300*ms {
			t.Errorf("downtime %v", d)
		}
	})
}

func TestTargets(t *testing.T) {
	t.Parallel()
	m := machine(t, failover.Options{Recovery: 300 * ms}, "a", "b", "c")
	check := func(now int, want ...failover.TargetState) {
		t.Helper()
		if got := m.Targets(at(now)); !reflect.DeepEqual(got, want) {
			t.Errorf("at %d:\n  got  %+v\n  want %+v", now, got, want)
		}
	}
	m.Observe("a", failover.Trying, at(10))
	m.Observe("b", failover.Up, at(20))
	m.Judge("c", failover.ByOperator, false, at(30))
	m.Judge("c", failover.ByErrorRatio, false, at(40))
	check(50,
		failover.TargetState{Name: "a", Current: true, State: failover.Recovering, Since: at(10), Reason: failover.Start, Until: at(310), Credit: true, Downtime: 40 * ms},
		failover.TargetState{Name: "b", State: failover.Ready, Since: at(20), Reason: failover.Start, Credit: true},
		failover.TargetState{
			Name: "c", State: failover.Down, Since: at(30), Reason: failover.Disabled, Credit: true, Downtime: 20 * ms,
			Bad: []failover.Signal{failover.ByErrorRatio, failover.ByOperator},
		},
	)
	m.Observe("a", failover.Failed, at(60))
	check(70,
		failover.TargetState{Name: "a", Current: true, State: failover.Recovering, Since: at(10), Reason: failover.Lost, Until: at(310), Downtime: 60 * ms},
		failover.TargetState{Name: "b", State: failover.Ready, Since: at(20), Reason: failover.Start, Credit: true},
		failover.TargetState{
			Name: "c", State: failover.Down, Since: at(30), Reason: failover.Disabled, Credit: true, Downtime: 40 * ms,
			Bad: []failover.Signal{failover.ByErrorRatio, failover.ByOperator},
		},
	)
	m.Tick(at(310))
	m.Observe("a", failover.Up, at(910))
	m.Observe("a", failover.Failed, at(960))
	m.Observe("a", failover.Up, at(1010))
	m.Judge("c", failover.ByOperator, true, at(1010))
	m.Judge("c", failover.ByErrorRatio, true, at(1030))
	check(2000,
		failover.TargetState{Name: "a", State: failover.Ready, Since: at(1010), Reason: failover.Recovered, Downtime: 950 * ms},
		failover.TargetState{Name: "b", Current: true, State: failover.Ready, Since: at(20), Reason: failover.Start, Credit: true},
		failover.TargetState{Name: "c", State: failover.Idle, Since: at(1030), Reason: failover.Recovered, Credit: true, Downtime: 1000 * ms},
	)
}

func TestRefused(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	for _, c := range []struct {
		name    string
		targets string // by commas
		options failover.Options
		says    []string
	}{
		{name: "empty name", targets: "a,,b", says: []string{"target 2", "empty name"}},
		{name: "twice", targets: "a,b,a", says: []string{"target 3", `"a"`, "target 1"}},
		{name: "too long", targets: "a", options: failover.Options{Recovery: day + 1}, says: []string{"Recovery", "MinUptime", "24h0m0s"}},
		{name: "all at once", targets: "a,a,", options: failover.Options{SwitchDelay: 2 * day, InitialGrace: 3 * day}, says: []string{"target 2", "target 3", "SwitchDelay is 48h", "InitialGrace is 72h"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			targets := strings.Split(c.targets, ",")
			_, err := failover.New(targets, c.options, epoch)
			for _, says := range c.says {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%v does not say %q", err, says)
				}
			}
			if _, err := failover.New([]string{"a"}, c.options, epoch); (c.options.Validate() == nil) != (err == nil) {
				t.Error("Validate and New disagree")
			}
		})
	}
	if _, err := failover.New(nil, failover.Options{}, epoch); err == nil {
		t.Error("a group without targets is no error")
	}
	if err := (failover.Options{Recovery: day, MinUptime: -day, InitialGrace: -1, SwitchDelay: day}).Validate(); err != nil {
		t.Error(err)
	}
}

// A bad update changes nothing, not even the clock.
func TestRefusedUpdateChangesNothing(t *testing.T) {
	t.Parallel()
	m := machine(t, failover.Options{Recovery: 300 * ms}, "a", "b")
	m.Observe("b", failover.Up, at(0))
	m.Observe("a", failover.Failed, at(10))
	before := m.Targets(at(10))
	if s, err := m.SetTargets([]string{"b", "b"}, at(9000)); err == nil || s != nil {
		t.Errorf("%v, %v", s, err)
	}
	if s, err := m.SetTargets(nil, at(9000)); err == nil || s != nil {
		t.Errorf("%v, %v", s, err)
	}
	if s, err := m.SetOptions(failover.Options{Recovery: 100 * time.Hour}, at(9000)); err == nil || s != nil {
		t.Errorf("%v, %v", s, err)
	}
	if next, _ := m.Next(); !reflect.DeepEqual(m.Targets(at(10)), before) || m.Current() != "a" || !next.Equal(at(300)) {
		t.Errorf("changed to %+v", m.Targets(at(10)))
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range failover.Reasons() {
		if s := r.String(); s == "" || strings.Contains(s, "(") || seen[s] {
			t.Errorf("reason %d is called %q", r, s)
		}
		seen[r.String()] = true
	}
	if len(seen) != 10 {
		t.Errorf("%d reasons", len(seen))
	}
	for got, want := range map[string]string{
		failover.Reason(10).String():      "Reason(10)",
		failover.Ready.String():           "ready",
		failover.Down.String():            "down",
		failover.State(4).String():        "State(4)",
		failover.Failed.String():          "failed",
		failover.Connectivity(4).String(): "Connectivity(4)",
		failover.ByErrorRatio.String():    "error_ratio",
		failover.ByOperator.String():      "operator",
		failover.Signal(3).String():       "Signal(3)",
		failover.Disabled.String():        "disabled",
	} {
		if got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}
