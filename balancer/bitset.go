package balancer

import (
	"math/bits"
	"sync/atomic"
)

// bitset is a fixed set of small numbers with a summary level above it, so that
// the next member after a position is found in a few words however large and
// however empty the set is. One goroutine changes it; any may read it.
type bitset struct {
	n       int
	words   []atomic.Uint64 // bit i%64 of words[i/64]: i is in the set
	summary []atomic.Uint64 // bit w%64 of summary[w/64]: words[w] is not zero
}

func newBitset(n int) *bitset {
	words := (n + 63) / 64
	return &bitset{
		n:       n,
		words:   make([]atomic.Uint64, words),
		summary: make([]atomic.Uint64, (words+63)/64),
	}
}

// set puts i in the set or takes it out. Only the owner calls it.
func (b *bitset) set(i int, in bool) {
	w, bit := i/64, uint64(1)<<(i%64)
	s, sbit := w/64, uint64(1)<<(w%64)
	if in {
		b.words[w].Store(b.words[w].Load() | bit)
		b.summary[s].Store(b.summary[s].Load() | sbit)
		return
	}
	left := b.words[w].Load() &^ bit
	b.words[w].Store(left)
	if left == 0 {
		b.summary[s].Store(b.summary[s].Load() &^ sbit)
	}
}

// next returns the smallest member >= from, or -1. A reader that races with
// set may miss the member that is being added; it never returns a number that
// was not a member a moment ago.
func (b *bitset) next(from int) int {
	if from >= b.n {
		return -1
	}
	w := from / 64
	if word := b.words[w].Load() &^ (1<<(from%64) - 1); word != 0 {
		return w*64 + bits.TrailingZeros64(word)
	}
	w++
	for s := w / 64; s < len(b.summary); s++ {
		sum := b.summary[s].Load()
		if s == w/64 {
			sum &^= 1<<(w%64) - 1
		}
		for sum != 0 {
			i := s*64 + bits.TrailingZeros64(sum)
			if word := b.words[i].Load(); word != 0 {
				return i*64 + bits.TrailingZeros64(word)
			}
			sum &= sum - 1
		}
	}
	return -1
}

// nextAround returns the first member at or after from, going round once.
func (b *bitset) nextAround(from int) int {
	if i := b.next(from); i >= 0 {
		return i
	}
	return b.next(0)
}
