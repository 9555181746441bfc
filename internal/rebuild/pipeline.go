package rebuild

import (
	"context"
	"sync"
	"time"
)

// Options are the settings of a Pipeline of Out. The zero value is ready.
type Options[Out any] struct {
	// OnError is told of each build that failed or panicked, and of panics of the
	// functions here, for a log. It is called on the pipeline's goroutine, outside
	// its locks and without the permit. Nil: nobody is told.
	OnError func(error)
	// OnBuilt is told of each result that was published: how long its input had waited
	// for its turn, and how long the build took. It is called as OnError is. Nil: nobody
	// is told.
	OnBuilt func(queue, build time.Duration)
	// Bytes is how much memory a result holds. If Out is a pointer or an interface
	// with a pointer in it, the gate waits for the collection of large ones that were
	// replaced; it has to be memory of Go's heap. Readers have to hold that very
	// pointer as long as they read. Nil: no result is waited for.
	Bytes func(Out) int64
}

// Pipeline builds Out from In. At most one build is active, and of the inputs
// that come meanwhile only the newest is built (seed 001, rebuild flow 3). While
// there is nothing to do it has no goroutine. All methods may be called
// concurrently, and Request, Cancel and Stats from its own callbacks too.
type Pipeline[In, Out any] struct {
	gate    *Gate
	options Options[Out]
	build   func(context.Context, In) (Out, error)
	publish func(In, Out)

	newer   chan struct{}  // capacity 1: an input came; ends the wait after a failure
	workers sync.WaitGroup // one at most; Close waits for it

	mu       sync.Mutex // guards what follows; no callback is called under it
	pending  *request[In]
	active   *request[In] // taken by the worker, which alone sets it
	working  bool         // there is a worker
	cancel   context.CancelFunc
	closed   bool
	released release // of the result in force
	stats    Stats
}

// request is one input on its way (seed 001, SelectorRebuildRequest).
type request[In any] struct {
	in     In
	asked  time.Time
	failed int // builds of it
}

// New makes a Pipeline that builds behind g, which NewGate made.
//
// build runs on the pipeline's goroutine while the permit is held. Its context
// ends with Cancel and Close, and it should return soon after: until it does, no
// pipeline of the gate builds. After an error or a panic it is called again with
// the same input after 10 ms, then 20 ms and so on up to 1 s, at once with a newer
// input (seed row P-13); what was published stays.
//
// publish puts a result in force, on the same goroutine and still with the
// permit, in the order of the requests. It is not called after Close has returned.
func New[In, Out any](g *Gate, o Options[Out], build func(ctx context.Context, in In) (Out, error), publish func(in In, out Out)) *Pipeline[In, Out] {
	return &Pipeline[In, Out]{gate: g, options: o, build: build, publish: publish, newer: make(chan struct{}, 1)}
}

// Request has in built, in place of an input that is pending. It never blocks.
// After Close it does nothing.
func (p *Pipeline[In, Out]) Request(in In) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.stats.Requests++
	if p.pending != nil {
		p.stats.Coalesced++
	}
	p.pending = &request[In]{in: in, asked: time.Now()}
	select {
	case p.newer <- struct{}{}:
	default:
	}
	p.start()
}

// start makes sure that what is pending has a worker. Called under mu.
func (p *Pipeline[In, Out]) start() {
	if p.working || p.pending == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.working, p.cancel = true, cancel
	p.workers.Go(func() { p.work(ctx) }) // ends when nothing is pending, or with ctx
}

// Cancel forgets what is pending and interrupts the build that is active, whose
// result is dropped; a publish that has begun is not taken back. Cancel does not
// wait. Later requests are built, after the interrupted build has returned.
func (p *Pipeline[In, Out]) Cancel() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget()
}

// forget is Cancel. Called under mu.
func (p *Pipeline[In, Out]) forget() {
	if p.pending != nil {
		p.pending = nil
		p.stats.Cancelled++
	}
	if p.working {
		p.cancel()
	}
}

// Close is Cancel for good, and waits for callbacks that run. A build that is
// active holds the permit until it has returned (seed 001, cancellation flow 4
// to 7). It may be called more than once, but not from a callback, which would
// wait for itself.
func (p *Pipeline[In, Out]) Close() {
	p.mu.Lock()
	p.closed = true
	p.forget()
	p.mu.Unlock()
	p.workers.Wait()
}

// Stats is a snapshot.
func (p *Pipeline[In, Out]) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}
