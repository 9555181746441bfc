package admission_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slicewire/slicewire/balancer/admission"
)

const method = "/shop.Cart/Add"

var (
	worked  = admission.Outcome{Kind: admission.OK}
	failed  = admission.Outcome{Kind: admission.RemoteError, Code: 14}
	gaveUp  = admission.Outcome{Kind: admission.Cancelled, Code: 1}
	late    = admission.Outcome{Kind: admission.Deadline, Code: 4}
	notSent = admission.Outcome{Kind: admission.NotSent}
)

// bench is one circuit, its clock and what its observer was told.
type bench struct {
	testing.TB
	*admission.Circuit
	now   time.Duration
	edges []string
}

func newBench(t testing.TB, o admission.BreakerOptions) *bench {
	t.Helper()
	b := &bench{TB: t, now: time.Hour}
	o.Clock = func() time.Duration { return b.now }
	o.Observer = func(e admission.Edge) { b.edges = append(b.edges, e.String()) }
	b.Circuit = newCircuit(t, o)
	return b
}

func newCircuit(t testing.TB, o admission.BreakerOptions) *admission.Circuit {
	t.Helper()
	breaker, err := admission.NewBreaker(o)
	if err != nil {
		t.Fatal(err)
	}
	return breaker.Guard("a").(*admission.Circuit)
}

func (b *bench) acquire() admission.Token {
	b.Helper()
	token, ok := b.TryAcquire(method)
	if !ok {
		b.Fatalf("a call was refused while the circuit is %v", b.State())
	}
	return token
}

func (b *bench) refused() {
	b.Helper()
	if _, ok := b.TryAcquire(method); ok {
		b.Fatalf("a call was admitted while the circuit is %v", b.State())
	}
}

// calls makes n calls that end with the outcome.
func (b *bench) calls(n int, o admission.Outcome) {
	b.Helper()
	for range n {
		b.Report(b.acquire(), o)
	}
}

func (b *bench) want(s admission.State) {
	b.Helper()
	if got := b.State(); got != s {
		b.Fatalf("the circuit is %v, want %v", got, s)
	}
}

// open opens the circuit with the defaults.
func (b *bench) open() {
	b.Helper()
	b.calls(20, failed)
	b.want(admission.Open)
}

// trial opens the circuit and takes the trial call's token.
func (b *bench) trial() admission.Token {
	b.Helper()
	b.open()
	b.now += 10 * time.Second
	token := b.acquire()
	b.want(admission.HalfOpen)
	return token
}

func TestS18OpenGuardRefusesAloneAndTellsWhen(t *testing.T) {
	now := time.Duration(0)
	breaker, err := admission.NewBreaker(admission.BreakerOptions{Clock: func() time.Duration { return now }})
	if err != nil {
		t.Fatal(err)
	}
	a, b := breaker.Guard("a"), breaker.Guard("b")
	if got := a.RetryAfter(); got != 0 {
		t.Errorf("a closed guard asks to retry after %v, want 0", got)
	}
	for range 20 {
		token, _ := a.TryAcquire(method)
		a.Report(token, failed)
	}
	if _, ok := a.TryAcquire(method); ok {
		t.Error("the guard of a admits after 20 failures")
	}
	if _, ok := b.TryAcquire(method); !ok {
		t.Error("the guard of b refuses after failures of a")
	}
	now += 4 * time.Second
	if got := a.RetryAfter(); got != 6*time.Second {
		t.Errorf("retry after %v, want 6s", got)
	}
	now += 7 * time.Second
	if got := a.RetryAfter(); got != 0 {
		t.Errorf("retry after %v when the time is over, want 0", got)
	}
}

func TestS19Verdicts(t *testing.T) {
	type row struct {
		kind admission.Kind
		code uint32
		want admission.Verdict
	}
	rows := []row{
		{admission.OK, 0, admission.Success},
		{admission.ConnectionClosed, 14, admission.Failure},
		{admission.ConnectionClosed, 0, admission.Failure},
		{admission.SendFailure, 14, admission.Failure},
		{admission.Cancelled, 1, admission.Ignore},
		{admission.Deadline, 4, admission.Ignore},
		{admission.NotSent, 0, admission.Ignore},
		{admission.NotSent, 14, admission.Ignore},
		{0, 14, admission.Ignore},
		{77, 14, admission.Ignore},
	}
	remote := map[uint32]admission.Verdict{
		1: admission.Ignore, 4: admission.Ignore,
		8: admission.Failure, 13: admission.Failure, 14: admission.Failure, 15: admission.Failure,
	}
	for code := range uint32(18) {
		want, ok := remote[code]
		if !ok {
			want = admission.Success
		}
		rows = append(rows, row{admission.RemoteError, code, want})
	}
	for _, r := range rows {
		for _, seen := range []bool{false, true} {
			o := admission.Outcome{Kind: r.kind, Code: r.code, ResponseSeen: seen, Elapsed: time.Hour}
			if got := o.Verdict(); got != r.want {
				t.Errorf("%v with code %d, response seen %v: verdict %d, want %d", r.kind, r.code, seen, got, r.want)
			}
		}
	}
}

