package assignment

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/backoff"

	"github.com/slicewire/slicewire/internal/wire"
)

// machine decides for one client, that is one channel and target. It is pure:
// events come in with their time, decisions go out; it has no clock, does no
// I/O and starts nothing. It has one owner at a time: see client.
type machine struct {
	revision Revision
	backoff  backoff.Config
	minGap   time.Duration  // least time between the starts of two streams
	random   func() float64 // in [0,1)

	generation int64 // last accepted; what the next stream announces

	// Of the newest stream:
	startedAt time.Time
	good      bool // its newest answer was a good assignment

	retries int // streams in a row without a good assignment

	// An outage lasts until a stream gets a connection.
	warned   bool      // of this one
	warnedAt time.Time // of any
}

// decision is what the client is to do, in this order.
type decision struct {
	build   bool // have it built and tell built; else it is forgotten
	publish *Assignment
	err     error // for the log and the status
	// report says that err is a result RPCs need not wait for any longer, unless
	// an assignment is held (A119, 2026-10).
	report  bool
	verdict verdict
	took    time.Duration // the build, if there was one
	ack     *wire.AssignmentAck
	// end says to end the stream once the ack has gone out; the client then
	// tells ended.
	end bool
	// openAt, after the end of a stream, is when the next one may start.
	openAt time.Time
}

// verdict is what became of an assignment.
type verdict uint8

const (
	noVerdict verdict = iota
	accepted
	stale
	superseded
	invalid
)

// String is the label "result".
func (v verdict) String() string {
	return [...]string{"none", "accepted", "stale", "superseded", "invalid"}[v]
}

// errRefused is wrapped by the error for an assignment that was not accepted.
var errRefused = errors.New("the sharding service sent an invalid assignment")

// opening is the event that a stream is being opened. It returns the generation
// to announce: the last accepted, so never a refused one (field case AP-04).
func (m *machine) opening(now time.Time) int64 {
	m.startedAt, m.good = now, false
	return m.generation
}

// opened is the event that the stream got a connection, which may be long after
// it was asked for (wait-for-ready). From here the service sees it.
func (m *machine) opened(now time.Time) { m.startedAt, m.warned = now, false }

// warnGap is the least time between two warnings of outages.
const warnGap = time.Minute

// unreachable is the event that the channel cannot connect. It says whether to
// warn of it: once an outage, and a channel that flaps once a minute.
func (m *machine) unreachable(now time.Time) (warn bool) {
	if m.warned || !m.warnedAt.IsZero() && now.Sub(m.warnedAt) < warnGap {
		return false
	}
	m.warned, m.warnedAt = true, now
	return true
}

// metadata is the event that a logical assignment is complete.
func (m *machine) metadata(generation int64) decision {
	if generation > m.generation && generation > 0 {
		return decision{build: true}
	}
	// A119: a stale generation is dropped with an ack that says so; the stream
	// stays and nothing is reported. Its chunks are forgotten (field case AP-01).
	reason := fmt.Sprintf("generation %d is not newer than %d, the last one accepted", generation, m.generation)
	if generation <= 0 {
		reason = fmt.Sprintf("generation %d is not positive", generation)
	}
	return decision{verdict: stale, ack: refusal(generation, reason), err: errors.New(reason)}
}

// built is the event that the assignment of a generation was validated: a is
// nil if it is not usable, message says what is wrong with it.
func (m *machine) built(generation int64, a *Assignment, message string) decision {
	if a != nil {
		m.generation = generation
		m.good, m.retries = true, 0
		d := decision{publish: a, verdict: accepted, ack: &wire.AssignmentAck{Generation: generation, Accepted: true, ErrorMessage: message}}
		if message != "" {
			d.err = fmt.Errorf("generation %d was accepted with faults: %s", generation, message)
		}
		return d
	}
	m.good = false
	return decision{
		verdict: invalid,
		ack:     refusal(generation, message),
		err:     fmt.Errorf("%w of generation %d: %s", errRefused, generation, message),
		report:  m.revision == Revision202610,
		end:     m.revision == Revision202608,
	}
}

// superseded is the event that a newer generation came whole before one was begun
// to be built. That is nobody's fault: the stream stays and nothing is reported.
func (m *machine) superseded(generation, by int64) decision {
	return decision{verdict: superseded, ack: refusal(generation, fmt.Sprintf("superseded by generation %d before it was put in force", by))}
}

func refusal(generation int64, reason string) *wire.AssignmentAck {
	return &wire.AssignmentAck{Generation: generation, ErrorMessage: clipText(reason, maxMessageRunes)}
}

// ended is the event that the stream is over, or could not be opened. That the
// service ended a stream that had been good is no failure.
func (m *machine) ended(now time.Time, err error) decision {
	d := decision{err: err, report: m.revision == Revision202610 && !m.good}
	if m.good {
		// No failure, but not at once either: an answer-and-hang-up service must not
		// become a hot loop, nor a restarted one be met by all clients together.
		d.openAt = m.notBefore(now).Add(time.Duration(m.random() * float64(m.minGap)))
		return d
	}
	if now.Sub(m.startedAt) > max(m.backoff.MaxDelay, time.Minute) {
		// It lived longer than any backoff: a service that had nothing newer to say
		// all day must not be backed off from as if it had failed again.
		m.retries = 0
	}
	d.openAt = later(m.notBefore(now), now.Add(delay(m.backoff, m.retries, m.random())))
	m.retries++
	return d
}

// silent is the event that the refresh interval passed without a message: one
// new stream, and no failure (field case AP-09).
func (m *machine) silent(now time.Time) decision {
	return decision{openAt: m.notBefore(now)}
}

// spread changes an interval by up to ±10%, so that clients do not all come back
// together.
func (m *machine) spread(interval time.Duration) time.Duration {
	return time.Duration(float64(interval) * (0.9 + 0.2*m.random()))
}

// notBefore is the earliest time for another stream.
func (m *machine) notBefore(now time.Time) time.Time {
	return later(now, m.startedAt.Add(m.minGap))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
