package selection

import (
	"sync/atomic"
	"time"
)

// load counts the attempts on a member. Padded, so that what picks write does
// not take from other cores what they only read.
type load struct {
	_       [64]byte
	pending atomic.Int64 // in flight
	ended   atomic.Uint64
	penalty penalty
	_       [64]byte
}

// Start counts one attempt that was sent to the member. End has to follow
// exactly once.
func (l *load) Start() { l.pending.Add(1) }

// Undo takes back a Start whose attempt was not sent after all, in place of End.
func (l *load) Undo() { l.pending.Add(-1) }

// End gives back what Start counted. failed says that the member is to blame:
// not so when the caller cancelled (field case SP-06).
func (l *load) End(failed bool) {
	l.ended.Add(1)
	l.pending.Add(-1)
	if failed {
		l.penalty.add()
	}
}

// Pending is how many attempts are in flight.
func (l *load) Pending() int { return int(l.pending.Load()) }

// Picks is how many attempts were started. While some start and end the count
// may be off by those.
func (l *load) Picks() uint64 { return l.ended.Load() + uint64(max(0, l.pending.Load())) }

// Penalty is what the member's failures count for now under a policy whose
// penalty fades over the given time, in attempts in flight: see
// [Policy.WithPenalty]. A custom policy may add it to Pending.
func (l *load) Penalty(over time.Duration) float64 {
	return float64(l.penalty.now(fadeOver(over))) / attempt
}

// SetClock replaces the clock that penalties fade by, for simulations in virtual
// time. now counts from any start. Call it before the member is used.
func (l *load) SetClock(now func() time.Duration) { l.penalty.clock = now }

// busy is how busy the member looks, in units of 1/attempt of an attempt: what
// is in flight, to which punished adds the penalty. The two are apart so that the
// compiler puts this one into the loops of the policies, and the common case pays
// no call.
func (l *load) busy(f *fade) (b int64, failed bool) {
	return l.pending.Load() * attempt, l.penalty.words[f.class%classes].Load() != 0
}

func (l *load) punished(b int64, f *fade) int64 { return b + l.penalty.now(*f) }
