package failover

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// TargetState is what a group knows of one of its targets.
type TargetState struct {
	Name    string
	Current bool
	State   State
	Since   time.Time // of the state
	Reason  Reason    // of the state
	// Until is when a target that is Recovering by its connectivity will be down if
	// it is not up before; else zero.
	Until time.Time
	// Credit says whether the target would be given Recovery if it were lost now, and
	// may take traffic from one that works. A target that is up earns it by
	// MinUptime.
	Credit bool
	// Bad are the signals beside connectivity that condemn the target.
	Bad []Signal
	// Downtime is how long the target was not available, Recovering or Down, since it
	// was added.
	Downtime time.Duration
}

// Targets says how all targets are, best first, as of the last call that told the
// time; downtimes count up to now.
func (m *Machine) Targets(now time.Time) []TargetState {
	if now.Before(m.now) {
		now = m.now
	}
	states := make([]TargetState, len(m.targets))
	for i, t := range m.targets {
		states[i] = TargetState{
			Name: t.name, Current: t == m.current,
			State: t.state, Since: t.since, Reason: t.reason,
			Credit: t.credit, Downtime: t.downtime,
		}
		s := &states[i]
		if t.link == Recovering {
			s.Until = t.until(&m.options)
		}
		if !t.state.Available() {
			s.Downtime += now.Sub(t.turned)
		}
		for signal, bad := range t.bad {
			if bad {
				s.Bad = append(s.Bad, Signal(signal))
			}
		}
	}
	return states
}

// SetTargets replaces the list. Targets that stay keep what is known of them; new
// ones are [Idle] and have their grace before them. If the current target is not
// in it, the first available one is current at once, or the first of all if none
// is (G-11), and a pin to it has ended. If it is, the order decides as always: an
// available target that is now before it takes over after SwitchDelay.
//
// It is an error if the list is empty or names a target twice; then nothing
// changes.
func (m *Machine) SetTargets(targets []string, now time.Time) ([]Switch, error) {
	if err := validateTargets(targets); err != nil {
		return nil, err
	}
	ended := m.advance(now)
	before := map[*target]bool{} // those that were before the current target
	for _, t := range m.targets {
		if t == m.current {
			break
		}
		before[t] = true
	}
	list := make([]*target, len(targets))
	for i, name := range targets {
		if list[i] = m.find(name); list[i] == nil {
			list[i] = newTarget(name, m.now)
		}
	}
	m.targets = list

	at := slices.Index(list, m.current)
	if at < 0 {
		return m.replace(), nil
	}
	for _, t := range list[:at] {
		if !before[t] {
			t.ahead = m.now
		}
	}
	return m.decide(ended), nil
}

// replace finds a current target in place of one that's no longer in the list.
func (m *Machine) replace() []Switch {
	m.pin = nil
	for _, t := range m.targets {
		t.refresh(&m.turns, m.now)
	}
	for _, t := range m.targets {
		if t.state.Available() {
			return m.to(t, Removed)
		}
	}
	return m.to(m.targets[0], Removed)
}

func validated(targets []string, o Options) (Options, error) {
	o, err := o.withDefaults()
	return o, errors.Join(validateTargets(targets), err)
}

func validateTargets(targets []string) error {
	if len(targets) == 0 {
		return errors.New("failover: the group has no targets; allowed is one or more, best first")
	}
	var problems []error
	at := make(map[string]int, len(targets))
	for i, name := range targets {
		first, twice := at[name]
		switch {
		case name == "":
			problems = append(problems, fmt.Errorf("failover: target %d of the group has an empty name; allowed is any other", i+1))
		case twice:
			problems = append(problems, fmt.Errorf("failover: target %d of the group, %q, is target %d already; allowed is each once", i+1, name, first+1))
		default:
			at[name] = i
		}
	}
	return errors.Join(problems...)
}
