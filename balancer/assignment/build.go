package assignment

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	"github.com/slicewire/slicewire/balancer/keyrange"
)

// noChunk is what is wrong with an assignment that is a metadata alone.
const noChunk = "the metadata came without any chunk"

// build turns what was gathered into an Assignment. Without one, or where
// slices had to be dropped, message says why; it is ready for an ack. The
// assembler is empty afterwards.
//
// Revision 2026-08: any fault refuses the whole. Revision 2026-10: bad slices
// and all slices that overlap are dropped, gaps become slices of Kind Gap, and
// only an assignment without a usable slice is refused.
//
// When ctx ends, build does so soon after, with neither: pause says how soon.
func (a *assembler) build(ctx context.Context, generation int64, revision Revision) (made *Assignment, message string) {
	a.ctx = ctx
	defer func() {
		if a.interrupted { // any other panic is somebody's fault and goes on
			_ = recover()
			made, message = nil, ""
		}
		a.reset()
	}()
	if a.chunks == 0 {
		return nil, noChunk
	}
	a.closeRun()
	if a.sortRuns(); a.whole() {
		return a.finish(generation, a.joinRuns(), "")
	}
	usable, ends, faults := a.inspect()
	if len(usable) == 0 || revision == Revision202608 {
		a.walkGaps(usable, ends, func(_ []byte, after int64) { faults.add(gap, after) }, func(uint32) {})
		return nil, clipText(faults.String(), maxMessageRunes)
	}
	l := a.fillGaps(usable, ends, faults)
	return a.finish(generation, l, clipText(faults.String(), maxMessageRunes))
}

// pauseEvery is how many slices build works on between two looks at its context.
const pauseEvery = 4096

// pause is called for every slice or comparison in the long loops of build, and
// leaves it by a panic once its context has ended: a sort can not be left
// otherwise. What goes on unasked is one clearing or copying of an array, and
// keyrange.New.
func (a *assembler) pause() {
	if a.steps++; a.steps%pauseEvery == 0 {
		a.leaveIfEnded()
	}
}

func (a *assembler) leaveIfEnded() {
	if err := a.ctx.Err(); err != nil {
		a.interrupted = true
		panic(err)
	}
}

// sortRuns puts runs in the order of their start keys. Their slices stay where
// they are: a run's last slice is found by its neighbour in order of arrival,
// so it is noted first.
func (a *assembler) sortRuns() {
	for i := range a.runs {
		a.runs[i].last = uint32(a.slices() - 1)
		if i+1 < len(a.runs) {
			a.runs[i].last = a.runs[i+1].first - 1
		}
	}
	inOrder := func(x, y run) int { return bytes.Compare(a.start(x.first), a.start(y.first)) }
	if slices.IsSortedFunc(a.runs, inOrder) {
		return
	}
	a.setWords()
	slices.SortFunc(a.runs, func(x, y run) int {
		a.pause()
		if x.word != y.word {
			return cmp.Compare(x.word, y.word)
		}
		return inOrder(x, y)
	})
}

// setWords gives each run the eight bytes of its start key behind what all start
// keys share, so that most comparisons of a sort need not look at keys. Shorter
// keys are padded with zeros, which keeps the order but for ties.
func (a *assembler) setWords() {
	shared := -1
	var some []byte
	for _, r := range a.runs {
		a.pause()
		key := a.start(r.first)
		switch {
		case len(key) == 0: // below every other key, whatever those share
		case shared < 0:
			some, shared = key, len(key)
		default:
			n := 0
			for n < min(shared, len(key)) && key[n] == some[n] {
				n++
			}
			shared = n
		}
	}
	for i := range a.runs {
		a.pause()
		var word [8]byte
		if key := a.start(a.runs[i].first); len(key) > 0 {
			copy(word[:], key[shared:])
		}
		a.runs[i].word = binary.BigEndian.Uint64(word[:])
	}
}

// whole says that the sorted runs cover the keyspace exactly and nothing is
// wrong with any slice.
func (a *assembler) whole() bool {
	if a.hasBadOwners() {
		return false
	}
	reach := bound{key: []byte{}}
	for _, r := range a.runs {
		a.pause()
		if r.fault != noFault || reach.compare(a.start(r.first)) != 0 {
			return false
		}
		reach = a.runEnd(r)
	}
	return reach.infinite
}

