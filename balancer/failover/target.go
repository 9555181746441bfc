package failover

import "time"

// target is what a group knows of one of its targets. Its state does not depend on
// whether it is current.
type target struct {
	name  string
	added time.Time

	// What the channel said.
	last    Connectivity
	link    State     // by connectivity alone
	opened  time.Time // start of the window that link == Recovering is in, or was in last
	grace   bool      // that window is an InitialGrace, not a Recovery
	failed  bool      // has failed since it was last up
	proven  bool      // was up once
	credit  bool      // may be given Recovery
	upSince time.Time // while last == Up

	bad [numSignals]bool // what the other signals said

	// What follows from both.
	state    State
	reason   Reason
	since    time.Time     // of the state
	turned   time.Time     // when it last became available or ceased to be
	turn     uint64        // the same as a count of the machine's, to tell apart what happened at one time
	downtime time.Duration // spent not available, up to turned
	ahead    time.Time     // when a new list put it before the current target; zero if none did since that is current
}

func newTarget(name string, now time.Time) *target {
	return &target{name: name, added: now, last: Dormant, link: Idle, credit: true, state: Idle, reason: Start, since: now, turned: now}
}

// observe takes in what the channel says. Deadlines up to now are dealt with.
func (t *target) observe(c Connectivity, o *Options, now time.Time) {
	if c == Up {
		if t.last != Up {
			t.upSince = now
		}
		t.last, t.link = Up, Ready
		t.failed, t.proven = false, true
		t.earn(o, now)
		return
	}
	t.last = c
	switch c {
	case Dormant:
		t.quiet()
	case Trying:
		// No evidence of itself: a target that is given no time to come up is taken at
		// its word until it fails.
		if !t.link.Available() {
			return
		}
		if t.link = Idle; t.window(o) > 0 {
			t.lose(o, now)
		}
	case Failed:
		if t.link.Available() {
			t.lose(o, now)
		}
		t.failed, t.credit = true, false
	}
}

// quiet is a channel that is not connected and does not try. It's no failure,
// but it does not undo one.
func (t *target) quiet() {
	if t.failed || t.link == Down {
		return
	}
	t.link = Idle
}

// window is how long the target would be given to come up.
func (t *target) window(o *Options) time.Duration {
	if t.proven {
		return o.Recovery
	}
	return o.InitialGrace
}

// lose opens the window in which a target that's no longer available may come up,
// or the one that's still open, or makes it down if there is none.
func (t *target) lose(o *Options, now time.Time) {
	switch {
	case !t.proven:
		// The first attempt begins the grace. One that was not seen began with the target.
		t.grace, t.opened = true, now
		if t.last == Failed {
			t.opened = t.added
		}
	case t.credit:
		t.grace, t.opened, t.credit = false, now, false
	}
	t.link = Recovering
	t.expire(o, now)
}

// until is the end of the window.
func (t *target) until(o *Options) time.Time {
	if t.grace {
		return t.opened.Add(o.InitialGrace)
	}
	return t.opened.Add(o.Recovery)
}

// expire ends the window if its time is over.
func (t *target) expire(o *Options, now time.Time) {
	if t.link == Recovering && !now.Before(t.until(o)) {
		t.link, t.credit = Down, false
	}
}

// earn gives the credit back to a target that was up for long enough.
func (t *target) earn(o *Options, now time.Time) {
	if t.last == Up && !now.Before(t.upSince.Add(o.MinUptime)) {
		t.credit = true
	}
}

func (t *target) available(*Options, time.Time) bool { return t.state.Available() }

// arrival is why traffic moves to a better target.
func (t *target) arrival() Reason {
	if t.ahead.IsZero() {
		return Recovered
	}
	return Reordered
}

// takesOver says whether an available target may take traffic from another that's
// available: not if it has flapped and was not up for MinUptime since, and not if it
// was never up and may still turn out not to work.
func (t *target) takesOver(o *Options, now time.Time) bool {
	switch {
	case !t.state.Available() || !t.credit || t.last == Trying:
		return false
	case t.proven:
		return true
	}
	return !now.Before(t.added.Add(o.InitialGrace))
}

// settles is when time alone will make an available target settled.
func (t *target) settles(o *Options) (time.Time, bool) {
	switch {
	case !t.state.Available() || t.last == Trying:
		return time.Time{}, false
	case !t.credit:
		return t.upSince.Add(o.MinUptime), t.last == Up
	}
	return t.added.Add(o.InitialGrace), !t.proven
}

// refresh works out the state from connectivity and the other signals. The count
// grows with each target that becomes available or ceases to be.
func (t *target) refresh(turns *uint64, now time.Time) {
	was := t.state
	t.state, t.reason = t.verdict()
	if t.state != was {
		t.since = now
	}
	if t.state.Available() == was.Available() {
		return
	}
	if !was.Available() {
		t.downtime += now.Sub(t.turned)
	} else {
		t.ahead = time.Time{}
	}
	*turns++
	t.turned, t.turn = now, *turns
}

func (t *target) verdict() (State, Reason) {
	for s := numSignals; s > 0; s-- {
		if t.bad[s-1] {
			return Down, signalReasons[s-1]
		}
	}
	switch {
	case t.reason == Start && !t.failed && t.link != Down:
		return t.link, Start // the first connect is not a loss
	case t.link.Available():
		return t.link, Recovered
	}
	return t.link, Lost
}

var signalReasons = [numSignals]Reason{ByErrorRatio: ErrorRatio, ByMonitor: Monitor, ByOperator: Disabled}
