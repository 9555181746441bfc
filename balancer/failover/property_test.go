package failover

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

var storyStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// eachStory runs a check on many random stories; the seed of a failure is in its
// message.
func eachStory(t *testing.T, n int, check func(story) error) {
	t.Helper()
	if testing.Short() {
		n /= 10
	}
	for seed := range uint64(n) {
		s := storyOf(randomBytes(seed))
		if err := check(s); err != nil {
			t.Fatalf("seed %d: %v\n%v", seed, err, s)
		}
	}
}

func randomBytes(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 6))
	data := make([]byte, 8+r.IntN(200))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// TestG07ModelCheck holds the rules of a group on random stories, whether its driver
// ticks in time or not at all.
func TestG07ModelCheck(t *testing.T) {
	t.Parallel()
	eachStory(t, 3_000, func(s story) error {
		return errors.Join(s.check(true), s.check(false))
	})
}

func TestSameEventsSameResult(t *testing.T) {
	t.Parallel()
	eachStory(t, 800, func(s story) error {
		if once, again := s.switches(false), s.switches(false); !slices.Equal(once, again) {
			return fmt.Errorf("switches %v, then %v", once, again)
		}
		return nil
	})
}

// Ticks between the deadlines change nothing, so Next forgets none.
func TestTicksBetweenDeadlinesChangeNothing(t *testing.T) {
	t.Parallel()
	eachStory(t, 800, func(s story) error {
		if want, got := s.switches(false), s.switches(true); !slices.Equal(got, want) {
			return fmt.Errorf("ticked each ms it makes %v; when it asked to be %v", got, want)
		}
		return nil
	})
}

// switches are those of a story whose driver ticks each millisecond, or when the
// machine asked for it.
func (s story) switches(always bool) (all []Switch) {
	m := s.machine()
	now := storyStart
	for _, e := range s.steps {
		for range e.wait {
			now = now.Add(time.Millisecond)
			if next, ok := m.Next(); always || ok && !next.After(now) {
				all = append(all, m.Tick(now)...)
			}
		}
		all = append(all, e.apply(m, now)...)
	}
	return all
}

// A clock that went back counts as one that stood still.
func TestBackwardsIsNow(t *testing.T) {
	t.Parallel()
	eachStory(t, 800, func(s story) error {
		forward, back := s.machine(), s.machine()
		now := storyStart
		for i, e := range s.steps {
			now = now.Add(time.Duration(e.wait) * time.Millisecond)
			if e.kind == stepPin {
				continue // its end depends on the clock
			}
			forward.Tick(now)
			back.Tick(now)
			a, b := e.apply(forward, now), e.apply(back, now.Add(-time.Duration(i)*time.Hour))
			if !slices.Equal(a, b) || !reflect.DeepEqual(forward.Targets(now), back.Targets(now)) {
				return fmt.Errorf("step %d: %v, and with a clock that went back %v", i, a, b)
			}
		}
		return nil
	})
}

// TestNaive compares with the naive machine after each millisecond in which one
// of them may do something.
func TestNaive(t *testing.T) {
	t.Parallel()
	eachStory(t, 1_000, story.compare)
}

// FuzzMachine looks for a story that breaks a rule.
func FuzzMachine(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 200 {
			return
		}
		s := storyOf(data)
		for _, punctual := range []bool{true, false} {
			if err := s.check(punctual); err != nil {
				t.Fatalf("%v\n%v", err, s)
			}
		}
		if err := s.compare(); err != nil {
			t.Fatalf("%v\n%v", err, s)
		}
	})
}

func (s story) machine() *Machine {
	m, err := New(s.targets, s.options, storyStart)
	if err != nil {
		panic(err)
	}
	return m
}

