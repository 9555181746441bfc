package sdk

import (
	"context"
	"sync"
	"sync/atomic"
)

// inFlight counts the RPCs of a Client and refuses new ones once it is closed.
type inFlight struct {
	word    atomic.Int64 // the count, and closedBit once closing began
	drained chan struct{}
	finish  func() // closes drained, once
}

const closedBit = int64(1) << 62

func newInFlight() *inFlight {
	f := &inFlight{drained: make(chan struct{})}
	f.finish = sync.OnceFunc(func() { close(f.drained) })
	return f
}

// enter says whether an RPC may begin; if so, leave has to follow.
func (f *inFlight) enter() bool {
	if f.word.Add(1)&closedBit == 0 {
		return true
	}
	f.leave()
	return false
}

func (f *inFlight) leave() {
	if f.word.Add(-1) == closedBit {
		f.finish()
	}
}

func (f *inFlight) isClosed() bool { return f.word.Load()&closedBit != 0 }

// drain refuses new RPCs and waits until none is in flight, or for ctx. It is
// called once.
func (f *inFlight) drain(ctx context.Context) error {
	if f.word.Add(closedBit) == closedBit {
		f.finish()
	}
	select {
	case <-f.drained:
		return nil
	default:
	}
	select {
	case <-f.drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
