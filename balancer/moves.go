package balancer

import (
	"bytes"
	"slices"
	"sync"

	"github.com/slicewire/slicewire/balancer/assignment"
)

// Reassignment says which key ranges changed hands with one assignment, so that
// an application can move what it keeps per key (field case IM-06): open streams
// stay where they are.
type Reassignment struct {
	// Generation is that of the new assignment.
	Generation int64
	// Moved are the ranges, in order, that differ in owners from the assignment
	// of the previous event.
	Moved []MovedRange
}

// MovedRange is a range of keys. Keys are personal data: do not log the bounds
// if yours are.
type MovedRange struct {
	Start []byte // inclusive
	End   []byte // exclusive; nil runs to the end of the keyspace
	// From and To name the owners before and after, in the service's order.
	From, To []string
}

// moves compares assignments on a goroutine of its own and tells a listener.
type moves struct {
	tell func(Reassignment)

	mu     sync.Mutex             // guards what follows
	first  *assignment.Assignment // to compare with before anything was told
	newest *assignment.Assignment
	closed bool
	wake   chan struct{} // capacity 1
	done   chan struct{}
}

func newMoves(tell func(Reassignment)) *moves {
	m := &moves{tell: tell, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go m.run() // ends with close, which waits for it
	return m
}

// offer notes the newest assignment.
func (m *moves) offer(a *assignment.Assignment) {
	m.set(func() {
		if m.first == nil {
			m.first = a
		}
		m.newest = a
	})
}

func (m *moves) close() {
	m.set(func() { m.closed = true })
	<-m.done
}

func (m *moves) set(change func()) {
	m.mu.Lock()
	change()
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *moves) run() {
	defer close(m.done)
	var told *assignment.Assignment
	for range m.wake {
		m.mu.Lock()
		first, newest, closed := m.first, m.newest, m.closed
		m.mu.Unlock()
		if closed {
			return
		}
		if told == nil {
			told = first
		}
		if newest == nil || newest == told {
			continue
		}
		if moved := movedRanges(told, newest); len(moved) > 0 {
			m.tell(Reassignment{Generation: newest.Generation, Moved: moved})
		}
		told = newest
	}
}

// movedRanges walks both assignments in key order, once.
func movedRanges(old, now *assignment.Assignment) []MovedRange {
	var moved []MovedRange
	i, j := 0, 0 // the slices that hold the position of the walk
	var start []byte
	for i < old.Slices() && j < now.Slices() {
		end, iNext, jNext := nextBound(old, i, now, j)
		if !sameOwners(old, i, now, j) {
			from, to := ownerNames(old, i), ownerNames(now, j)
			if n := len(moved); n > 0 && bytes.Equal(moved[n-1].End, start) &&
				slices.Equal(moved[n-1].From, from) && slices.Equal(moved[n-1].To, to) {
				moved[n-1].End = end
			} else {
				moved = append(moved, MovedRange{Start: start, End: end, From: from, To: to})
			}
		}
		i, j, start = iNext, jNext, end
	}
	return moved
}

// nextBound returns where the first of slice i of a and slice j of b ends, and
// the slices that begin or go on there.
func nextBound(a *assignment.Assignment, i int, b *assignment.Assignment, j int) (end []byte, iNext, jNext int) {
	switch aLast, bLast := i+1 == a.Slices(), j+1 == b.Slices(); {
	case aLast && bLast:
		return nil, i + 1, j + 1
	case aLast:
		return bytes.Clone(b.Index.Start(j + 1)), i, j + 1
	case bLast:
		return bytes.Clone(a.Index.Start(i + 1)), i + 1, j
	}
	aEnd, bEnd := a.Index.Start(i+1), b.Index.Start(j+1)
	switch c := bytes.Compare(aEnd, bEnd); {
	case c < 0:
		return bytes.Clone(aEnd), i + 1, j
	case c > 0:
		return bytes.Clone(bEnd), i, j + 1
	}
	return bytes.Clone(aEnd), i + 1, j + 1
}

func sameOwners(a *assignment.Assignment, i int, b *assignment.Assignment, j int) bool {
	x, y := a.Owners(i), b.Owners(j)
	if len(x) != len(y) {
		return false
	}
	for k := range x {
		if a.Endpoints[x[k]] != b.Endpoints[y[k]] {
			return false
		}
	}
	return true
}

func ownerNames(a *assignment.Assignment, slice int) []string {
	owners := a.Owners(slice)
	names := make([]string, len(owners))
	for i, o := range owners {
		names[i] = a.Endpoints[o]
	}
	return names
}
