package selection_test

import (
	"container/heap"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/selection"
)

// backend says how long a call that starts now takes, and whether it fails.
type backend func(now time.Duration) (takes time.Duration, fails bool)

func answers(takes time.Duration) backend {
	return func(time.Duration) (time.Duration, bool) { return takes, false }
}

func fails(after time.Duration) backend {
	return func(time.Duration) (time.Duration, bool) { return after, true }
}

// call is one in flight.
type call struct {
	ends   time.Duration
	member int
	failed bool
}

type calls []call

func (c calls) Len() int           { return len(c) }
func (c calls) Less(i, j int) bool { return c[i].ends < c[j].ends }
func (c calls) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *calls) Push(x any)        { *c = append(*c, x.(call)) }
func (c *calls) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// simulation is a crowd of callers in virtual time, each of which makes a call as
// soon as the one before ended.
type simulation struct {
	policy   selection.Policy
	backends []backend

	now      time.Duration
	members  []*selection.Member
	view     selection.View
	state    selection.State
	inFlight calls

	started   []int // since the last reset, by member
	succeeded int
}

func simulate(p selection.Policy, callers int, backends ...backend) *simulation {
	s := &simulation{policy: p, backends: backends, members: members(len(backends)), started: make([]int, len(backends))}
	for _, m := range s.members {
		m.SetClock(func() time.Duration { return s.now })
	}
	s.view = selection.NewView(s.members...)
	for range callers {
		s.start()
	}
	return s
}

func (s *simulation) start() {
	i := s.policy.Choose(&s.view, new(selection.Call), &s.state)
	s.members[i].Start()
	s.started[i]++
	takes, failed := s.backends[i](s.now)
	heap.Push(&s.inFlight, call{s.now + takes, i, failed})
}

// run goes on until the given time and forgets the counts of before.
func (s *simulation) run(until time.Duration) {
	clear(s.started)
	s.succeeded = 0
	for s.inFlight[0].ends <= until {
		c := heap.Pop(&s.inFlight).(call)
		s.now = c.ends
		s.members[c.member].End(c.failed)
		if !c.failed {
			s.succeeded++
		}
		s.start()
	}
	s.now = until
}

// share is which part of the calls that were started went to member i.
func (s *simulation) share(i int) float64 {
	all := 0
	for _, n := range s.started {
		all += n
	}
	return float64(s.started[i]) / float64(all)
}

func withPenalty() []selection.Policy {
	return []selection.Policy{selection.P2C(), selection.LeastPending()}
}

// TestSP07QuickFailures: of three members one fails at once. With the penalty on
// it gets a third of the calls at most; without, as WithPenalty says, it attracts
// most.
func TestSP07QuickFailures(t *testing.T) {
	for _, p := range withPenalty() {
		for _, callers := range []int{3, 30, 300} {
			on := simulate(p, callers, fails(100*time.Microsecond), answers(10*time.Millisecond), answers(10*time.Millisecond))
			on.run(2 * time.Second) // the steady state
			on.run(6 * time.Second)
			if share := on.share(0); share > 1.0/3 {
				t.Errorf("%v, %d callers: the failing member gets %.0f%% of the calls, want 33%% at most", p, callers, 100*share)
			}
			off := simulate(p.WithPenalty(0), callers, fails(100*time.Microsecond), answers(10*time.Millisecond), answers(10*time.Millisecond))
			off.run(2 * time.Second)
			off.run(4 * time.Second)
			t.Logf("%v, %d callers: the failing member gets %.2f%%, without a penalty %.0f%%", p, callers, 100*on.share(0), 100*off.share(0))
			if share := off.share(0); callers > 3 && share < 0.5 {
				t.Errorf("%v without a penalty, %d callers: the failing member gets %.0f%%; WithPenalty documents more", p, callers, 100*share)
			}
		}
	}
}

// TestSP07BlackHole: one of three members never answers, and each call on it ends
// by its deadline. After the first deadline that costs a third of the throughput
// at most.
func TestSP07BlackHole(t *testing.T) {
	const deadline = time.Second
	for _, p := range withPenalty() {
		whole := simulate(p, 30, answers(10*time.Millisecond), answers(10*time.Millisecond), answers(10*time.Millisecond))
		whole.run(4 * time.Second)
		holed := simulate(p, 30, fails(deadline), answers(10*time.Millisecond), answers(10*time.Millisecond))
		holed.run(deadline)
		holed.run(deadline + 4*time.Second)
		left := float64(holed.succeeded) / float64(whole.succeeded)
		t.Logf("%v: %.0f%% of the throughput is left", p, 100*left)
		if left < 2.0/3 {
			t.Errorf("%v: %.0f%% of the throughput is left, want 67%% at least", p, 100*left)
		}
	}
}

// TestSP08Slope: a member that failed for a while and is well again is not
// flooded, neither when the penalty has ended nor on the way there.
func TestSP08Slope(t *testing.T) {
	const wellAgain, step = 2 * time.Second, 200 * time.Millisecond
	for _, p := range withPenalty() {
		for _, penalty := range []time.Duration{time.Second, 500 * time.Millisecond, 3 * time.Second} {
			sick := func(now time.Duration) (time.Duration, bool) {
				if now < wellAgain {
					return time.Millisecond, true
				}
				return 10 * time.Millisecond, false
			}
			s := simulate(p.WithPenalty(penalty), 20, sick, answers(10*time.Millisecond))
			s.run(wellAgain)
			if share := s.share(0); share > 0.5 {
				t.Errorf("%v, %v: while sick it gets %.0f%%", p, penalty, 100*share)
			}
			first, last := 0.0, 0.0
			for s.now < wellAgain+penalty+2*step {
				from := s.now
				s.run(from + step)
				last = s.share(0)
				if from == wellAgain {
					first = last
				}
				if last > 0.65 {
					t.Errorf("%v, %v: it gets %.0f%% from %v after it was well, want less than 65%%", p, penalty, 100*last, from-wellAgain)
				}
			}
			if last < 0.4 || first > last {
				t.Errorf("%v, %v: it begins with %.0f%% and ends with %.0f%%, want a rise to half", p, penalty, 100*first, 100*last)
			}
		}
	}
}

// TestSP06CancelIsNotAFailure: 500 calls on A that the caller cancelled leave its
// share alone; 500 that failed, by their deadline for example, do not.
func TestSP06CancelIsNotAFailure(t *testing.T) {
	for _, p := range withPenalty() {
		for _, failed := range []bool{false, true} {
			s := simulate(p, 0, answers(time.Millisecond), answers(time.Millisecond))
			for range 500 {
				s.members[0].Start()
				s.members[0].End(failed)
			}
			got := choices(p, s.view, 1000)[0]
			if !failed && (got < 400 || got > 600) {
				t.Errorf("%v: after cancelled calls A gets %d of 1,000, want about 500", p, got)
			}
			if failed && got > 100 {
				t.Errorf("%v: after failed calls A gets %d of 1,000, want few", p, got)
			}
		}
	}
}
