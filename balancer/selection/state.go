package selection

import (
	"math/rand/v2"
	"sync/atomic"
)

// State is what a selector keeps while its policies come and go, so that round
// robin continues where it was after another rule was in force for a while. The
// zero State is ready. It must not be copied; policies use it concurrently.
type State struct {
	_          [64]byte // every pick of the two rules writes here: a cache line of its own
	roundRobin atomic.Uint64
	weighted   atomic.Uint64
	_          [64]byte
}

// Copy returns a State that goes on where s is, for who wants to know what would be
// chosen and must not move it.
func (s *State) Copy() *State {
	c := &State{}
	c.roundRobin.Store(s.roundRobin.Load())
	c.weighted.Store(s.weighted.Load())
	return c
}

// phase is where cursors start, so that the many clients that start together do
// not all begin with the same member.
var phase = rand.Uint64()