// compare lives through a story with both machines. Ours is ticked only when it
// asked to be.
func (s story) compare() error {
	m, n := s.machine(), newNaive(s.targets, s.options)
	now := storyStart
	same := func() error {
		if m.Current() != n.current.name {
			return fmt.Errorf("at %v: %q is current, by the naive machine %q", now.Sub(storyStart), m.Current(), n.current.name)
		}
		for i, t := range m.Targets(now) {
			if want := n.state(n.targets[i]); t.State != want || t.Name != n.targets[i].name {
				return fmt.Errorf("at %v: %s is %v, by the naive machine %v", now.Sub(storyStart), t.Name, t.State, want)
			}
		}
		return nil
	}
	for i, e := range s.steps {
		for range e.wait {
			now = now.Add(time.Millisecond)
			if next, ok := m.Next(); ok && !next.After(now) {
				m.Tick(now)
			}
			n.pass()
			if err := same(); err != nil {
				return err
			}
		}
		e.apply(m, now)
		n.apply(e)
		if err := same(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// check runs a story and holds the rules after each call. The driver of the
// machine ticks in time, or never by itself.
func (s story) check(punctual bool) error {
	c := checker{m: s.machine()}
	c.causes = 1
	now := storyStart
	call := func(what string, do func() []Switch) error {
		if err := c.call(now, do); err != nil {
			return fmt.Errorf("at %v, %s: %w", now.Sub(storyStart), what, err)
		}
		return nil
	}
	for i, e := range s.steps {
		to := now.Add(time.Duration(e.wait) * time.Millisecond)
		for next, ok := c.m.Next(); punctual && ok && !next.After(to); next, ok = c.m.Next() {
			now = next
			if err := call("a tick that's due", func() []Switch { return c.m.Tick(now) }); err != nil {
				return err
			}
		}
		now = to
		if e.kind == stepTargets || e.kind == stepOptions || e.kind == stepPin || e.kind == stepUnpin {
			c.causes++
		}
		if err := call(fmt.Sprintf("step %d", i), func() []Switch { return e.apply(c.m, now) }); err != nil {
			return err
		}
		for what, again := range map[string]func() []Switch{
			"a tick after it": func() []Switch { return c.m.Tick(now) },
			"the same again": func() []Switch {
				if e.kind == stepObserve || e.kind == stepJudge || e.kind == stepTargets || e.kind == stepOptions {
					return e.apply(c.m, now)
				}
				return nil
			},
		} {
			before := c.m.Targets(now)
			var made []Switch
			if err := call(what, func() []Switch { made = again(); return made }); err != nil {
				return err
			}
			if made != nil || !reflect.DeepEqual(c.m.Targets(now), before) {
				return fmt.Errorf("step %d: %s is a cause of its own: %v", i, what, made)
			}
		}
	}
	return nil
}

// checker holds the rules.
type checker struct {
	m        *Machine
	was      []targetSign
	pinned   bool
	causes   int // things that happened which may make a group switch
	switches int
}

// targetSign is what of a target decides where traffic goes.
type targetSign struct {
	name                 string
	available, takesOver bool
	down                 bool
}

func (c *checker) call(now time.Time, do func() []Switch) error {
	m := c.m
	from := m.Current()
	switches := do()
	c.count(now)

	// Where it was and where it is.
	switch {
	case len(switches) > 1:
		return fmt.Errorf("one call made %v", switches)
	case len(switches) == 0 && m.Current() != from:
		return fmt.Errorf("from %s to %s without a switch", from, m.Current())
	case len(switches) == 1:
		s := switches[0]
		if s.From != from || s.To != m.Current() || s.From == s.To || s != m.Last() || s.Reason == Start || s.Reason >= numReasons || !s.At.Equal(now) {
			return fmt.Errorf("from %s to %s by %v", from, m.Current(), s)
		}
		if c.switches++; c.switches > c.causes {
			return fmt.Errorf("%d switches by %d causes", c.switches, c.causes)
		}
	}
	if next, ok := m.Next(); ok && !next.After(now) {
		return fmt.Errorf("next is %v, which has passed", next)
	}
	return c.holds(now)
}

// count counts the causes: a target that changed in what decides, a list, timings
// or a pin that came or went.
func (c *checker) count(now time.Time) {
	var is []targetSign
	for _, t := range c.m.targets {
		is = append(is, targetSign{t.name, t.state.Available(), t.takesOver(&c.m.options, now), t.state == Down})
	}
	for _, sign := range is {
		if !slices.Contains(c.was, sign) {
			c.causes++
		}
	}
	_, _, pinned := c.m.Pinned()
	if pinned != c.pinned {
		c.causes++
	}
	c.was, c.pinned = is, pinned
}

// holds are the rules of which target is current.
func (c *checker) holds(now time.Time) error {
	targets := c.m.Targets(now)
	at := slices.IndexFunc(targets, func(t TargetState) bool { return t.Current })
	if at < 0 || targets[at].Name != c.m.Current() {
		return fmt.Errorf("%q is current, of %+v", c.m.Current(), targets)
	}
	for _, t := range targets {
		if t.State == Recovering && !t.Until.After(now) {
			return fmt.Errorf("%+v is still recovering", t)
		}
		if t.State.Available() && len(t.Bad) > 0 {
			return fmt.Errorf("%+v is available", t)
		}
	}
	candidate, due, pending := c.m.Pending()
	if pending && !due.After(now) {
		return fmt.Errorf("a switch to %s is still pending, due at %v", candidate, due)
	}
	if pinned, until, ok := c.m.Pinned(); ok {
		if pinned != c.m.Current() || !until.After(now) || pending {
			return fmt.Errorf("pinned to %q until %v, pending is %q", pinned, until, candidate)
		}
		return nil
	}
	available := func(t TargetState) bool { return t.State.Available() }
	switch targets[at].State {
	case Down:
		if i := slices.IndexFunc(targets, available); i >= 0 {
			return fmt.Errorf("on %s, which is down, while %s is available", targets[at].Name, targets[i].Name)
		}
	case Recovering:
		if i := slices.IndexFunc(targets[:at], available); i >= 0 {
			return fmt.Errorf("on %s, which is recovering, while %s is available", targets[at].Name, targets[i].Name)
		}
	default:
		stable := func(t TargetState) bool { return t.State == Ready && t.Credit }
		if i := slices.IndexFunc(targets[:at], stable); i >= 0 && !pending {
			return fmt.Errorf("on %s, while %s is ready and stable and no switch is pending", targets[at].Name, targets[i].Name)
		}
		if pending && !slices.ContainsFunc(targets[:at], func(t TargetState) bool { return t.Name == candidate && available(t) }) {
			return fmt.Errorf("a switch is pending to %s, which is not better than %s", candidate, targets[at].Name)
		}
	}
	if pending && !targets[at].State.Available() {
		return fmt.Errorf("a switch is pending from %s, which is %v", targets[at].Name, targets[at].State)
	}
	return nil
}
