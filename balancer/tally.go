package balancer

import (
	"math/rand/v2"
	"sync/atomic"
)

// tally is a count that cores add to at the same time. It is spread over cache
// lines of its own, so that they seldom wait for each other and never make what
// picks only read leave another core's cache.
type tally struct {
	_     [64]byte
	parts [4]struct {
		n atomic.Uint64
		_ [56]byte
	}
}

func (t *tally) add() { t.parts[rand.Uint32()%uint32(len(t.parts))].n.Add(1) }

func (t *tally) load() (sum uint64) {
	for i := range t.parts {
		sum += t.parts[i].n.Load()
	}
	return sum
}
