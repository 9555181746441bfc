package failover_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/failover"
)

// script is a story in virtual time: what happens to a group, each line at its
// millisecond, and the switches that follow. The machine is ticked when it asks to
// be and at the end.
type script struct {
	name    string
	targets string // by spaces, best first; "a b" by default
	options failover.Options
	events  []event
	end     int      // ms; that of the last event by default
	want    []string // "300 a>b lost"
	states  string   // at the end, if given: "down ready"
}

type event struct {
	at int // ms
	do func(*failover.Machine, time.Time) []failover.Switch
}

const ms = time.Millisecond

// epoch has no monotonic clock, like a time in a test should.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

func observe(ms int, target string, c failover.Connectivity) event {
	return event{ms, func(m *failover.Machine, now time.Time) []failover.Switch { return m.Observe(target, c, now) }}
}

func up(ms int, target string) event      { return observe(ms, target, failover.Up) }
func dormant(ms int, target string) event { return observe(ms, target, failover.Dormant) }
func trying(ms int, target string) event  { return observe(ms, target, failover.Trying) }
func failed(ms int, target string) event  { return observe(ms, target, failover.Failed) }

func good(ms int, target string, s failover.Signal) event {
	return event{ms, func(m *failover.Machine, now time.Time) []failover.Switch { return m.Judge(target, s, true, now) }}
}

func bad(ms int, target string, s failover.Signal) event {
	return event{ms, func(m *failover.Machine, now time.Time) []failover.Switch { return m.Judge(target, s, false, now) }}
}

func list(ms int, targets string) event {
	return event{ms, func(m *failover.Machine, now time.Time) []failover.Switch {
		return must(m.SetTargets(strings.Fields(targets), now))
	}}
}

func timings(ms int, o failover.Options) event {
	return event{ms, func(m *failover.Machine, now time.Time) []failover.Switch { return must(m.SetOptions(o, now)) }}
}

func pin(ms int, target string, until int) event {
	return event{ms, func(m *failover.Machine, now time.Time) []failover.Switch {
		return must(m.Pin(target, at(until), now))
	}}
}

func unpin(ms int) event { return event{ms, (*failover.Machine).Unpin} }
func tick(ms int) event  { return event{ms, (*failover.Machine).Tick} }

func must(s []failover.Switch, err error) []failover.Switch {
	if err != nil {
		panic(err)
	}
	return s
}

func (s script) run(t *testing.T) {
	t.Helper()
	targets := strings.Fields(s.targets)
	if len(targets) == 0 {
		targets = []string{"a", "b"}
	}
	m, err := failover.New(targets, s.options, epoch)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	add := func(now time.Time, switches []failover.Switch) {
		for _, s := range switches {
			if !s.At.Equal(now) {
				t.Errorf("switch says %v, happened at %v", s.At, now)
			}
			got = append(got, fmt.Sprintf("%d %s>%s %v", s.At.Sub(epoch)/ms, s.From, s.To, s.Reason))
		}
	}
	ticks := 0
	advance := func(to time.Time) {
		for next, ok := m.Next(); ok && next.Before(to); next, ok = m.Next() {
			add(next, m.Tick(next))
			if ticks++; ticks > 1000 {
				t.Fatalf("1000 ticks, and again at %v", next)
			}
		}
	}
	for i, e := range s.events {
		if i > 0 && e.at < s.events[i-1].at {
			t.Fatalf("event %d is before the one before it", i)
		}
		advance(at(e.at))
		add(at(e.at), e.do(m, at(e.at)))
	}
	if n := len(s.events); s.end == 0 && n > 0 {
		s.end = s.events[n-1].at
	}
	advance(at(s.end))
	add(at(s.end), m.Tick(at(s.end)))
	if !slices.Equal(got, s.want) {
		t.Errorf("switches:\n  got  %q\n  want %q", got, s.want)
	}
	var states []string
	for _, st := range m.Targets(at(s.end)) {
		states = append(states, st.State.String())
	}
	if states := strings.Join(states, " "); s.states != "" && states != s.states {
		t.Errorf("states at the end: %s; want %s", states, s.states)
	}
}

func runAll(t *testing.T, scripts []script) {
	t.Helper()
	for _, s := range scripts {
		t.Run(s.name, s.run)
	}
}
