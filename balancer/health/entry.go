package health

import (
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
)

// entry is one equivalence key: a target of the registry. The registry's lock guards
// all of it but checker.
type entry struct {
	key  string
	cell *Cell
	uses []use // in the order in which they came; empty: gone

	// What was learned. It outlives changes of uses (field case HR-01).
	probed    bool // one probe has ended
	streak    int  // passed in a row, or failed in a row as a negative number
	err       error
	at        time.Time // of the last verdict
	since     time.Time // in this state
	oddities  oddity    // warned of already
	notifying bool      // in the outbox changed

	due     time.Time
	place   int  // in the heap; -1: not in it
	run     *run // in flight
	waiting bool // is due, and run has not returned

	// checker is of this target alone if Checker is Stateful. It belongs to the
	// worker, of which there is one at a time.
	checker Checker
}

// use is a target as one view contributes it.
type use struct {
	view     *View
	target   Target
	interval time.Duration // 0: the registry's
}

// oddity is what is warned of once per target.
type oddity uint8

const (
	oddNoHealthService oddity = 1 << iota
	oddPanic
)

func (e *entry) gone() bool { return len(e.uses) == 0 }

// forget sets what was learned to the start.
func (e *entry) forget(initial State, now time.Time) {
	e.cell = newCell(initial)
	e.probed, e.streak, e.err, e.at, e.since, e.oddities = false, 0, nil, time.Time{}, now, 0
}

func (e *entry) indexOf(v *View, name string) int {
	return slices.IndexFunc(e.uses, func(u use) bool { return u.view == v && u.target.Name == name })
}

// interval is the shortest that a use asks for, of which standard is one.
func (e *entry) interval(standard time.Duration) time.Duration {
	var shortest time.Duration
	for _, u := range e.uses {
		if d := cmp.Or(u.interval, standard); shortest == 0 || d < shortest {
			shortest = d
		}
	}
	return cmp.Or(shortest, standard)
}

func (e *entry) names() []string {
	names := make([]string, len(e.uses))
	for i, u := range e.uses {
		names[i] = u.target.Name
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// target is what a probe gets: the oldest view's, with the first live connection
// that any of the views has.
func (e *entry) target() Target {
	t := e.uses[0].target
	var conns []func() grpc.ClientConnInterface
	for _, u := range e.uses {
		if u.target.Conn != nil {
			conns = append(conns, u.target.Conn)
		}
	}
	t.Conn = nil
	if len(conns) > 0 {
		t.Conn = func() grpc.ClientConnInterface {
			for _, conn := range conns {
				if live := conn(); live != nil {
					return live
				}
			}
			return nil
		}
	}
	return t
}

// check probes. Only the worker calls it.
func (e *entry) check(ctx context.Context, c Checker, t Target) error {
	if e.checker == nil {
		if s, ok := c.(Stateful); ok {
			c = s.ForTarget()
		}
		e.checker = c
	}
	return e.checker.Check(ctx, t)
}

// closer is what to close when the target is gone; nil: nothing.
func (e *entry) closer(c Checker) io.Closer {
	if _, ok := c.(Stateful); !ok {
		return nil
	}
	closer, _ := e.checker.(io.Closer)
	return closer
}

// dueHeap orders entries by due time; see container/heap.
type dueHeap []*entry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *dueHeap) Push(x any) {
	e := x.(*entry)
	e.place = len(*h)
	*h = append(*h, e)
}

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.place = -1
	return e
}
