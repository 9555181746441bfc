package assignment

import "context"

// Gate lets one build at a time through. Enter waits for its turn and fails only
// with ctx's error; Leave has to follow any other return. first says that RPCs
// wait for what will be built, for there is nothing older to serve them: such a
// build may go before others.
type Gate interface {
	Enter(ctx context.Context, first bool) error
	Leave()
}

// buildGate is the Gate of every Watcher of the process that was not given one:
// one assignment is checked and indexed at a time, so that a change of many large
// ones takes one core and the memory of one build, not of all (seed 001, rebuild
// gate). Nobody picks through it: the old assignment serves meanwhile.
var buildGate = make(gate, 1)

type gate chan struct{}

func (g gate) Enter(ctx context.Context, _ bool) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g gate) Leave() { <-g }
