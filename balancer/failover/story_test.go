package failover

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A story is a random run of a group: timings, a list, and steps that are a
// number of milliseconds apart. The properties are checked on it, and the machine
// is compared with a naive one.
type story struct {
	options Options
	targets []string
	steps   []step
}

type step struct {
	wait    int // ms since the step before
	kind    stepKind
	target  string
	link    Connectivity
	signal  Signal
	good    bool
	targets []string
	options Options
	pinned  int // ms
}

type stepKind int

const (
	stepObserve stepKind = iota
	stepJudge
	stepTargets
	stepOptions
	stepPin
	stepUnpin
	stepTick
)

// storyOf reads a story out of bytes, so that a fuzzer can write them. All bytes are
// a story.
func storyOf(data []byte) story {
	next := func() int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b)
	}
	timing := func() time.Duration {
		return []time.Duration{-1, 0, 5, 20, 50, 100, 300, 1000}[next()%8] * time.Millisecond
	}
	timings := func() Options {
		return Options{Recovery: timing(), MinUptime: timing(), InitialGrace: timing(), SwitchDelay: timing()}
	}
	// Half of the stories are of three targets that come and go, nothing else: what
	// has to do with uptimes and windows is rare where all sorts of things happen.
	calm := next()%2 == 0
	name := func() string {
		if calm {
			return string(rune('a' + next()%3))
		}
		return string(rune('a' + next()%5))
	}
	names := func() (list []string) {
		for range 1 + next()%4 {
			if n := name(); !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
		return list
	}

	s := story{options: timings(), targets: []string{"a", "b", "c"}}
	if !calm {
		s.targets = names()
	}
	for len(data) > 0 {
		e := step{wait: []int{0, 0, 1, 5, 19, 20, 21, 50, 99, 100, 300, 999, 1000, 1500}[next()%14]}
		kind := next() % 16
		if calm {
			kind = 7
		}
		switch kind {
		case 0, 1:
			e.kind, e.target, e.signal, e.good = stepJudge, name(), Signal(next()%int(numSignals)), next()%2 == 0
		case 2:
			e.kind, e.targets = stepTargets, names()
		case 3:
			e.kind, e.options = stepOptions, timings()
		case 4:
			e.kind, e.target, e.pinned = stepPin, name(), 1+10*next()
		case 5:
			e.kind = stepUnpin
		case 6:
			e.kind = stepTick
		default:
			e.kind, e.target, e.link = stepObserve, name(), Connectivity(next()%4)
		}
		s.steps = append(s.steps, e)
	}
	return s
}

// apply does a step. A pin that is refused lets the time pass all the same.
func (e step) apply(m *Machine, now time.Time) []Switch {
	var s []Switch
	switch e.kind {
	case stepObserve:
		s = m.Observe(e.target, e.link, now)
	case stepJudge:
		s = m.Judge(e.target, e.signal, e.good, now)
	case stepTargets:
		s, _ = m.SetTargets(e.targets, now)
	case stepOptions:
		s, _ = m.SetOptions(e.options, now)
	case stepPin:
		var err error
		if s, err = m.Pin(e.target, now.Add(time.Duration(e.pinned)*time.Millisecond), now); err != nil {
			s = m.Tick(now)
		}
	case stepUnpin:
		s = m.Unpin(now)
	case stepTick:
		s = m.Tick(now)
	}
	return s
}

func (e step) String() string {
	what := "tick"
	switch e.kind {
	case stepObserve:
		what = fmt.Sprintf("%s %v", e.target, e.link)
	case stepJudge:
		what = fmt.Sprintf("%s good=%v by %v", e.target, e.good, e.signal)
	case stepTargets:
		what = "list " + strings.Join(e.targets, " ")
	case stepOptions:
		what = fmt.Sprintf("%+v", e.options)
	case stepPin:
		what = fmt.Sprintf("pin %s for %d", e.target, e.pinned)
	case stepUnpin:
		what = "unpin"
	}
	return fmt.Sprintf("+%d %s", e.wait, what)
}

func (s story) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %+v", s.targets, s.options)
	for _, e := range s.steps {
		fmt.Fprintf(&b, "\n  %v", e)
	}
	return b.String()
}
