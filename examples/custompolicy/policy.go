package main

import (
	"math/rand/v2"

	"github.com/slicewire/slicewire/balancer/selection"
)

// canary is a selection policy of the user's own: it sends most calls to one
// server, and leaves the others to the policy that clients have by default.
//
// All fields are comparable, so that publishing an equal one again changes
// nothing. Select runs in the goroutine of each RPC, many at a time: it reads,
// and neither blocks nor allocates.
type canary struct {
	server  string
	percent int
}

// Select implements [selection.Direct].
func (c canary) Select(in selection.Input) int {
	if rand.IntN(100) >= c.percent {
		return selection.NoOpinion
	}
	for i := range in.Len() {
		// One that is excluded has just been tried by this call, or is refused.
		if in.Member(i).Name() == c.server && !in.Excluded(i) {
			return i
		}
	}
	return selection.NoOpinion // it is not connected
}
