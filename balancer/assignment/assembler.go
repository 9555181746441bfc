package assignment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// maxKeyBytes is the longest start or end key of a slice (A119: Slice).
const maxKeyBytes = 512

// infinity is the end of the keyspace in assembler.end: no end key.
const infinity = int(-1)

// assembler gathers the chunks of one logical assignment in flat arrays, with
// no object per slice: memory is what the finished Assignment retains, and a
// chunk costs a handful of allocations. Not for concurrent use.
//
// Slices mostly arrive sorted and contiguous, so an end key is kept only where
// the next slice to arrive does not start there. A stretch of slices each of
// which starts where the one before ends is a run, and runs are what is sorted
// when the assignment is built: one run is no work at all.
type assembler struct {
	maxBytes int // Options.MaxAssignmentBytes
	previous sizes

	chunks    int
	wireBytes int // of the chunks
	extra     int // memory beyond what lengths of arrays say: see bytes

	names    []byte   // endpoint names, one after the other
	nameEnds []uint32 // where each ends

	keys      []byte   // start keys, one after the other, in order of arrival
	keyEnds   []uint32 // where each slice's start key ends
	owners    []uint32 // endpoint indices; an int32 below 0 is above every valid one
	ownerEnds []uint32
	maxOwner  uint32
	most      int // owners of one slice

	runs    []run
	runEnds []byte // end keys of all runs but the last one

	// end is where the newest slice ends: its key, or infinity in endLen. While a
	// frame is decoded it points into the frame, between frames into endCopy.
	end     []byte
	endLen  int
	endCopy []byte

	// Of build:
	ctx         context.Context // ends it early: see pause
	steps       int             // calls of pause
	interrupted bool            // by pause
}

// run is slices that arrived one after the other, each starting where the one
// before it ends. A slice with a fault of its own begins a run.
type run struct {
	word   uint64 // for sorting: see sortRuns
	first  uint32 // number of its first slice
	last   uint32 // number of its last slice, set when runs are sorted
	endAt  uint32 // where its end key begins in runEnds
	endLen int16  // at most maxKeyBytes; infinity: to the end of the keyspace
	fault  fault  // of its first slice
}

// sizes are the lengths of the arrays of the assignment before, so that
// replacing a large assignment does not pay for growing arrays step by step.
type sizes struct{ keys, slices, owners int }

// errTooLarge is wrapped by the error for an assignment past MaxAssignmentBytes.
var errTooLarge = errors.New("the assignment is too large")

// reset forgets everything gathered; field case AP-01: no residue.
func (a *assembler) reset() {
	*a = assembler{maxBytes: a.maxBytes, previous: a.previous}
}

// complete hands over what was gathered and leaves an empty assembler, so that
// the next assignment is gathered while this one is built.
func (a *assembler) complete() *assembler {
	whole := *a
	a.previous = sizes{keys: len(a.keys), slices: a.slices(), owners: len(a.owners)}
	a.reset()
	return &whole
}

// slices is how many slices came, good and bad.
func (a *assembler) slices() int { return len(a.keyEnds) }

// bytes is about how much memory is held. Every slice and endpoint costs some,
// so a hostile service cannot make many out of few bytes either.
func (a *assembler) bytes() int {
	const runBytes = 24
	return len(a.names) + 4*len(a.nameEnds) + len(a.keys) + 4*len(a.keyEnds) +
		4*len(a.owners) + 4*len(a.ownerEnds) + runBytes*len(a.runs) + len(a.runEnds) + a.extra
}

// charge refuses n more bytes on the wire, or what is held, past the bound.
func (a *assembler) charge(n int) error {
	a.wireBytes += n
	return a.checkBound()
}

func (a *assembler) checkBound() error {
	if a.wireBytes > a.maxBytes || a.bytes() > a.maxBytes {
		return fmt.Errorf("%w: its chunks passed the bound of %d bytes (MaxAssignmentBytes) before its metadata came; raise the bound or serve fewer slices",
			errTooLarge, a.maxBytes)
	}
	return nil
}