func TestS19OnlyFailuresOpen(t *testing.T) {
	for kind := admission.OK; kind <= admission.NotSent; kind++ {
		for code := range uint32(17) {
			b := newBench(t, admission.BreakerOptions{})
			o := admission.Outcome{Kind: kind, Code: code}
			b.calls(19, o)
			b.want(admission.Closed)
			b.calls(1, o)
			if o.Verdict() == admission.Failure {
				b.want(admission.Open)
			} else {
				b.want(admission.Closed)
			}
		}
	}
}

func TestS20Breaker(t *testing.T) {
	for _, test := range []struct {
		name    string
		options admission.BreakerOptions
		run     func(b *bench)
	}{
		{"19 failures are too few", admission.BreakerOptions{}, func(b *bench) {
			b.calls(19, failed)
			b.want(admission.Closed)
		}},
		{"the 20th failure opens", admission.BreakerOptions{}, func(b *bench) {
			b.calls(20, failed)
			b.want(admission.Open)
			b.refused()
		}},
		{"half is enough", admission.BreakerOptions{}, func(b *bench) {
			b.calls(10, worked)
			b.calls(9, failed)
			b.want(admission.Closed)
			b.calls(1, failed)
			b.want(admission.Open)
		}},
		{"less than half is not", admission.BreakerOptions{}, func(b *bench) {
			b.calls(100, worked)
			b.calls(99, failed)
			b.want(admission.Closed)
			b.calls(1, failed)
			b.want(admission.Open)
		}},
		{"a success does not open", admission.BreakerOptions{}, func(b *bench) {
			b.calls(19, failed)
			b.calls(1, worked)
			b.want(admission.Closed)
			b.calls(1, failed)
			b.want(admission.Open)
		}},
		{"a tenth is 3 of 30", admission.BreakerOptions{FailureRatio: .1}, func(b *bench) {
			b.calls(27, worked)
			b.calls(2, failed)
			b.want(admission.Closed)
			b.calls(1, failed)
			b.want(admission.Open)
		}},
		{"all is all", admission.BreakerOptions{FailureRatio: 1, MinThroughput: 2}, func(b *bench) {
			b.calls(1, worked)
			b.calls(50, failed)
			b.want(admission.Closed)
		}},
		{"one is enough if set so", admission.BreakerOptions{FailureRatio: 1, MinThroughput: 1}, func(b *bench) {
			b.calls(1, failed)
			b.want(admission.Open)
		}},
		{"failures of 30 s ago are forgotten", admission.BreakerOptions{}, func(b *bench) {
			b.calls(19, failed)
			b.now += 30 * time.Second
			b.calls(1, failed)
			b.want(admission.Closed)
		}},
		{"failures of 28 s ago are not", admission.BreakerOptions{}, func(b *bench) {
			b.calls(19, failed)
			b.now += 28 * time.Second
			b.calls(1, failed)
			b.want(admission.Open)
		}},
		{"the window slides", admission.BreakerOptions{}, func(b *bench) {
			for range 100 { // 19 in any 30 s
				b.calls(1, failed)
				b.now += 30*time.Second/19 + 1
			}
			b.want(admission.Closed)
			for n := 0; n < 3 && b.State() == admission.Closed; n++ { // 17 are in it for sure
				b.calls(1, failed)
			}
			b.want(admission.Open)
		}},
		{"successes slide out too", admission.BreakerOptions{}, func(b *bench) {
			b.calls(1000, worked)
			b.now += 15 * time.Second
			b.calls(20, failed)
			b.want(admission.Closed)
			b.now += 15 * time.Second
			b.calls(1, failed)
			b.want(admission.Open)
		}},
		{"a time of any number of turns is forgotten", admission.BreakerOptions{}, func(b *bench) {
			for turns := 1; turns < 1000; turns++ {
				b.calls(1, failed)
				b.now += time.Duration(turns) * 30 * time.Second
			}
			b.want(admission.Closed)
		}},
		{"open for 10 s", admission.BreakerOptions{}, func(b *bench) {
			b.open()
			b.now += 10*time.Second - 1
			b.refused()
			b.want(admission.Open)
			b.now++
			b.acquire()
			b.want(admission.HalfOpen)
		}},
		{"half open admits one", admission.BreakerOptions{}, func(b *bench) {
			b.trial()
			b.refused()
			b.refused()
		}},
		{"half open, a success closes and counts anew", admission.BreakerOptions{}, func(b *bench) {
			b.Report(b.trial(), worked)
			b.want(admission.Closed)
			b.calls(19, failed)
			b.want(admission.Closed)
			b.calls(1, failed)
			b.want(admission.Open)
		}},
		{"half open, a failure opens for the whole time", admission.BreakerOptions{}, func(b *bench) {
			token := b.trial()
			b.now += 3 * time.Second
			b.Report(token, failed)
			b.want(admission.Open)
			b.now += 10*time.Second - 1
			b.refused()
			b.now++
			b.calls(1, worked)
			b.want(admission.Closed)
		}},
		{"half open, another error of the server closes", admission.BreakerOptions{}, func(b *bench) {
			b.Report(b.trial(), admission.Outcome{Kind: admission.RemoteError, Code: 5})
			b.want(admission.Closed)
		}},
		{"half open, 3 of 3 must succeed", admission.BreakerOptions{HalfOpenCalls: 3}, func(b *bench) {
			first := b.trial()
			second, third := b.acquire(), b.acquire()
			b.refused()
			b.Report(second, worked)
			b.Report(first, worked)
			b.want(admission.HalfOpen)
			b.refused()
			b.Report(third, worked)
			b.want(admission.Closed)
		}},
		{"half open, 1 of 3 fails", admission.BreakerOptions{HalfOpenCalls: 3}, func(b *bench) {
			first := b.trial()
			second, third := b.acquire(), b.acquire()
			b.Report(second, worked)
			b.Report(first, failed)
			b.want(admission.Open)
			b.Report(third, worked)
			b.want(admission.Open)
		}},
		{"half open, a call that was not sent gives its permit back", admission.BreakerOptions{}, func(b *bench) {
			b.Report(b.trial(), notSent)
			b.want(admission.HalfOpen)
			token := b.acquire()
			b.refused()
			b.Report(token, worked)
			b.want(admission.Closed)
		}},
		{"half open, a permit is given back once", admission.BreakerOptions{HalfOpenCalls: 2}, func(b *bench) {
			b.Report(b.trial(), worked)
			token := b.acquire()
			b.Report(token, notSent)
			b.Report(token, notSent)
			b.acquire()
			b.refused()
		}},
		{"half open, a call that ran out of time keeps its permit until it lapses", admission.BreakerOptions{}, func(b *bench) {
			for _, o := range []admission.Outcome{late, {Kind: admission.RemoteError, Code: 4}} {
				token := b.trial()
				b.now += time.Second
				b.Report(token, o)
				b.want(admission.HalfOpen)
				b.refused()
				b.now += 9*time.Second + time.Millisecond
				b.calls(1, worked)
				b.want(admission.Closed)
			}
		}},
		{"half open, a permit that is never reported lapses", admission.BreakerOptions{}, func(b *bench) {
			b.trial()
			for range 3000 { // more than there are rounds
				b.now += 10*time.Second - time.Millisecond
				b.refused()
				if got := b.RetryAfter(); got < time.Millisecond || got > 2*time.Millisecond {
					b.Fatalf("retry after %v, want about 1ms", got)
				}
				b.now += 2 * time.Millisecond
				if got := b.RetryAfter(); got != 0 {
					b.Fatalf("retry after %v, want 0", got)
				}
				b.acquire()
				b.refused()
			}
			b.now += 11 * time.Second
			b.calls(1, worked)
			b.want(admission.Closed)
		}},
		{"half open, a permit that lapsed is not given back", admission.BreakerOptions{}, func(b *bench) {
			lapsed := b.trial()
			b.now += 11 * time.Second
			b.acquire()
			b.Report(lapsed, notSent)
			b.refused()
		}},
		{"half open, what a call with a lapsed permit says counts", admission.BreakerOptions{}, func(b *bench) {
			slow := b.trial()
			b.now += 11 * time.Second
			b.acquire()
			b.Report(slow, worked)
			b.want(admission.Closed)
		}},
		{"half open, a lapse keeps the successes", admission.BreakerOptions{HalfOpenCalls: 3}, func(b *bench) {
			b.Report(b.trial(), worked)
			slow := []admission.Token{b.acquire(), b.acquire()}
			b.now += 11 * time.Second
			b.acquire()
			b.Report(slow[0], worked) // 2 of 3, and one in flight whose permit is valid
			b.refused()
			b.Report(slow[1], worked)
			b.want(admission.Closed)
		}},
		{"a late report of the closed epoch is ignored when open", admission.BreakerOptions{}, func(b *bench) {
			early := b.acquire()
			b.open()
			b.Report(early, worked)
			b.want(admission.Open)
			b.refused()
		}},
		{"a late report of the closed epoch is ignored when half open", admission.BreakerOptions{}, func(b *bench) {
			early := []admission.Token{b.acquire(), b.acquire(), b.acquire()}
			b.trial()
			b.Report(early[0], worked)
			b.want(admission.HalfOpen)
			b.Report(early[1], failed)
			b.want(admission.HalfOpen)
			b.Report(early[2], notSent)
			b.refused()
		}},
		{"late reports of old epochs are ignored when closed again", admission.BreakerOptions{MinThroughput: 1}, func(b *bench) {
			early := b.acquire()
			b.calls(1, failed)
			b.now += 10 * time.Second
			slow := b.acquire()
			b.now += 11 * time.Second
			b.calls(1, worked)
			b.want(admission.Closed)
			b.Report(early, failed)
			b.Report(slow, failed)
			b.want(admission.Closed)
		}},
		{"a token of nobody is ignored", admission.BreakerOptions{MinThroughput: 1}, func(b *bench) {
			for _, token := range []admission.Token{0, 1, 1 << 63, math.MaxUint64} {
				b.Report(token, failed)
			}
			b.want(admission.Closed)
		}},
		{"the judge may be another", admission.BreakerOptions{Judge: func(o admission.Outcome) admission.Verdict {
			if o.Elapsed > time.Second {
				return admission.Failure
			}
			return admission.Success
		}}, func(b *bench) {
			b.calls(20, failed)
			b.want(admission.Closed)
			b.calls(20, admission.Outcome{Kind: admission.OK, Elapsed: 2 * time.Second})
			b.want(admission.Open)
		}},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newBench(t, test.options)) })
	}
}

