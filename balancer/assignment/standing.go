package assignment

import (
	"cmp"
	"fmt"
	"time"
)

// standing is the facts that a Watcher's State follows from. It is pure.
type standing struct {
	configured bool
	// suspended says that nothing is to be in force now, whatever is held.
	suspended bool
	config    Config // of the client in charge, or the one wanted if there is none

	// assignment is the last good one. Once set it is only ever replaced: by AP-11
	// nothing the sharding service does or fails to do may make RPCs fail, so it
	// also outlives the initial timeout of a new channel and a change of key or
	// target, until the new client's first good assignment. The seed would fall
	// back when that timer fires; AP-11 outranks it.
	assignment *Assignment

	// providerErr is why the newest channel could not be made; nil if it could.
	providerErr error
	// reported is the error that ended the wait (2026-10).
	reported error
	// expired says that the initial timeout of the newest channel has passed.
	expired bool
	waited  time.Duration
	// lastErr is the newest error of the client in charge.
	lastErr error
	// unreachable is why its channel cannot connect, nil while a stream is open.
	unreachable error
	// connected says whether the client in charge has a stream.
	connected bool
}

// state is what the facts come to.
func (s *standing) state() *State {
	switch {
	case s.suspended:
		return &State{}
	case s.assignment != nil:
		return &State{Phase: Assigned, Assignment: s.assignment}
	case s.providerErr != nil:
		return &State{Phase: Failed, Err: s.providerErr}
	case s.reported != nil:
		return &State{Phase: Failed, Err: s.reported}
	case s.expired:
		return &State{Phase: Failed, Err: &expiredError{s.waited, s.config, s.hint(), cmp.Or(s.unreachable, s.lastErr)}}
	case s.configured:
		return &State{Phase: Waiting}
	}
	return &State{}
}

// hint says what is known about the stream while nothing has come.
func (s *standing) hint() string {
	switch {
	case s.unreachable != nil:
		return s.unreachable.Error()
	case s.lastErr != nil:
		return "last error: " + s.lastErr.Error()
	case s.connected:
		return "a stream is open, but the service has sent no assignment on it: does it know the target?"
	}
	return "no stream could be opened: no connection to the service has come up yet, and none has failed"
}

// suspend notes that nothing is watched any more.
func (s *standing) suspend() { s.configured, s.suspended = false, true }

// resume starts over after suspend, with the assignment that is held.
func (s *standing) resume() {
	if s.suspended {
		*s = standing{assignment: s.assignment}
	}
}

// newChannel notes that a channel was made: the initial timeout starts, and RPCs
// queue if no assignment is held (seed 000, fallback at startup). In 2026-10 the
// old client's error stays until the new one's first result.
func (s *standing) newChannel(revision Revision) {
	var old error
	if before := s.state(); revision == Revision202610 && s.providerErr == nil {
		old = before.Err
	}
	s.reported, s.expired, s.providerErr = old, false, nil
}

// newClient notes that another client is in charge.
func (s *standing) newClient(c Config) {
	s.configured, s.config = true, c
	s.lastErr, s.unreachable, s.connected = nil, nil, false
}

// differs says whether two states differ for anybody who reads them.
func (s *State) differs(other *State) bool {
	if s.Phase != other.Phase || s.Assignment != other.Assignment {
		return true
	}
	return s.Err != nil && s.Err.Error() != other.Err.Error()
}

// expiredError says that the initial timeout has passed.
type expiredError struct {
	waited time.Duration
	config Config
	hint   string
	cause  error
}

func (e *expiredError) Error() string {
	return fmt.Sprintf("no assignment came within the initial assignment timeout of %v from the sharding service %s; %s",
		e.waited, e.config.names(), e.hint)
}

func (e *expiredError) Unwrap() error { return e.cause }
