package health

import (
	"fmt"
	"sync/atomic"
)

// State is what is known of a target.
type State uint32

const (
	// Healthy targets are used.
	Healthy State = iota
	// Unhealthy targets failed FailAfter probes in a row.
	Unhealthy
	// Unknown is the state before the first verdict with Options.Initial Unknown:
	// neither passed PassAfter probes nor failed FailAfter. A Router uses such a
	// target after the healthy ones and before the unhealthy ones.
	Unknown
)

// String is "healthy", "unhealthy" or "unknown".
func (s State) String() string {
	switch s {
	case Healthy:
		return "healthy"
	case Unhealthy:
		return "unhealthy"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("State(%d)", uint32(s))
}

// Cell is the health of one target: one word, which the registry stores at a flip
// and any number of picks load. All views that contribute a key share its cell. A
// cell outlives its target and then keeps the last state, as it does when the
// registry is closed. A nil *Cell is a target that nobody probes: healthy.
type Cell struct {
	state atomic.Uint32
	_     [60]byte // a cache line of its own: the neighbour's counters do not slow down picks
}

func newCell(s State) *Cell {
	c := new(Cell)
	c.state.Store(uint32(s))
	return c
}

// Healthy says whether the target is used in the first round of a pick. It is one
// load and allocates nothing; it is false for Unknown.
func (c *Cell) Healthy() bool { return c == nil || State(c.state.Load()) == Healthy }

// State tells Unknown and Unhealthy apart, for the rounds after the first.
func (c *Cell) State() State {
	if c == nil {
		return Healthy
	}
	return State(c.state.Load())
}