func TestS20ReturnedEndpointStartsClosed(t *testing.T) {
	breaker, err := admission.NewBreaker(admission.BreakerOptions{MinThroughput: 1})
	if err != nil {
		t.Fatal(err)
	}
	old := breaker.Guard("a")
	token, _ := old.TryAcquire(method)
	old.Report(token, failed)
	again := breaker.Guard("a")
	if got := old.(*admission.Circuit).State(); got != admission.Open {
		t.Fatalf("the guard before is %v, want open", got)
	}
	if _, ok := again.TryAcquire(method); !ok {
		t.Error("the guard of an endpoint that returned refuses")
	}
}

func TestS20EdgesAreTold(t *testing.T) {
	b := newBench(t, admission.BreakerOptions{})
	b.Report(b.trial(), failed)
	b.now += 10 * time.Second
	b.calls(1, worked)
	want := []string{
		"breaker of a: closed to open, 20 of 20 calls failed, next trial in 10s",
		"breaker of a: open to half_open",
		"breaker of a: half_open to open, 1 of 1 calls failed, next trial in 10s",
		"breaker of a: open to half_open",
		"breaker of a: half_open to closed",
	}
	if d := cmp.Diff(want, b.edges); d != "" {
		t.Errorf("edges (-want +got):\n%s", d)
	}
}

