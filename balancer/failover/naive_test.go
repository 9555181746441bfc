package failover

import "slices"

// naive is the rules of a group once more, in the plainest way: it lives through
// each millisecond, counts how old everything is, and looks at all of it each time.
// It knows no deadline, which the machine must get right on its own.
type naive struct {
	options Options // no defaults
	targets []*naiveTarget
	current *naiveTarget
	pinned  *naiveTarget
	pinLeft int

	candidate *naiveTarget
	waited    int // by the candidate
	quiet     int // since the last delay ended
}

type naiveTarget struct {
	name                              string
	said                              Connectivity
	everUp, failed, flapped           bool
	lost                              bool // within a window, or down
	down                              bool
	graceWindow                       bool
	age, upFor, lostFor, availableFor int
	aheadFor                          int // since a list put it before the current one; negative if none did
	bad                               map[Signal]bool
}

func newNaive(targets []string, o Options) *naive {
	n := &naive{options: o}
	for _, name := range targets {
		n.targets = append(n.targets, newNaiveTarget(name))
	}
	n.current = n.targets[0]
	return n
}

func newNaiveTarget(name string) *naiveTarget {
	return &naiveTarget{name: name, said: Dormant, aheadFor: -1, bad: map[Signal]bool{}}
}

func (n *naive) ms(field string) int {
	recovery := 1000
	pick := func(d, otherwise int) int {
		switch {
		case d == 0:
			return otherwise
		case d < 0:
			return 0
		}
		return d
	}
	recovery = pick(int(n.options.Recovery.Milliseconds()), recovery)
	switch field {
	case "uptime":
		return pick(int(n.options.MinUptime.Milliseconds()), recovery)
	case "grace":
		return pick(int(n.options.InitialGrace.Milliseconds()), min(1000, recovery))
	case "delay":
		return pick(int(n.options.SwitchDelay.Milliseconds()), 0)
	}
	return recovery
}

func (n *naive) isGood(t *naiveTarget) bool {
	for _, bad := range t.bad {
		if bad {
			return false
		}
	}
	return true
}

func (n *naive) available(t *naiveTarget) bool { return !t.lost && n.isGood(t) }
func (n *naive) dead(t *naiveTarget) bool      { return t.down || !n.isGood(t) }

func (n *naive) mayTakeOver(t *naiveTarget) bool {
	connecting := t.said == Trying
	proven := t.everUp || t.age >= n.ms("grace")
	return n.available(t) && !t.flapped && !connecting && proven
}

func (n *naive) state(t *naiveTarget) State {
	switch {
	case n.dead(t):
		return Down
	case t.lost:
		return Recovering
	case t.said == Up:
		return Ready
	}
	return Idle
}

// pass lets a millisecond pass.
func (n *naive) pass() {
	for _, t := range n.targets {
		t.age++
		t.upFor++
		t.lostFor++
		t.availableFor++
		if t.aheadFor >= 0 {
			t.aheadFor++
		}
	}
	n.waited++
	n.quiet++
	n.pinLeft--
	n.look(nil)
}

// look does what is due, then what happens, then chooses.
func (n *naive) look(event func()) {
	n.due()
	released := false
	if n.pinned != nil && n.pinLeft <= 0 {
		n.pinned, released = nil, true
	}
	before := map[*naiveTarget]bool{}
	for _, t := range n.targets {
		before[t] = t.availableFor >= 0
	}
	if event != nil {
		had := n.pinned
		event()
		released = had != nil && n.pinned == nil || released && n.pinned == nil
		n.due()
	}
	for _, t := range n.targets {
		switch was, is := before[t], n.available(t); {
		case is && !was:
			t.availableFor = 0
		case !is:
			t.availableFor, t.aheadFor = -1<<40, -1
		}
	}
	n.choose(released)
}

func (n *naive) due() {
	for _, t := range n.targets {
		if t.said == Up && t.upFor >= n.ms("uptime") {
			t.flapped = false
		}
		window := n.ms("recovery")
		if t.graceWindow {
			window = n.ms("grace")
		}
		if t.lost && !t.down && t.lostFor >= window {
			t.down, t.flapped = true, true
		}
	}
}