// hasBadOwners says whether some endpoint index is outside the endpoint list, or
// some slice lists far more owners than there are endpoints: a pick may look at
// each of them. Naming one again is fine, a service may weigh owners so. An int
// of 32 bits would take the largest indices for negative.
func (a *assembler) hasBadOwners() bool {
	return len(a.owners) > 0 && (uint64(a.maxOwner) >= uint64(len(a.nameEnds)) || a.most > len(a.nameEnds)+maxRepeats)
}

// layout is the arrays of a finished assignment.
type layout struct {
	keys      []byte
	keyEnds   []uint32
	owners    []uint32
	ownerEnds []uint32
	gaps      []uint64
}

func (l *layout) add(start []byte, owners []uint32) {
	l.keys = append(l.keys, start...)
	l.keyEnds = append(l.keyEnds, uint32(len(l.keys)))
	l.owners = append(l.owners, owners...)
	l.ownerEnds = append(l.ownerEnds, uint32(len(l.owners)))
}

func (l *layout) addGap(start []byte) {
	slice := len(l.keyEnds)
	l.add(start, nil)
	for len(l.gaps) <= slice/64 {
		l.gaps = append(l.gaps, 0)
	}
	l.gaps[slice/64] |= 1 << (slice % 64)
}

// joinRuns lays the sorted runs out one after the other. One run is there
// already; of several, keys go first and are freed before the owners are
// copied, so that less lies about twice.
func (a *assembler) joinRuns() layout {
	if len(a.runs) == 1 {
		return layout{keys: clip(a.keys), keyEnds: clip(a.keyEnds), owners: clip(a.owners), ownerEnds: clip(a.ownerEnds)}
	}
	l := layout{keys: make([]byte, 0, len(a.keys)), keyEnds: make([]uint32, 0, a.slices())}
	for _, r := range a.runs {
		for s := r.first; s <= r.last; s++ {
			a.pause()
			l.keys = append(l.keys, a.start(s)...)
			l.keyEnds = append(l.keyEnds, uint32(len(l.keys)))
		}
	}
	a.keys, a.keyEnds = nil, nil
	l.owners, l.ownerEnds = make([]uint32, 0, len(a.owners)), make([]uint32, 0, len(a.ownerEnds))
	for _, r := range a.runs {
		for s := r.first; s <= r.last; s++ {
			a.pause()
			l.owners = append(l.owners, a.ownersOf(s)...)
			l.ownerEnds = append(l.ownerEnds, uint32(len(l.owners)))
		}
	}
	return l
}

// inspect looks at each slice by itself and returns the usable ones in order,
// where slices end, and what is wrong with the others. A slice that is bad by
// itself is gone before overlaps are looked for.
func (a *assembler) inspect() (usable []uint32, ends sliceEnds, faults *report) {
	n := a.slices()
	found := make([]fault, n)
	ends = sliceEnds{a: a, runOf: make([]uint32, n)}
	for i, r := range a.runs {
		ends.runOf[r.last] = uint32(i + 1)
		found[r.first] = r.fault
	}
	if a.hasBadOwners() {
		a.markBadOwners(found)
	}
	order := make([]uint32, 0, n)
	for _, r := range a.runs {
		for s := r.first; s <= r.last; s++ {
			a.pause()
			if found[s] == noFault {
				order = append(order, s)
			}
		}
	}
	byStart := func(x, y uint32) int {
		a.pause()
		return bytes.Compare(a.start(x), a.start(y))
	}
	if !slices.IsSortedFunc(order, byStart) {
		slices.SortFunc(order, byStart)
	}
	markOverlaps(a, order, ends, found)
	usable = slices.DeleteFunc(order, func(s uint32) bool { return found[s] != noFault })

	faults = &report{slices: n}
	for s, f := range found {
		if f != noFault {
			faults.add(f, int64(s))
		}
	}
	return usable, ends, faults
}

func (a *assembler) markBadOwners(found []fault) {
	endpoints := len(a.nameEnds)
	outside := func(owner uint32) bool { return uint64(owner) >= uint64(endpoints) }
	for s := range found {
		a.pause()
		switch owners := a.ownersOf(uint32(s)); {
		case found[s] != noFault:
		case slices.ContainsFunc(owners, outside):
			found[s] = badIndex
		case len(owners) > endpoints+maxRepeats:
			found[s] = tooManyOwners
		}
	}
}