// A pick allocates nothing in any state, also where it moves the circuit on.
func TestS18TryAcquireAllocatesNothing(t *testing.T) {
	var now time.Duration
	c := newCircuit(t, admission.BreakerOptions{MinThroughput: 1, Clock: func() time.Duration { return now }})
	want := func(s admission.State) {
		t.Helper()
		if c.State() != s {
			t.Fatalf("the circuit is %v, want %v", c.State(), s)
		}
		if n := testing.AllocsPerRun(100, func() { c.TryAcquire(method) }); n != 0 {
			t.Errorf("%v: %v allocations for each pick", s, n)
		}
	}
	want(admission.Closed)
	if n := testing.AllocsPerRun(100, func() {
		token, _ := c.TryAcquire(method)
		c.Report(token, worked)
	}); n != 0 {
		t.Errorf("%v allocations for each call", n)
	}
	for range 101 {
		token, _ := c.TryAcquire(method)
		c.Report(token, failed)
	}
	want(admission.Open)

	// AllocsPerRun calls once to warm up: that one does not move it on, the next does.
	first := true
	if n := testing.AllocsPerRun(1, func() {
		if !first {
			now += time.Minute
		}
		first = false
		c.TryAcquire(method)
	}); n != 0 {
		t.Errorf("open to half open: %v allocations", n)
	}
	want(admission.HalfOpen)
}

