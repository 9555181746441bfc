package assignment

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/backoff"
)

// virtual is a machine with a clock that the test turns.
type virtual struct {
	*machine
	t   *testing.T
	now time.Time
}

func newVirtual(t *testing.T, revision Revision, random float64) *virtual {
	return &virtual{t: t, now: time.Unix(1000, 0), machine: &machine{
		revision: revision,
		backoff:  backoff.Config{BaseDelay: time.Second, Multiplier: 2, Jitter: 0.2, MaxDelay: 10 * time.Second},
		minGap:   time.Second,
		random:   func() float64 { return random },
	}}
}

func (v *virtual) pass(d time.Duration) { v.now = v.now.Add(d) }

// open opens a stream at once and checks what it announces.
func (v *virtual) open(wantGeneration int64) {
	v.t.Helper()
	if g := v.opening(v.now); g != wantGeneration {
		v.t.Errorf("the stream announces generation %d, want %d", g, wantGeneration)
	}
	v.opened(v.now)
}

// answer is metadata, and then built with a usable assignment or not.
func (v *virtual) answer(generation int64, usable bool) decision {
	d := v.metadata(generation)
	if !d.build {
		return d
	}
	if usable {
		return v.built(generation, &Assignment{Generation: generation}, "")
	}
	return v.built(generation, nil, "1 of 1 slices are unusable")
}

func ackText(d decision) string {
	if d.ack == nil {
		return "none"
	}
	return fmt.Sprintf("%d %v %v", d.ack.Generation, d.ack.Accepted, d.ack.ErrorMessage != "")
}

// A-18, AP-01, AP-04: what is accepted, refused and announced.
func TestMachineGenerations(t *testing.T) {
	for _, revision := range []Revision{Revision202608, Revision202610} {
		t.Run(revision.String(), func(t *testing.T) {
			v := newVirtual(t, revision, 0.5)
			v.open(0)
			steps := []struct {
				generation int64
				usable     bool
				want       string // generation, accepted, with text
				end        bool
			}{
				{0, true, "0 false true", false},
				{-3, true, "-3 false true", false},
				{7, true, "7 true false", false},
				{7, true, "7 false true", false},
				{5, true, "5 false true", false},
				{8, true, "8 true false", false},
				{9, false, "9 false true", revision == Revision202608},
				{9, true, "9 true false", false}, // a refused generation may come again, mended
				{1 << 62, true, fmt.Sprint(int64(1<<62), " true false"), false},
				{-1 << 63, true, fmt.Sprint(int64(-1<<63), " false true"), false},
			}
			for _, s := range steps {
				d := v.answer(s.generation, s.usable)
				if got := ackText(d); got != s.want {
					t.Errorf("generation %d: ack %q, want %q", s.generation, got, s.want)
				}
				if d.end != s.end {
					t.Errorf("generation %d: end is %v, want %v", s.generation, d.end, s.end)
				}
				if (d.publish != nil) != d.ack.Accepted {
					t.Errorf("generation %d: published %v, accepted %v", s.generation, d.publish, d.ack.Accepted)
				}
				if d.verdict == stale && d.report {
					t.Errorf("generation %d: a stale generation is reported", s.generation)
				}
			}
		})
	}
	t.Run("AP-04 a refused generation is not announced", func(t *testing.T) {
		v := newVirtual(t, Revision202610, 0.5)
		v.open(0)
		v.answer(1, true)
		v.answer(2, false)
		v.ended(v.now, errors.New("broken"))
		v.open(1)
	})
}

// AP-07 and its absence: who is told of errors before the first good assignment.
func TestMachineReports(t *testing.T) {
	for revision, want := range map[Revision]bool{Revision202608: false, Revision202610: true} {
		t.Run(revision.String(), func(t *testing.T) {
			v := newVirtual(t, revision, 0.5)
			v.open(0)
			d := v.answer(1, false)
			if d.report != want || !errors.Is(d.err, errRefused) {
				t.Errorf("unusable: report %v (%v), want %v", d.report, d.err, want)
			}
			d = v.ended(v.now, errors.New("UNAVAILABLE"))
			if d.report != want || d.err == nil {
				t.Errorf("ended: report %v (%v), want %v", d.report, d.err, want)
			}
		})
	}
}

