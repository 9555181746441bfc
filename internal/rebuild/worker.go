package rebuild

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The wait before an input is built again after a failure, doubling (seed row P-13).
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = time.Second
)

// errEnded is told where a callback called runtime.Goexit.
var errEnded = errors.New("rebuild: a callback ended the goroutine that it ran on; the input is built again")

// work is the goroutine of a pipeline.
func (p *Pipeline[In, Out]) work(ctx context.Context) {
	defer p.end(ctx)
	for ctx.Err() == nil {
		r := p.newest()
		if r == nil {
			return
		}
		p.backOff(ctx, r)
		queue, took, err := p.attempt(ctx)
		switch {
		case err != nil:
			p.report(err)
		case took > 0:
			p.tellBuilt(queue, took)
		}
	}
}

// end is the last that a worker does, however it ends: it puts back what was in
// its hands, and what is pending gets another worker. Seed 001's task guard
// (rebuild flow 4, cancellation flow 3) leaves that to the next request.
func (p *Pipeline[In, Out]) end(ctx context.Context) {
	var err error
	if v := recover(); v != nil {
		err = fmt.Errorf("rebuild: a panic outside a build: %v; the input is built again", v)
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cancel()
		p.working = false
		p.start()
	}()
	p.mu.Lock()
	if p.active != nil {
		if err == nil {
			err = errEnded
		}
		p.putBack(ctx)
	}
	if err != nil {
		p.stats.Panics++
	}
	p.mu.Unlock()
	if err != nil {
		p.report(err)
	}
}

func (p *Pipeline[In, Out]) newest() *request[In] {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending
}

// backOff waits until r may be built again, or until it is not the newest.
func (p *Pipeline[In, Out]) backOff(ctx context.Context, r *request[In]) {
	if r.failed == 0 {
		return
	}
	timer := time.NewTimer(min(firstRetry<<min(r.failed-1, 10), lastRetry))
	defer timer.Stop()
	for p.newest() == r {
		select {
		case <-p.newer: // perhaps an old signal, so look again
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// attempt takes the newest input through the gate, builds it and publishes the
// result. Its error is that of a build that failed and is to be told; took is above 0
// if a result was published.
func (p *Pipeline[In, Out]) attempt(ctx context.Context) (queue, took time.Duration, err error) {
	if p.gate.Enter(ctx, p.Stats().Published == 0) != nil {
		return 0, 0, nil // cancelled
	}
	defer p.gate.Leave()
	r := p.take(ctx)
	if r == nil {
		return 0, 0, nil
	}
	began := time.Now()
	out, err := p.guardedBuild(ctx, r.in)
	took = time.Since(began)
	if err != nil {
		return 0, 0, p.failed(ctx, err)
	}
	var released release
	if p.options.Bytes != nil {
		released = p.gate.releaseOf(out, p.options.Bytes(out))
	}
	if p.cancelled(ctx) {
		p.gate.retire(released) // built, not published: the permit's next owner waits for it too
		return 0, 0, nil
	}
	p.publish(r.in, out)

	p.mu.Lock()
	defer p.mu.Unlock()
	p.active = nil
	p.stats.Published++
	p.stats.Queue, p.stats.Build = began.Sub(r.asked), took
	p.stats.QueueTotal += p.stats.Queue
	p.stats.BuildTotal += took
	p.released, released = released, p.released
	p.gate.retire(released)
	return p.stats.Queue, max(took, 1), nil
}

// take makes what is pending active. What is pending when ctx has ended came after
// a Cancel, and is for the next worker.
func (p *Pipeline[In, Out]) take(ctx context.Context) *request[In] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil || p.pending == nil {
		return nil
	}
	p.active, p.pending = p.pending, nil
	p.stats.Builds++
	return p.active
}

// guardedBuild is build, with a panic as an error.
func (p *Pipeline[In, Out]) guardedBuild(ctx context.Context, in In) (out Out, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("rebuild: the build panicked: %v", v)
		}
	}()
	return p.build(ctx, in)
}

// failed counts a build that failed and puts its input back. It returns err if
// that is to be told: what a cancelled build returns is not.
func (p *Pipeline[In, Out]) failed(ctx context.Context, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.putBack(ctx) {
		return nil
	}
	p.stats.Failed++
	return err
}

// putBack makes the active input pending again, unless a newer one is. It returns
// false if the input was cancelled. Called under mu.
func (p *Pipeline[In, Out]) putBack(ctx context.Context) bool {
	r := p.active
	p.active = nil
	switch {
	case ctx.Err() != nil:
		p.stats.Cancelled++
		return false
	case p.pending != nil:
		p.stats.Coalesced++
	default:
		r.failed++
		p.pending = r
	}
	return true
}

// cancelled says whether the active input was cancelled, and if so drops it.
func (p *Pipeline[In, Out]) cancelled(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() == nil {
		return false
	}
	p.active = nil
	p.stats.Cancelled++
	return true
}

// report tells of an error.
func (p *Pipeline[In, Out]) report(err error) {
	if p.options.OnError != nil {
		p.guardedTell(func() { p.options.OnError(err) })
	}
}

func (p *Pipeline[In, Out]) tellBuilt(queue, build time.Duration) {
	if p.options.OnBuilt != nil {
		p.guardedTell(func() { p.options.OnBuilt(queue, build) })
	}
}

// guardedTell calls back. A panic there ends nothing (seed row P-15).
func (p *Pipeline[In, Out]) guardedTell(callBack func()) {
	returned := false
	defer func() {
		if recover() != nil || !returned {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.stats.Panics++
		}
	}()
	callBack()
	returned = true
}