// An observer may use the circuit; what it changes there is told afterwards. If
// it panics, later edges are told all the same.
func TestS20ObserverMayUseTheCircuit(t *testing.T) {
	var edges []string
	var c *admission.Circuit
	now, inside, angry := time.Duration(0), 0, false
	c = newCircuit(t, admission.BreakerOptions{
		MinThroughput: 1,
		Clock:         func() time.Duration { return now },
		Observer: func(e admission.Edge) {
			if inside++; inside > 1 {
				t.Error("told of an edge inside another")
			}
			defer func() { inside-- }()
			edges = append(edges, fmt.Sprint(e.From, ">", e.To))
			if angry {
				panic("angry")
			}
			if now == 0 {
				now = time.Minute
				token, _ := c.TryAcquire(method)
				c.Report(token, worked)
			}
		},
	})
	fail := func() {
		defer func() { _ = recover() }()
		token, _ := c.TryAcquire(method)
		c.Report(token, failed)
	}
	fail()
	angry = true
	fail()
	now += time.Minute
	fail() // open to half open: angry in the pick
	angry = false
	now += time.Minute
	fail()
	want := []string{"closed>open", "open>half_open", "half_open>closed", "closed>open", "open>half_open", "half_open>open"}
	if d := cmp.Diff(want, edges); d != "" {
		t.Errorf("edges (-want +got):\n%s", d)
	}
}

// Field case SP-06: what the caller ends is no fault of the endpoint.
func TestSP06CancelsAreNobodysFault(t *testing.T) {
	b := newBench(t, admission.BreakerOptions{})
	for _, o := range []admission.Outcome{gaveUp, late, notSent} {
		b.calls(500, o)
		b.want(admission.Closed)
	}
	// Nor do they make the share of failures smaller.
	b.calls(10, worked)
	b.calls(10, failed)
	b.want(admission.Open)

	b.now += 10 * time.Second
	for range 500 {
		b.Report(b.acquire(), gaveUp)
		b.want(admission.HalfOpen)
	}
	b.calls(1, worked)
	b.want(admission.Closed)
}

// The process's clock, which the other tests replace.
func TestS20OwnClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCircuit(t, admission.BreakerOptions{})
		for range 20 {
			token, _ := c.TryAcquire(method)
			c.Report(token, failed)
		}
		if got := c.RetryAfter(); got != 10*time.Second {
			t.Errorf("retry after %v, want 10s", got)
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		if _, ok := c.TryAcquire(method); ok {
			t.Error("admitted before 10 s")
		}
		time.Sleep(time.Nanosecond)
		token, ok := c.TryAcquire(method)
		if !ok {
			t.Fatal("refused after 10 s")
		}
		c.Report(token, worked)
		if got := c.State(); got != admission.Closed {
			t.Errorf("the circuit is %v, want closed", got)
		}
	})
}

func TestBreakerOptionsReportEveryProblem(t *testing.T) {
	_, err := admission.NewBreaker(admission.BreakerOptions{
		MinThroughput: -1, FailureRatio: math.NaN(), Window: time.Millisecond, OpenFor: -1, HalfOpenCalls: 32,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{
		"MinThroughput is -1; allowed is 1 to 1000000 calls",
		"FailureRatio is NaN; allowed is above 0 and at most 1",
		"Window is 1ms; allowed is 1s to 24h0m0s",
		"OpenFor is -1ns; allowed is 1ms to 24h0m0s",
		"HalfOpenCalls is 32; allowed is 1 to 31 calls",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q:\n%v", part, err)
		}
	}
	for _, o := range []admission.BreakerOptions{
		{MinThroughput: 1_000_001},
		{FailureRatio: -.1},
		{FailureRatio: 1.01},
		{FailureRatio: math.Inf(1)},
		{Window: 25 * time.Hour},
		{OpenFor: 25 * time.Hour},
		{HalfOpenCalls: -1},
	} {
		if _, err := admission.NewBreaker(o); err == nil {
			t.Errorf("no error for %+v", o)
		}
	}
}

func TestNames(t *testing.T) {
	var got []string
	for k := range admission.NotSent + 2 {
		got = append(got, k.String())
	}
	for s := range admission.Open + 2 {
		got = append(got, s.String())
	}
	want := []string{
		"kind(0)", "ok", "remote_error", "connection_closed", "send_failure", "cancelled", "deadline", "not_sent", "kind(8)",
		"closed", "half_open", "open", "state(3)",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("names (-want +got):\n%s", d)
	}
}