// addName takes one endpoint name. A string header is what it costs later.
func (a *assembler) addName(name []byte) {
	const stringHeader = 16
	a.extra += stringHeader
	a.names = append(a.names, name...)
	a.nameEnds = append(a.nameEnds, uint32(len(a.names)))
}

// addOwner takes one endpoint index of the slice that addSlice ends.
func (a *assembler) addOwner(index int32) {
	a.maxOwner = max(a.maxOwner, uint32(index))
	if len(a.owners) == cap(a.owners) {
		a.owners = grow(a.owners, 1, a.previous.owners)
	}
	a.owners = append(a.owners, uint32(index))
}

// addSlice takes the range of one slice, whose owners were added before. end
// points into the frame; without hasEnd the slice runs to the end of the keyspace.
func (a *assembler) addSlice(start, end []byte, hasEnd bool) {
	f := rangeFault(start, end, hasEnd)
	if f == startTooLong || f == endTooLong {
		start, end, hasEnd = nil, nil, false // never used; do not hold 16 MiB of it
	}
	number := uint32(len(a.keyEnds))
	if number == 0 || f != 0 || a.endLen != len(start) || !bytes.Equal(a.end, start) {
		a.closeRun()
		a.runs = append(a.runs, run{first: number, fault: f})
	}
	if len(a.keys)+len(start) > cap(a.keys) {
		a.keys = grow(a.keys, len(start), a.previous.keys)
	}
	a.keys = append(a.keys, start...)
	if len(a.keyEnds) == cap(a.keyEnds) {
		a.keyEnds = grow(a.keyEnds, 1, a.previous.slices)
		a.ownerEnds = grow(a.ownerEnds, 1, a.previous.slices)
	}
	before := 0
	if number > 0 {
		before = int(a.ownerEnds[number-1])
	}
	a.most = max(a.most, len(a.owners)-before)
	a.keyEnds = append(a.keyEnds, uint32(len(a.keys)))
	a.ownerEnds = append(a.ownerEnds, uint32(len(a.owners)))
	a.end, a.endLen = end, len(end)
	if !hasEnd {
		a.end, a.endLen = nil, infinity
	}
}

// closeRun notes where the newest slice ends, because the next one does not
// start there or there is none.
func (a *assembler) closeRun() {
	if len(a.runs) == 0 {
		return
	}
	r := &a.runs[len(a.runs)-1]
	r.endAt, r.endLen = uint32(len(a.runEnds)), int16(a.endLen)
	a.runEnds = append(a.runEnds, a.end...)
}

// keepEnd makes the newest end key outlive the frame.
func (a *assembler) keepEnd() {
	a.endCopy = append(a.endCopy[:0], a.end...)
	a.end = a.endCopy
}

// start is the start key of a slice.
func (a *assembler) start(slice uint32) []byte {
	from := uint32(0)
	if slice > 0 {
		from = a.keyEnds[slice-1]
	}
	return a.keys[from:a.keyEnds[slice]]
}

// ownersOf are the endpoint indices of a slice.
func (a *assembler) ownersOf(slice uint32) []uint32 {
	from := uint32(0)
	if slice > 0 {
		from = a.ownerEnds[slice-1]
	}
	return a.owners[from:a.ownerEnds[slice]]
}

// runEnd is the end key of a closed run.
func (a *assembler) runEnd(r run) bound {
	if r.endLen == int16(infinity) {
		return bound{infinite: true}
	}
	return bound{key: a.runEnds[r.endAt : r.endAt+uint32(r.endLen)]}
}

// bound is an exclusive end of a range.
type bound struct {
	key      []byte
	infinite bool
}

// compare orders a bound and a key.
func (b bound) compare(key []byte) int {
	if b.infinite {
		return 1
	}
	return bytes.Compare(b.key, key)
}

// grow makes room for n more. Once an assignment has an eighth of the one
// before, it will most likely be as large, and one allocation of that size
// replaces several larger and larger ones.
func grow[T any](s []T, n, previous int) []T {
	want := len(s) + n
	if want >= previous/8 && want <= previous {
		want = previous
	} else {
		want = max(want, 16, len(s)+len(s)/4, min(2*len(s), 1<<16))
	}
	grown := make([]T, len(s), want)
	copy(grown, s)
	return grown
}
