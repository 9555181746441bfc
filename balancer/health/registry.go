package health

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// mostEvents is how many flips and warnings may wait for a slow observer.
const mostEvents = 16384

// Registry probes targets and holds what it learned, for any number of Routers and
// clients. Who makes it closes it; a client closes its own views only. Its methods
// may be called by several goroutines at once.
type Registry struct {
	options Options
	ctx     context.Context // of all probes; ends with Close
	cancel  context.CancelFunc
	wake    chan struct{}  // the schedule changed; holds one
	wg      sync.WaitGroup // scheduler, workers, outboxes
	closing chan struct{}  // Close has begun
	done    chan struct{}  // Close has ended

	events  outbox[event]
	changed outbox[*entry]

	mu       sync.Mutex // guards what follows and all entries; never held in foreign code
	closed   bool
	entries  map[string]*entry
	heap     dueHeap
	ready    []*entry // due, in that order, waiting for a worker
	retired  []io.Closer
	busy     int           // workers
	present  int           // entries that a view uses
	unprobed int           // of them, without a first probe
	progress chan struct{} // closed when one of the two may have changed; nil: nobody waits
	counts   Stats
}

// NewRegistry makes a registry and starts its scheduler. The error names every option
// that is not allowed.
func NewRegistry(o Options) (*Registry, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Registry{
		options: o,
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		entries: make(map[string]*entry),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.events = outbox[event]{deliver: r.tell, limit: mostEvents, wg: &r.wg}
	// An entry is in it once, so the number of targets bounds it.
	r.changed = outbox[*entry]{deliver: r.notify, limit: 1<<63 - 1, wg: &r.wg}
	r.wg.Go(r.schedule)
	return r, nil
}

// Close ends all probing and returns when everything the registry started has ended:
// probes, whose context is done, an observer or a notify that is running, and what
// Checkers keep. Cells keep the last state. It may be called again and by several
// goroutines; each call waits.
func (r *Registry) Close() {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		<-r.done
		return
	}
	r.closed = true
	close(r.closing)
	r.mu.Unlock()

	r.cancel()
	r.wg.Wait()
	r.mu.Lock()
	for _, e := range r.entries {
		r.retire(e)
	}
	retired := r.retired
	r.mu.Unlock()
	for _, c := range retired {
		r.release(c)
	}
	close(r.done)
}

// WaitFirst waits until at least so many targets are in the registry and each of them
// has been probed once, whatever came out. It is how a program starts with health
// that was seen instead of assumed. Row P-23, in Go: with 0 it is the readiness of a
// periodic service, which an empty registry has and a new target does not end for
// long; with 1 it is that of a one-shot service, which waits for the first target,
// and Close after it leaves the cells as they are. A registry without Checker, never
// ready by that row, cannot be made. The error is the context's, or [ErrClosed].
func (r *Registry) WaitFirst(ctx context.Context, targets int) error {
	for {
		r.mu.Lock()
		have, unprobed, closed := r.present, r.unprobed, r.closed
		if r.progress == nil {
			r.progress = make(chan struct{})
		}
		progress := r.progress
		r.mu.Unlock()
		if closed {
			return ErrClosed
		}
		if have >= targets && unprobed == 0 {
			return nil
		}
		select {
		case <-progress:
		case <-r.closing:
			return ErrClosed
		case <-ctx.Done():
			return fmt.Errorf("health: %d targets are there, %d of them not probed yet, %d are waited for: %w",
				have, unprobed, targets, context.Cause(ctx))
		}
	}
}

// TargetStatus is one target for a page or a log.
type TargetStatus struct {
	Key       string
	Names     []string // what the views call it, sorted, each once
	State     State
	Since     time.Time // when it got this state
	LastProbe time.Time // when the last verdict came; zero before the first one
	LastError error     // of the last verdict; nil if it passed
	Streak    int       // probes passed in a row; negative: failed in a row
}

// Targets lists all targets, ordered by key.
func (r *Registry) Targets() []TargetStatus {
	r.mu.Lock()
	list := make([]TargetStatus, 0, len(r.entries))
	for _, e := range r.entries {
		if e.gone() {
			continue
		}
		list = append(list, TargetStatus{
			Key: e.key, Names: e.names(), State: e.cell.State(), Since: e.since,
			LastProbe: e.at, LastError: e.err, Streak: e.streak,
		})
	}
	r.mu.Unlock()
	slices.SortFunc(list, func(a, b TargetStatus) int { return strings.Compare(a.Key, b.Key) })
	return list
}
