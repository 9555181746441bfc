package balancer

import (
	"sync/atomic"
	"unsafe"
)

// tally is a count that cores add to at the same time. It is spread over cache
// lines of its own, so that cores seldom wait for each other and never make what
// picks only read leave another core's cache.
type tally struct {
	_     [64]byte
	parts [8]struct {
		n atomic.Uint64
		_ [56]byte
	}
}

// add chooses a part by the address of the goroutine's stack: a goroutine keeps
// to one part for as long as it stays where it is, which a random choice does not,
// and nothing has to be kept for it.
func (t *tally) add() {
	var here byte
	const fibonacci = 0x9E3779B97F4A7C15
	// Stacks are 2 KiB at least.
	hash := uint64(uintptr(unsafe.Pointer(&here))) >> 11 * fibonacci
	t.parts[hash>>61].n.Add(1)
}

// addMany adds what was counted elsewhere.
func (t *tally) addMany(n uint64) { t.parts[0].n.Add(n) }

func (t *tally) load() (sum uint64) {
	for i := range t.parts {
		sum += t.parts[i].n.Load()
	}
	return sum
}