func (n *naive) choose(released bool) {
	if n.pinned != nil {
		n.setCandidate(nil)
		n.switchTo(n.pinned)
		return
	}
	position := slices.Index(n.targets, n.current)
	if position < 0 {
		for _, t := range n.targets {
			if n.available(t) {
				n.switchTo(t)
				return
			}
		}
		n.switchTo(n.targets[0])
		return
	}
	ahead, behind := n.targets[:position], n.targets[position+1:]
	if !n.available(n.current) {
		n.setCandidate(nil)
		choice := slices.Clone(ahead)
		if n.dead(n.current) {
			choice = append(choice, behind...)
		}
		for _, t := range choice {
			if n.available(t) {
				n.switchTo(t)
				return
			}
		}
		return
	}
	var best *naiveTarget
	for _, t := range ahead {
		if n.mayTakeOver(t) {
			best = t
			break
		}
	}
	if released && best != nil {
		n.switchTo(best)
		return
	}
	n.setCandidate(best)
	if best != nil && n.waited >= n.ms("delay") {
		n.switchTo(best)
	}
}

func (n *naive) setCandidate(t *naiveTarget) {
	if t == n.candidate {
		return
	}
	if n.candidate != nil {
		n.quiet = 0
	}
	if n.candidate = t; t != nil {
		n.waited = min(t.availableFor, n.quiet)
		if t.aheadFor >= 0 {
			n.waited = min(n.waited, t.aheadFor)
		}
	}
}

func (n *naive) switchTo(t *naiveTarget) {
	if t == n.current {
		return
	}
	n.current, n.candidate, n.quiet = t, nil, 0
	for _, t := range n.targets {
		t.aheadFor = -1
	}
}

func (n *naive) find(name string) *naiveTarget {
	for _, t := range n.targets {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (n *naive) apply(e step) {
	n.look(func() {
		t := n.find(e.target)
		switch {
		case e.kind == stepObserve && t != nil:
			n.observe(t, e.link)
		case e.kind == stepJudge && t != nil:
			t.bad[e.signal] = !e.good
		case e.kind == stepTargets:
			n.list(e.targets)
		case e.kind == stepOptions:
			n.options = e.options
		case e.kind == stepPin && t != nil:
			n.pinned, n.pinLeft = t, e.pinned
		case e.kind == stepUnpin:
			n.pinned = nil
		}
	})
}

func (n *naive) list(names []string) {
	var list []*naiveTarget
	position := slices.Index(n.targets, n.current)
	at := slices.Index(names, n.current.name)
	for i, name := range names {
		t := n.find(name)
		wasAhead := t != nil && slices.Index(n.targets, t) < position
		if t == nil {
			t = newNaiveTarget(name)
		}
		if i >= at {
			t.aheadFor = -1
		} else if !wasAhead {
			t.aheadFor = 0
		}
		list = append(list, t)
	}
	n.targets = list
	if n.pinned != nil && !slices.Contains(names, n.pinned.name) {
		n.pinned = nil
	}
}

func (n *naive) observe(t *naiveTarget, c Connectivity) {
	before := t.said
	t.said = c
	if c == Up {
		if before != Up {
			t.upFor = 0
		}
		t.everUp, t.failed, t.lost, t.down = true, false, false, false
		return
	}
	if c == Failed {
		t.failed = true
	}
	window := n.ms("recovery")
	if !t.everUp {
		window = n.ms("grace")
	}
	switch {
	case c == Dormant && !t.failed && !t.down:
		t.lost = false // nothing speaks against it
	case c == Dormant || t.lost || c == Trying && window == 0:
	case !t.everUp:
		t.lost, t.graceWindow, t.lostFor = true, true, 0
		if c == Failed {
			t.lostFor = t.age
		}
	case t.flapped:
		t.lost = true // in the window it had, which may be over
	default:
		t.lost, t.graceWindow, t.lostFor, t.flapped = true, false, 0, true
	}
	if c == Failed {
		t.flapped = true
	}
}
