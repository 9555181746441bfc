package selection

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a member under a clock of the test's.
func failing(now *time.Duration) *Member {
	m := NewMember("a", Info{}, nil)
	m.SetClock(func() time.Duration { return *now })
	return m
}

func fail(m *Member, times int) {
	for range times {
		m.Start()
		m.End(true)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1.0/attempt+1e-9 }

// TestSP08PenaltyFades: one failure counts like one attempt and fades linearly
// over exactly the policy's time, whichever that is.
func TestSP08PenaltyFades(t *testing.T) {
	for _, over := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 251 * time.Millisecond, time.Second, 5 * time.Second, MaxPenalty} {
		for _, begin := range []time.Duration{0, time.Hour, 20 * 365 * 24 * time.Hour} { // the last has wrapped around
			now := begin
			m := failing(&now)
			if got := m.Penalty(over); got != 0 {
				t.Fatalf("%v of penalty without a failure", got)
			}
			fail(m, 1)
			for _, part := range []float64{0, 0.1, 0.5, 0.9, 1, 1.5, 100} {
				now = begin + time.Duration(part*float64(over))
				want := max(0, 1-part)
				if got := m.Penalty(over); math.Abs(got-want) > 1.0/attempt+float64(tick)/float64(over) {
					t.Errorf("penalty over %v, %v after the failure: %v, want %v", over, now-begin, got, want)
				}
			}
		}
	}
}

// TestPenaltyAddsUp: failures add to what is left of those before, up to a bound,
// and a penalty that ended leaves nothing to look at.
func TestPenaltyAddsUp(t *testing.T) {
	now := time.Hour
	m := failing(&now)
	fail(m, 3)
	now += 500 * time.Millisecond
	fail(m, 1)
	if got := m.Penalty(time.Second); !near(got, 2.5) {
		t.Errorf("three failures, half faded, and a new one: %v, want 2.5", got)
	}
	now += 500 * time.Millisecond
	if got := m.Penalty(time.Second); !near(got, 1.25) {
		t.Errorf("half a second later: %v, want 1.25", got)
	}
	if got := m.Penalty(0); got != 0 {
		t.Errorf("penalty that is off: %v", got)
	}
	if got, want := m.Penalty(time.Hour), m.Penalty(MaxPenalty); got != want {
		t.Errorf("a time too long counts %v, want as the longest, %v", got, want)
	}
	now += 500 * time.Millisecond
	if got := m.Penalty(time.Second); got != 0 {
		t.Errorf("a second after the last failure: %v, want 0", got)
	}
	if m.penalty.words[2].Load() != 0 {
		t.Error("a pick still has to read the clock")
	}

	fail(m, 300_000)
	if got := m.Penalty(time.Second); got != float64(maxAmount)/attempt {
		t.Errorf("300,000 failures: %v, want the bound %v", got, float64(maxAmount)/attempt)
	}
	now += 2 * time.Second
	if got := m.Penalty(time.Second); got != 0 {
		t.Errorf("two seconds later: %v", got)
	}
}

// TestPenaltyUnevenClocks: a reader whose clock is behind the failure sees all of
// it, and a failure that is noticed late does not make the sum older.
func TestPenaltyUnevenClocks(t *testing.T) {
	now := time.Hour
	m := failing(&now)
	fail(m, 1)
	now -= time.Millisecond
	if got := m.Penalty(time.Second); !near(got, 1) {
		t.Errorf("a millisecond before the failure: %v, want 1", got)
	}
	fail(m, 1)
	now += 501 * time.Millisecond // half a second after the first
	if got := m.Penalty(time.Second); !near(got, 1) {
		t.Errorf("two failures, half faded: %v, want 1", got)
	}
}

// TestPenaltyConcurrent: no failure is lost, and none is counted twice.
func TestPenaltyConcurrent(t *testing.T) {
	now := time.Hour
	m := failing(&now)
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 1000 {
				fail(m, 1)
				m.Penalty(time.Second)
			}
		})
	}
	work.Wait()
	if got := m.Penalty(time.Second); got != 8000 {
		t.Errorf("8,000 failures count %v", got)
	}
	if m.Pending() != 0 || m.Picks() != 8000 {
		t.Errorf("%d pending and %d picks, want 0 and 8,000", m.Pending(), m.Picks())
	}
}

// TestPenaltyClock: the process's clock, and synctest's in its place.
func TestPenaltyClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMember("a", Info{}, nil)
		fail(m, 4)
		time.Sleep(250 * time.Millisecond)
		if got := m.Penalty(time.Second); !near(got, 3) {
			t.Errorf("a quarter of a second after four failures: %v, want 3", got)
		}
		time.Sleep(750 * time.Millisecond)
		if got := m.Penalty(time.Second); got != 0 {
			t.Errorf("a second after four failures: %v, want 0", got)
		}
	})
}
