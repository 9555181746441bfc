package failover

import (
	"time"
)

// Machine decides which target of a group is current. It is told what happens and
// when, and does nothing by itself: who drives it calls [Machine.Tick] when
// [Machine.Next] says so.
//
// It is not safe for concurrent use; one goroutine owns it. Given the same calls
// it decides the same. A time before one that it was told already counts as the
// latter. What is told late counts as happening then: of several deadlines that
// have passed only what is true after all of them decides. So no call makes more
// than one switch, and what the calls return holds none or one.
type Machine struct {
	options Options
	targets []*target // best first
	current *target
	last    Switch
	now     time.Time // the latest it was told
	turns   uint64    // see target.turn

	pin   *target
	until time.Time // of the pin

	// The delayed switch: to this candidate, waiting since then. It belongs to one
	// candidate and one start; another candidate or another current target starts a
	// new one (G-09).
	candidate *target
	since     time.Time
	notBefore time.Time // when the last one ended: no new one started earlier
}

// New makes the machine of a group. Its first target is current, whatever it will
// turn out to be; until they are observed all targets are [Idle].
//
// It is an error if the list is empty or names a target twice, or if a timing is
// not allowed.
func New(targets []string, o Options, now time.Time) (*Machine, error) {
	o, err := validated(targets, o)
	if err != nil {
		return nil, err
	}
	m := &Machine{options: o, now: now, notBefore: now}
	for _, name := range targets {
		m.targets = append(m.targets, newTarget(name, now))
	}
	m.current = m.targets[0]
	m.last = Switch{To: m.current.name, Reason: Start, At: now}
	return m, nil
}

// Observe tells what the channel of a target says of itself. A repeated
// observation changes nothing, nor does one of a target that's not in the list: it
// may have been removed a moment ago.
func (m *Machine) Observe(target string, c Connectivity, now time.Time) []Switch {
	ended := m.advance(now)
	if t := m.find(target); t != nil && int(c) < len(connectivityNames) {
		t.observe(c, &m.options, m.now)
	}
	return m.decide(ended)
}

// Judge tells what a signal beside connectivity says of a target. A bad verdict
// takes the target out at once, without the credit that a lost connection has; a
// good one gives back what connectivity says. All are good at first. A target that
// is not in the list is ignored.
func (m *Machine) Judge(target string, s Signal, good bool, now time.Time) []Switch {
	ended := m.advance(now)
	if t := m.find(target); t != nil && s < numSignals {
		t.bad[s] = !good
	}
	return m.decide(ended)
}

// Tick tells that time has passed. It's due at [Machine.Next]; too early it
// changes nothing, too late it does what is right then.
func (m *Machine) Tick(now time.Time) []Switch { return m.decide(m.advance(now)) }

// Next is when Tick is due, false while nothing waits for time to pass. It may be
// another after any call.
func (m *Machine) Next() (time.Time, bool) {
	var next time.Time
	consider := func(at time.Time) {
		if at.After(m.now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	ahead := m.pin == nil // of the current target, where it matters if one is settled
	for _, t := range m.targets {
		if t == m.current {
			ahead = false
		}
		if t.link == Recovering {
			consider(t.until(&m.options))
		}
		if at, ok := t.settles(&m.options); ok && ahead {
			consider(at)
		}
	}
	if m.pin != nil {
		consider(m.until)
	}
	if m.candidate != nil {
		consider(m.since.Add(m.options.SwitchDelay))
	}
	return next, !next.IsZero()
}

// SetOptions changes the timings. They hold for what is already under way as if
// they had been there when it began: a window of recovery or grace that is open
// ends that long after it was opened, which may be now, an uptime that has reached
// the new minimum is enough, and a delayed switch is due that long after its
// start. A window that is over is not opened again, and a pin keeps its end. If a
// timing is not allowed, nothing changes.
func (m *Machine) SetOptions(o Options, now time.Time) ([]Switch, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	ended := m.advance(now)
	m.options = o
	return m.decide(m.advance(now) || ended), nil
}

// Current is the name of the current target.
func (m *Machine) Current() string { return m.current.name }

// Last is the switch that made the current target current. That of a new group
// comes from nowhere and has the reason [Start].
func (m *Machine) Last() Switch { return m.last }

// Pending is the target that traffic will move to if nothing happens before then,
// false while no switch is being delayed.
func (m *Machine) Pending() (target string, at time.Time, ok bool) {
	if m.candidate == nil {
		return "", time.Time{}, false
	}
	return m.candidate.name, m.since.Add(m.options.SwitchDelay), true
}

// advance brings the clock forward and deals with deadlines of targets and of the
// pin; it says whether the pin ended.
func (m *Machine) advance(now time.Time) (ended bool) {
	if now.After(m.now) {
		m.now = now
	}
	for _, t := range m.targets {
		t.earn(&m.options, m.now)
		t.expire(&m.options, m.now)
	}
	if m.pin != nil && !m.now.Before(m.until) {
		m.pin = nil
		return true
	}
	return false
}

func (m *Machine) find(name string) *target {
	for _, t := range m.targets {
		if t.name == name {
			return t
		}
	}
	return nil
}
