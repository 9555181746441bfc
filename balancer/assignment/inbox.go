package assignment

import (
	"slices"
	"sync"
)

// maxUndecided is how many assignments of one stream may wait for a decision.
// All but one of them are a few numbers; they wait for that one.
const maxUndecided = 1000

// inbox is the assignments of one stream that came whole and were not decided
// on, in the order of their metadata, which is that of the acks. At most one of
// them, the newest, is still there to be built (seed 001, rebuild flow 3). The
// client's goroutine puts, its builder takes.
type inbox struct {
	maxBytes int // Options.MaxAssignmentBytes

	mu       sync.Mutex // guards what follows
	moved    sync.Cond  // some of it has changed
	waiting  []completed
	accepted int64 // the newest generation that was
	held     int   // bytes of what waits and of what is being built
	closed   bool
}

// completed is one assignment that came whole.
type completed struct {
	generation int64
	assembly   *assembler // nil if there is nothing to build
	bytes      int        // of assembly
	by         int64      // the generation that superseded it, 0 without one
}

func newInbox(maxBytes int, accepted int64) *inbox {
	in := &inbox{maxBytes: maxBytes, accepted: accepted}
	in.moved.L = &in.mu
	return in
}

// room waits until n bytes may be held besides what waits and is being built, or
// nothing does: all of it together stays within the bound of one assignment.
// It says whether more may come: not to a closed inbox.
func (in *inbox) room(n int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for in.held > 0 && in.held+n > in.maxBytes && !in.closed {
		in.moved.Wait()
	}
	return !in.closed
}

// put takes what was assembled. Of two that wait, the one of the newer generation
// stays, or the first; the other is superseded. One without chunks is invalid
// already and takes nobody's place, nor does one that is stale already.
func (in *inbox) put(generation int64, assembly *assembler) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.waiting) >= maxUndecided && !in.closed {
		in.moved.Wait()
	}
	if in.closed {
		return
	}
	c := completed{generation: generation}
	switch p := in.pending(); {
	case p != nil && generation <= p.generation:
		c.by = p.generation
	case assembly.chunks > 0 && generation > in.accepted:
		for i := range in.waiting {
			if c := &in.waiting[i]; c.by == 0 {
				c.by = generation
				in.forget(c)
			}
		}
		c.assembly, c.bytes = assembly, assembly.bytes()
		in.held += c.bytes
	}
	in.waiting = append(in.waiting, c)
	in.moved.Broadcast()
}

// pending is the one that waits to be built, nil without one. Called under mu.
func (in *inbox) pending() *completed {
	for i := range in.waiting {
		if in.waiting[i].assembly != nil {
			return &in.waiting[i]
		}
	}
	return nil
}

// forget drops what there is to build of c. Called under mu.
func (in *inbox) forget(c *completed) {
	in.held -= c.bytes
	c.assembly, c.bytes = nil, 0
}

// wait waits for something to decide on. build says that there is something to
// build, ok that there is anything: nothing more comes to a closed inbox.
func (in *inbox) wait() (build, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.waiting) == 0 && !in.closed {
		in.moved.Wait()
	}
	return in.pending() != nil, len(in.waiting) > 0
}

// take takes what waits: all of it to build the newest, which may have come since
// wait said that there is something, else what came before there was.
func (in *inbox) take(build bool) []completed {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := 0
	for n < len(in.waiting) && (build || in.waiting[n].assembly == nil) {
		n++
	}
	taken := in.waiting[:n:n]
	in.waiting = slices.Clone(in.waiting[n:])
	in.moved.Broadcast()
	return taken
}

// built says what came of the one that was taken to be built. What is stale by
// that need not be.
func (in *inbox) built(c completed, accepted bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.held -= c.bytes
	if accepted {
		in.accepted = c.generation
		if p := in.pending(); p != nil && p.generation <= in.accepted {
			in.forget(p)
		}
	}
	in.moved.Broadcast()
}

// close ends it: what waits stays to be taken, and nobody waits any more.
func (in *inbox) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.moved.Broadcast()
}
