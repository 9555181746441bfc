package selection

import (
	"math/bits"
	"slices"
)

// exclusions is a small set of indices: a few by value, so that excluding
// allocates nothing; many in rest.
type exclusions struct {
	n    int32
	few  [8]int32 // the first n, ascending, while rest is nil
	rest []uint64 // a bit set over all of them once there are more than few holds
}

// has says whether i is in the set.
func (e *exclusions) has(i int) bool { return e.n != 0 && e.holds(i) }

func (e *exclusions) holds(i int) bool {
	if e.rest != nil {
		return e.rest[uint(i)/64]>>(uint(i)%64)&1 != 0
	}
	return slices.Contains(e.few[:e.n], int32(i))
}

// add puts i into the set of indices below n.
func (e *exclusions) add(i, n int) {
	if e.has(i) {
		return
	}
	if e.rest == nil && int(e.n) == len(e.few) {
		e.rest = make([]uint64, (n+63)/64)
		for _, f := range e.few {
			e.rest[f/64] |= 1 << (f % 64)
		}
	}
	if e.rest != nil {
		e.rest[uint(i)/64] |= 1 << (uint(i) % 64)
		e.n++
		return
	}
	at := int(e.n)
	for ; at > 0 && e.few[at-1] > int32(i); at-- {
		e.few[at] = e.few[at-1]
	}
	e.few[at] = int32(i)
	e.n++
}

// own makes e independent of the copies of it.
func (e *exclusions) own() { e.rest = slices.Clone(e.rest) }

// nth returns the index of number r, from 0, of those that are not in the set.
// There must be that many.
func (e *exclusions) nth(r int) int {
	if e.n == 0 {
		return r
	}
	return e.skip(r)
}

func (e *exclusions) skip(r int) int {
	if e.rest == nil {
		for _, f := range e.few[:e.n] {
			if int(f) > r {
				break
			}
			r++
		}
		return r
	}
	for w, word := range e.rest {
		free := ^word
		if c := bits.OnesCount64(free); r >= c {
			r -= c
			continue
		}
		for ; r > 0; r-- {
			free &= free - 1
		}
		return w*64 + bits.TrailingZeros64(free)
	}
	return -1
}

// from returns the smallest index >= i that is not in the set, of indices below
// n, and n if there is none.
func (e *exclusions) from(i, n int) int {
	if e.rest == nil {
		for i < n && e.has(i) {
			i++
		}
		return i
	}
	for ; i < n; i = (i/64 + 1) * 64 {
		if free := ^e.rest[i/64] >> (i % 64); free != 0 {
			return min(n, i+bits.TrailingZeros64(free))
		}
	}
	return n
}

// around returns number r, from 0, of those that are not in the set, counted
// from first over the end n to the beginning. There must be one.
func (e *exclusions) around(first, r, n int) int {
	for i := first; ; i++ {
		if i = e.from(i, n); i == n {
			i = e.from(0, n)
		}
		if r--; r < 0 {
			return i
		}
	}
}
