package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/slicewire/slicewire/balancer/selection"
)

// broken is a policy of our own with two bugs. It costs the RPCs that it has to
// choose for, and nobody else.
type broken struct{}

// Select implements [selection.Direct].
func (broken) Select(in selection.Input) int {
	switch rand.IntN(4) {
	case 0:
		panic("a bug in a policy")
	case 1:
		return in.Len()
	default:
		return selection.NoOpinion
	}
}

// near is a policy of our own that builds data for each list of servers: here, only
// their number, but it may take its time, and fail.
type near struct {
	version int // policies that differ in nothing are one
	takes   time.Duration
	fails   bool
}

// Build implements [selection.Builder].
func (n near) Build(ctx context.Context, m selection.Membership) (selection.Order, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(n.takes):
	}
	if n.fails {
		return nil, errors.New("the map of distances cannot be read")
	}
	return inTurn{len(m.Members)}, nil
}

// inTurn begins at a random server.
type inTurn struct{ members int }

// Next implements [selection.Order]. The cursor has how many candidates came before,
// and the first one.
func (o inTurn) Next(_ selection.Call, c selection.Cursor) (int, selection.Cursor) {
	if int(c.A) >= o.members {
		return -1, c
	}
	if c.A == 0 {
		c.B = uint64(rand.IntN(o.members))
	}
	i := (int(c.B) + int(c.A)) % o.members
	return i, selection.Cursor{A: c.A + 1, B: c.B}
}
