package sdk

import (
	"context"
	"sync/atomic"
)

// calls counts the RPCs of one pool, and refuses new ones while it is sealed.
type calls struct {
	word atomic.Int64 // the count, and sealedBit
	// empty, of capacity 1, says that the last RPC left while sealed. It may say so
	// late or twice: who waits looks at word.
	empty chan struct{}
}

const sealedBit = int64(1) << 62

func newCalls() *calls { return &calls{empty: make(chan struct{}, 1)} }

// enter says whether an RPC may begin; if so, leave has to follow.
func (c *calls) enter() bool {
	if c.word.Add(1)&sealedBit == 0 {
		return true
	}
	c.leave()
	return false
}

func (c *calls) leave() {
	if c.word.Add(-1) == sealedBit {
		c.tellEmpty()
	}
}

func (c *calls) tellEmpty() {
	select {
	case c.empty <- struct{}{}:
	default:
	}
}

// seal refuses new RPCs. Who seals, unseals and waits holds the Client's mu, or is
// the only one to do so.
func (c *calls) seal() { c.word.Add(sealedBit) }

// unseal lets RPCs in again.
func (c *calls) unseal() { c.word.Add(-sealedBit) }

// count is how many RPCs are in flight.
func (c *calls) count() int { return int(c.word.Load() &^ sealedBit) }

// wait waits until none is in flight, or for ctx.
func (c *calls) wait(ctx context.Context) error {
	for c.count() > 0 {
		select {
		case <-c.empty:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.tellEmpty() // somebody who waits no longer in earnest may have heard it instead of another
	return nil
}