// markOverlaps marks every slice that overlaps another one. order is sorted by
// start, so a slice overlaps an earlier one if it starts before the furthest
// end so far. Marking it and the slice that reaches so far is enough: any other
// slice that also reaches past this start shares a key with that one, and was
// marked when the later of the two came.
func markOverlaps(a *assembler, order []uint32, ends sliceEnds, found []fault) {
	var reach bound
	var holder uint32
	for i, s := range order {
		a.pause()
		if i > 0 && reach.compare(a.start(s)) > 0 {
			found[s], found[holder] = overlap, overlap
		}
		end := ends.of(s)
		if i == 0 || !reach.infinite && (end.infinite || reach.compare(end.key) < 0) {
			reach, holder = end, s
		}
	}
}

// sliceEnds finds where a slice ends.
type sliceEnds struct {
	a     *assembler
	runOf []uint32 // of the last slice of a run: its position in runs, plus 1
}

func (e sliceEnds) of(slice uint32) bound {
	if r := e.runOf[slice]; r > 0 {
		return e.a.runEnd(e.a.runs[r-1])
	}
	return bound{key: e.a.start(slice + 1)}
}

// walkGaps calls each for every usable slice, in order, and missing wherever one
// ends before the next starts, with where the gap begins and the slice before
// it, -1 at the start of the keyspace.
func (a *assembler) walkGaps(usable []uint32, ends sliceEnds, missing func(start []byte, after int64), each func(slice uint32)) {
	reach, before := bound{key: []byte{}}, int64(-1)
	for _, s := range usable {
		a.pause()
		if reach.compare(a.start(s)) < 0 {
			missing(reach.key, before)
		}
		each(s)
		reach, before = ends.of(s), int64(s)
	}
	if !reach.infinite {
		missing(reach.key, before)
	}
}

// fillGaps lays the usable slices out with slices of Kind Gap between them, and
// reports the gaps.
func (a *assembler) fillGaps(usable []uint32, ends sliceEnds, faults *report) layout {
	l := layout{
		keys: make([]byte, 0, len(a.keys)), keyEnds: make([]uint32, 0, len(usable)+1),
		owners: make([]uint32, 0, len(a.owners)), ownerEnds: make([]uint32, 0, len(usable)+1),
	}
	a.walkGaps(usable, ends,
		func(start []byte, after int64) {
			l.addGap(start)
			faults.add(gap, after)
		},
		func(s uint32) { l.add(a.start(s), a.ownersOf(s)) })
	if l.gaps != nil {
		l.gaps = append(l.gaps, make([]uint64, (len(l.keyEnds)+63)/64-len(l.gaps))...)
	}
	return layout{keys: clip(l.keys), keyEnds: clip(l.keyEnds), owners: clip(l.owners), ownerEnds: clip(l.ownerEnds), gaps: clip(l.gaps)}
}

// finish indexes a layout. The index checks the order of the keys once more;
// what validation let through against its purpose is refused, not put in force.
func (a *assembler) finish(generation int64, l layout, message string) (*Assignment, string) {
	a.keys, a.keyEnds, a.owners, a.ownerEnds = nil, nil, nil, nil
	a.leaveIfEnded()
	index, err := keyrange.New(l.keys, l.keyEnds)
	if err != nil {
		return nil, clipText("the slices cannot be indexed: "+err.Error(), maxMessageRunes)
	}
	names := string(a.names)
	endpoints := make([]string, len(a.nameEnds))
	from := uint32(0)
	for i, to := range a.nameEnds {
		endpoints[i] = names[from:to]
		from = to
	}
	return &Assignment{
		Generation: generation,
		Endpoints:  endpoints,
		Index:      index,
		owners:     l.owners,
		ownerEnds:  l.ownerEnds,
		gaps:       l.gaps,
		nameBytes:  len(names),
		uncovered:  ownerless(l.ownerEnds),
	}, message
}

// ownerless counts the slices that end where they begin.
func ownerless(ends []uint32) (n int) {
	start := uint32(0)
	for _, end := range ends {
		if end == start {
			n++
		}
		start = end
	}
	return n
}

// clip gives back room that is more than an eighth too large.
func clip[T any](s []T) []T {
	if cap(s)-len(s) <= len(s)/8 {
		return s
	}
	return append(make([]T, 0, len(s)), s...)
}
