package failover

import "time"

// decide works out all states and then which target is current. A pin that ended
// just now lets the normal rule hold without a delay.
func (m *Machine) decide(unpinned bool) []Switch {
	for _, t := range m.targets {
		t.refresh(&m.turns, m.now)
	}
	switch {
	case m.pin != nil:
		m.wait(nil)
		return m.to(m.pin, Pinned)
	case !m.current.state.Available():
		to, reason := m.leave()
		if unpinned {
			reason = Unpinned
		}
		return m.to(to, reason)
	}

	// G-09: from one available target to another.
	to := m.better((*target).takesOver)
	if unpinned {
		return m.to(to, Unpinned)
	}
	m.wait(to)
	if to == nil || m.now.Before(m.since.Add(m.options.SwitchDelay)) {
		return nil
	}
	return m.to(to, to.arrival())
}

// leave is where traffic goes from a target that's not available, and why; to nil
// if it stays. A candidate is better and available, so nothing stays while one waits.
func (m *Machine) leave() (*target, Reason) {
	from := m.current
	reason := from.reason
	if reason == Start {
		reason = Lost // it was still connecting for the first time
	}
	to := m.better((*target).available)
	switch {
	case to != nil:
		if to.turn > from.turn || !to.ahead.IsZero() {
			reason = to.arrival() // its coming is the cause, not that the other has gone
		}
	case from.state == Down:
		for _, t := range m.targets {
			if t.state.Available() {
				return t, reason
			}
		}
	}
	return to, reason
}

// better is the first target before the current one of which that's true.
func (m *Machine) better(is func(*target, *Options, time.Time) bool) *target {
	for _, t := range m.targets {
		if t == m.current {
			break
		}
		if is(t, &m.options, m.now) {
			return t
		}
	}
	return nil
}

// wait makes a target the candidate, or none. The delay of a new one counts from
// when it became available or came before the current target, but not from before
// the last delay ended.
func (m *Machine) wait(candidate *target) {
	if candidate == m.candidate {
		return
	}
	if m.candidate != nil {
		m.notBefore = m.now
	}
	m.candidate = candidate
	if candidate != nil {
		m.since = latest(candidate.turned, candidate.ahead, m.notBefore)
	}
}

// to makes a target current, unless it is or there is none.
func (m *Machine) to(t *target, reason Reason) []Switch {
	if t == nil || t == m.current {
		return nil
	}
	m.last = Switch{From: m.current.name, To: t.name, Reason: reason, At: m.now}
	m.current, m.candidate, m.notBefore = t, nil, m.now
	for _, t := range m.targets {
		t.ahead = time.Time{}
	}
	return []Switch{m.last}
}

func latest(times ...time.Time) time.Time {
	var last time.Time
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}
