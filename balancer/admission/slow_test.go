package admission_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/admission"
)

// lasting is an outcome after so long.
func lasting(o admission.Outcome, d time.Duration) admission.Outcome {
	o.Elapsed = d
	return o
}

// TestS20SlowCalls: with SlowAfter the share of slow calls opens the breaker, and a
// slow trial opens it again. Off, and by default, time does not matter.
func TestS20SlowCalls(t *testing.T) {
	const limit = time.Second
	slow := lasting(worked, limit+1)
	b := newBench(t, admission.BreakerOptions{SlowAfter: limit})
	b.calls(11, lasting(worked, limit))
	b.calls(9, slow)
	b.want(admission.Closed)
	b.calls(2, slow) // 11 of 22
	b.want(admission.Open)
	b.now += 10 * time.Second
	b.calls(1, slow)
	b.want(admission.Open)
	b.now += 10 * time.Second
	b.calls(1, worked)
	b.want(admission.Closed)

	b = newBench(t, admission.BreakerOptions{})
	b.calls(100, lasting(worked, time.Hour))
	b.want(admission.Closed)
}

// TestS20WhatIsSlow: how it ended does not matter, save that what the caller
// cancelled and what was not sent says nothing, and that a Judge is not asked.
func TestS20WhatIsSlow(t *testing.T) {
	for _, c := range []struct {
		outcome admission.Outcome
		opens   bool
	}{
		{worked, true},
		{late, true},
		{failed, true},
		{admission.Outcome{Kind: admission.RemoteError, Code: 5}, true},
		{gaveUp, false},
		{notSent, false},
		{admission.Outcome{}, false},
	} {
		o := admission.BreakerOptions{SlowAfter: time.Second, Judge: func(admission.Outcome) admission.Verdict { return admission.Ignore }}
		b := newBench(t, o)
		for range 20 {
			b.Report(b.acquire(), lasting(c.outcome, 2*time.Second))
		}
		if opened := b.State() == admission.Open; opened != c.opens {
			t.Errorf("20 slow calls that ended with %v: open %v, want %v", c.outcome.Kind, opened, c.opens)
		}
	}
}

// TestS20OpenJitter: times in which it is open differ by the jitter, RetryAfter and
// the observer tell the one that was drawn.
func TestS20OpenJitter(t *testing.T) {
	b := newBench(t, admission.BreakerOptions{OpenJitter: 0.2})
	distinct := make(map[time.Duration]bool)
	for range 200 {
		b.open()
		d := b.RetryAfter()
		if d < 8*time.Second || d > 12*time.Second {
			t.Fatalf("it is open for %v, want 10s ± 20%%", d)
		}
		distinct[d] = true
		if last := b.edges[len(b.edges)-1]; !strings.Contains(last, "next trial in "+d.String()) {
			t.Fatalf("the observer was told %q, want %v", last, d)
		}
		b.now += d - 1
		b.refused()
		b.now++
		b.calls(1, worked)
		b.want(admission.Closed)
		b.now += time.Minute // out of the window
	}
	if len(distinct) < 190 {
		t.Errorf("only %d distinct times", len(distinct))
	}
	for _, o := range []admission.BreakerOptions{{OpenJitter: -0.1}, {OpenJitter: 0.51}, {SlowAfter: -1}} {
		if _, err := admission.NewBreaker(o); err == nil || !strings.Contains(err.Error(), "allowed is") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
