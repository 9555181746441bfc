package main

import "math/bits"

// eytzinger is numbers in the order of a breadth-first walk over their search
// tree, from position 1. Searching it is the limit for an index over random
// keys: it has no ties to break, no bytes to compare and nothing to map back.
type eytzinger []uint64

func newEytzinger(sorted []uint64) eytzinger {
	e := make(eytzinger, len(sorted)+1)
	e.fill(sorted, 1)
	return e
}

// fill lays out the subtree at a position and returns what of sorted is left.
func (e eytzinger) fill(sorted []uint64, at int) []uint64 {
	if at >= len(e) {
		return sorted
	}
	sorted = e.fill(sorted, 2*at)
	e[at] = sorted[0]
	return e.fill(sorted[1:], 2*at+1)
}

// find returns the position of the first number above v, 0 if there is none.
func (e eytzinger) find(v uint64) int {
	at := 1
	for at < len(e) {
		step := 0
		if e[at] <= v {
			step = 1
		}
		at = 2*at + step
	}
	// Undo the steps to the right since the last one to the left.
	return at >> (bits.TrailingZeros(^uint(at)) + 1)
}
