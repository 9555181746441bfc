package assignment

import "context"

// gate lets one holder in at a time.
type gate chan struct{}

// buildGate is shared by every Watcher of the process: one assignment is checked
// and indexed at a time, so that a change of many large ones takes one core and
// the memory of one build, not of all (seed 001, rebuild gate). Nobody picks
// through it: the old assignment serves meanwhile.
var buildGate = make(gate, 1)

// enter waits for its turn; it fails with ctx's error. leave has to follow.
func (g gate) enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g gate) leave() { <-g }