// the spacing of streams. Each step ends a stream that lived for lived
// after good answers or none, and says how long after its end the next may start.
func TestMachineBackoff(t *testing.T) {
	type step struct {
		lived time.Duration
		good  bool
		want  time.Duration
	}
	s, ms := time.Second, time.Millisecond
	tests := []struct {
		name   string
		random float64
		steps  []step
	}{
		{"grows to the most and stays", 0.5, []step{{0, false, s}, {0, false, 2 * s}, {0, false, 4 * s}, {0, false, 8 * s}, {0, false, 10 * s}, {0, false, 10 * s}}},
		{"jitter below", 0, []step{{s, false, 800 * ms}, {s, false, 1600 * ms}}},
		{"jitter above", 1, []step{{s, false, 1200 * ms}, {s, false, 2400 * ms}}},
		{"never below the gap", 0, []step{{0, false, s}}},
		{"a good assignment resets it", 0.5, []step{{0, false, s}, {0, false, 2 * s}, {5 * s, true, 500 * ms}, {0, false, s}}},
		{"good and gone at once waits for the gap", 0.5, []step{{0, true, 1500 * ms}, {200 * ms, true, 1300 * ms}, {0, true, 1500 * ms}}},
		{"good and long: jitter only", 0.9, []step{{time.Hour, true, 900 * ms}}},
		{"silent for long is no series of failures", 0.5, []step{{0, false, s}, {0, false, 2 * s}, {time.Hour, false, s}, {time.Hour, false, s}}},
		{"a minute is what long is", 0.5, []step{{59 * s, false, s}, {59 * s, false, 2 * s}, {61 * s, false, s}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := newVirtual(t, Revision202608, tt.random)
			generation := int64(0)
			for i, step := range tt.steps {
				v.open(generation)
				if step.good {
					generation++
					v.answer(generation, true)
				} else {
					v.answer(generation, true) // stale: no good assignment
				}
				v.pass(step.lived)
				d := v.ended(v.now, errors.New("gone"))
				if got := d.openAt.Sub(v.now).Round(ms); got != step.want {
					t.Errorf("step %d: next stream after %v, want %v", i, got, step.want)
				}
				v.now = d.openAt
			}
		})
	}
	t.Run("a good stream that turns bad backs off", func(t *testing.T) {
		v := newVirtual(t, Revision202608, 0.5)
		for i, want := range []time.Duration{s, s} { // reset by the good one each time
			v.open(int64(i))
			v.answer(int64(i+1), true)
			d := v.answer(int64(i+2), false)
			if !d.end {
				t.Fatal("the stream goes on after an invalid assignment")
			}
			v.pass(10 * s)
			d = v.ended(v.now, d.err)
			if got := d.openAt.Sub(v.now); got != want {
				t.Errorf("next stream after %v, want %v", got, want)
			}
			v.now = d.openAt
		}
	})
	t.Run("waiting for a connection is no part of a stream", func(t *testing.T) {
		v := newVirtual(t, Revision202608, 0)
		v.opening(v.now)
		v.pass(time.Hour)
		v.opened(v.now)
		v.answer(1, true)
		if got := v.ended(v.now, errors.New("gone")).openAt.Sub(v.now); got != s {
			t.Errorf("next stream after %v, want the gap", got)
		}
	})
}

// AP-09: a refresh is no failure and jittered by a tenth.
func TestMachineRefresh(t *testing.T) {
	v := newVirtual(t, Revision202610, 0.5)
	v.open(0)
	v.pass(time.Minute)
	if d := v.silent(v.now); !d.openAt.Equal(v.now) || d.report || d.err != nil {
		t.Errorf("silent: %+v, want one new stream now and nothing else", d)
	}
	if v.retries != 0 {
		t.Error("a refresh counts as a failure")
	}
	for random, want := range map[float64]time.Duration{0: 54 * time.Second, 0.5: 60 * time.Second, 1: 66 * time.Second} {
		v := newVirtual(t, Revision202608, random)
		if got := v.spread(time.Minute).Round(time.Millisecond); got != want {
			t.Errorf("random %v: refresh after %v, want %v", random, got, want)
		}
	}
}

func TestMachineAckTextIsBounded(t *testing.T) {
	v := newVirtual(t, Revision202610, 0.5)
	v.open(0)
	v.metadata(1)
	d := v.built(1, nil, strings.Repeat("世", 10_000))
	checkMessage(t, d.ack.ErrorMessage)
}

