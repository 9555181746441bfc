package rebuild

import (
	"context"
	"slices"
	"sync"
	"time"
)

// GateOptions are the settings of a Gate. The zero value is ready.
type GateOptions struct {
	// RetireOver is the size in bytes up to which a value that was replaced is not
	// waited for. Default, for 0 and less, 1 MiB.
	RetireOver int64
	// RetireWait bounds how long after a value was replaced the next build waits
	// for its collection. Default, for 0 and less, 250 ms.
	RetireWait time.Duration
}

// Gate lets one build at a time through, in the order of arrival, those of
// pipelines that have published nothing yet before the others. All methods may be
// called concurrently. A Gate has no goroutine and needs no closing.
type Gate struct {
	options GateOptions

	mu      sync.Mutex // guards what follows
	held    bool
	first   []chan struct{} // who waits; closed when the permit is theirs
	others  []chan struct{}
	retired []retired // what the next build waits for; the permit's holder takes away
	stats   GateStats
}

// GateStats count what went through a Gate.
type GateStats struct {
	// Entered counts how often the permit was had, RetireTimeouts the values that
	// were still in use RetireWait after they had been replaced.
	Entered, RetireTimeouts uint64
	// Waiting is how many wait for the permit now.
	Waiting int
}

// NewGate makes a Gate.
func NewGate(o GateOptions) *Gate {
	if o.RetireOver <= 0 {
		o.RetireOver = 1 << 20
	}
	if o.RetireWait <= 0 {
		o.RetireWait = 250 * time.Millisecond
	}
	return &Gate{options: o}
}

// Enter waits for the permit, and then, for a bounded time, for the collection of
// what earlier builds replaced, so that normally there is one value too many at
// most (seed 001, request flow 7). A first build replaces nothing and is not held
// up by that. Enter fails with ctx's error and no other, and then holds nothing;
// after success Leave has to follow.
func (g *Gate) Enter(ctx context.Context, first bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := g.acquire(ctx, first); err != nil {
		return err
	}
	if !first {
		if err := g.awaitRetired(ctx); err != nil {
			g.Leave() // what was retired stays noted (seed 001, cancellation flow 2)
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stats.Entered++
	return nil
}

// acquire waits for the permit alone.
func (g *Gate) acquire(ctx context.Context, first bool) error {
	g.mu.Lock()
	if !g.held {
		g.held = true
		g.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	queue := &g.others
	if first {
		queue = &g.first
	}
	*queue = append(*queue, turn)
	g.mu.Unlock()

	select {
	case <-turn:
	case <-ctx.Done():
	}
	if ctx.Err() == nil {
		return nil
	}
	g.mu.Lock()
	i := slices.Index(*queue, turn)
	if i >= 0 {
		*queue = slices.Delete(*queue, i, i+1)
	}
	g.mu.Unlock()
	if i < 0 { // the permit came at the same time: it goes to the next
		g.Leave()
	}
	return ctx.Err()
}

// Leave gives the permit to the next. Only who entered may call it, once.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, queue := range [...]*[]chan struct{}{&g.first, &g.others} {
		if len(*queue) > 0 {
			close((*queue)[0])
			*queue = slices.Delete(*queue, 0, 1)
			return
		}
	}
	g.held = false
}

// Stats is a snapshot.
func (g *Gate) Stats() GateStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.Waiting = len(g.first) + len(g.others)
	return s
}
