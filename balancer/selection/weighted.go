package selection

import (
	"context"
	"math/bits"
	"sort"
)

// wheel is the data of weighted: a circle of 2^64 places of which each member
// has a part in proportion to its weight, an interval. Pick number k looks at
// place k*r for an irrational r (as a fraction of the circle), the golden ratio:
// such places are spread over the circle more evenly than any others, in every
// stretch of picks, so that each member gets its share smoothly and nothing has
// to be counted for each. A guide by the first bits of the place makes finding
// the interval a step or two.
type wheel struct {
	state *State
	index []int32  // the members with a part
	from  []uint64 // where each part begins; from[0] is 0
	guide []int32  // for each equal cut of the circle, the part that its beginning is in; one more at the end
	shift uint8    // cuts are 1<<shift places long
	step  int      // for walking over all: has no common divisor with their number
}

// tries is how many candidates of a call are drawn by weight.
const tries = len(turns)

// turns are irrational fractions of the circle, one for each try: the golden
// ratio, then those of square roots of small primes. Try t of pick k looks at
// place k*turns[t], so that the picks which one member refuses are spread evenly
// over the others too.
var turns = [...]uint64{
	0x9e3779b97f4a7c15, // √5: (√5-1)/2
	0x6a09e667f3bcc909, // √2
	0xbb67ae8584caa73b, // √3
	0xa54ff53a5f1d36f1, // √7
	0x510e527fade682d1, // √11
	0x9b05688c2b3e6c1f, // √13
	0x1f83d9abfb41bd6b, // √17
	0x5be0cd19137e2179, // √19
}

func buildWheel(ctx context.Context, ms []*Member, w *weigher, s *State) (*wheel, error) {
	in, err := weigh(ctx, ms, w)
	if err != nil {
		return nil, err
	}
	n := len(in.index)
	o := &wheel{state: s, index: in.index, from: make([]uint64, n)}
	if n == 0 {
		return o, nil
	}
	before := uint64(0)
	for i, weight := range in.weights {
		o.from[i], _ = bits.Div64(before, 0, in.total)
		before += uint64(weight)
	}
	cuts := bits.Len(uint(n)) // at least as many cuts as parts
	o.shift = uint8(64 - cuts)
	o.guide = make([]int32, 1<<cuts+1)
	part := 0
	for cut := range 1 << cuts {
		for part+1 < n && o.from[part+1] <= uint64(cut)<<o.shift {
			part++
		}
		o.guide[cut] = int32(part)
	}
	o.guide[1<<cuts] = int32(n - 1)
	o.step = coprime(n)
	return o, nil
}

// coprime returns a number near the golden share of n that has no common divisor
// with it.
func coprime(n int) int {
	for step := max(1, n*618/1000); ; step++ {
		a, b := n, step
		for b != 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return step
		}
	}
}

// at returns the part that a place is in.
func (o *wheel) at(place uint64) int32 {
	cut := place >> o.shift
	i, last := o.guide[cut], o.guide[cut+1]
	if last-i > 8 { // many small parts in one cut
		parts := o.from[i+1 : last+1]
		return i + int32(sort.Search(len(parts), func(k int) bool { return parts[k] > place }))
	}
	for i < last && o.from[i+1] <= place {
		i++
	}
	return i
}

// Next implements Order.
func (o *wheel) Next(_ Call, c Cursor) (int, Cursor) { return o.next(c) }

// next draws the first candidates by weight and then walks over all others. A
// cursor's A is the number of the pick, B how many candidates it had in its low
// half and how far it walked in its high half.
func (o *wheel) next(c Cursor) (int, Cursor) {
	if c.B == 0 {
		if len(o.index) == 0 {
			return -1, c
		}
		k := o.state.weighted.Add(1) + phase
		return int(o.index[o.at(k*turns[0])]), Cursor{A: k, B: 1}
	}
	return o.further(c)
}

// further draws again what was drawn before, rather than remembering it.
func (o *wheel) further(c Cursor) (int, Cursor) {
	had, walked := int(uint32(c.B)), int(c.B>>32)
	var drawn [tries]int32
	n := 0
	isDrawn := func(part int32) bool {
		for _, d := range drawn[:n] {
			if d == part {
				return true
			}
		}
		return false
	}
	for _, turn := range turns {
		part := o.at(c.A * turn)
		if isDrawn(part) {
			continue
		}
		if n == had {
			return int(o.index[part]), Cursor{A: c.A, B: c.B + 1}
		}
		drawn[n] = part
		n++
	}
	all := len(o.index)
	first := int(drawn[0])
	for ; walked < all; walked++ {
		part := int32((first + walked*o.step) % all)
		if !isDrawn(part) {
			return int(o.index[part]), Cursor{A: c.A, B: uint64(walked+1)<<32 | uint64(had+1)}
		}
	}
	return -1, c
}

// Bytes is how much memory the data holds.
func (o *wheel) Bytes() int64 {
	return int64(len(o.index)*4 + len(o.from)*8 + len(o.guide)*4)
}