func TestDelay(t *testing.T) {
	c := backoff.DefaultConfig
	for retries, want := range []time.Duration{1000, 1600, 2560, 4096} {
		if got := delay(c, retries, 0.5).Round(time.Millisecond); got != want*time.Millisecond {
			t.Errorf("delay after %d retries is %v, want %v", retries, got, want*time.Millisecond)
		}
	}
	if got := delay(c, 1<<30, 0.5); got != 120*time.Second {
		t.Errorf("delay is %v, want the most", got)
	}
	if got := delay(backoff.Config{BaseDelay: time.Second, MaxDelay: time.Minute}, 1<<30, 0.5); got != time.Second {
		t.Errorf("delay without a multiplier is %v", got)
	}
	if got := delay(backoff.Config{BaseDelay: time.Second, Multiplier: 2, Jitter: 3, MaxDelay: time.Minute}, 0, 0); got != 0 {
		t.Errorf("delay is %v, below 0 is 0", got)
	}
}

// A backoff with a delay left out is no hot loop.
func TestPartialBackoff(t *testing.T) {
	most, base := backoff.DefaultConfig.MaxDelay, backoff.DefaultConfig.BaseDelay
	for name, c := range map[string]struct {
		in          backoff.Config
		first, last time.Duration
	}{
		"only the base":   {backoff.Config{BaseDelay: time.Minute, Multiplier: 2}, time.Minute, most},
		"only the most":   {backoff.Config{MaxDelay: time.Minute, Multiplier: 2}, base, time.Minute},
		"most below base": {backoff.Config{MaxDelay: time.Millisecond}, time.Millisecond, time.Millisecond},
		"only a jitter":   {backoff.Config{Jitter: 0.1}, base, base},
	} {
		got := Options{Backoff: c.in}.withDefaults().Backoff
		if first, last := delay(got, 0, 0.5), delay(got, 100, 0.5); first != c.first || last != c.last {
			t.Errorf("%s: %v at first, %v at last, want %v and %v", name, first, last, c.first, c.last)
		}
	}
}

// The phases, from the facts: what outranks what.
func TestStanding(t *testing.T) {
	a, boom := &Assignment{}, errors.New("boom")
	c := Config{ChannelKey: "the-key", Target: "the-target"}
	tests := []struct {
		name  string
		facts standing
		want  Phase
		err   []string
	}{
		{"nothing", standing{}, Unconfigured, nil},
		{"configured", standing{configured: true}, Waiting, nil},
		{"stream error, not reported", standing{configured: true, lastErr: boom}, Waiting, nil},
		{"reported", standing{configured: true, reported: boom}, Failed, []string{"boom"}},
		{"provider", standing{configured: true, providerErr: boom}, Failed, []string{"boom"}},
		{"expired after an error", standing{configured: true, config: c, expired: true, waited: time.Minute, lastErr: boom}, Failed, []string{"1m0s", `"the-key"`, `"the-target"`, "boom"}},
		{"expired without a connection", standing{configured: true, config: c, expired: true, waited: time.Minute}, Failed, []string{"no stream could be opened"}},
		{"expired in an outage", standing{configured: true, config: c, expired: true, waited: time.Minute, unreachable: boom, lastErr: errors.New("older")}, Failed, []string{"the-target\"); boom"}},
		{"expired with a silent stream", standing{configured: true, config: c, expired: true, waited: time.Minute, connected: true}, Failed, []string{"a stream is open"}},
		{"AP-11 an assignment outranks all", standing{configured: true, assignment: a, expired: true, reported: boom, providerErr: boom, lastErr: boom}, Assigned, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.facts.state()
			if s.Phase != tt.want || (s.Err != nil) != (tt.want == Failed) || (s.Assignment != nil) != (tt.want == Assigned) {
				t.Fatalf("state %+v, want phase %v", s, tt.want)
			}
			for _, want := range tt.err {
				if !strings.Contains(s.Err.Error(), want) {
					t.Errorf("error %q does not name %q", s.Err, want)
				}
			}
		})
	}
}

// what a new channel leaves of an old error.
func TestStandingNewChannel(t *testing.T) {
	boom := errors.New("boom")
	failed := func() standing { return standing{configured: true, expired: true, lastErr: boom} }
	for revision, want := range map[Revision]Phase{Revision202608: Waiting, Revision202610: Failed} {
		s := failed()
		s.newChannel(revision)
		if got := s.state().Phase; got != want {
			t.Errorf("%v: phase %v, want %v", revision, got, want)
		}
		p := standing{configured: true, providerErr: boom}
		p.newChannel(revision)
		if got := p.state().Phase; got != Waiting {
			t.Errorf("%v: phase %v after the provider recovered, want waiting", revision, got)
		}
		target := failed()
		target.newClient(Config{Target: "other"})
		if got := target.state().Phase; got != Failed {
			t.Errorf("%v: phase %v after a change of target on one channel, whose timer has fired; want failed", revision, got)
		}
	}
}
