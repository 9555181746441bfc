package selection

import (
	"math/bits"
	"math/rand/v2"
)

// window is how many members least_pending looks at.
const window = 64

// below maps 32 random bits to a number below n, evenly up to n/2^32.
func below(r uint32, n int) int { return int(uint64(r) * uint64(n) >> 32) }

// p2c compares two different members (field case SP-04). Of two that are equal
// it takes the one it drew first, which is a random one (SP-03).
func (p *Policy) p2c(v *View) int {
	n := v.Available()
	if n < 2 {
		if n < 1 {
			return -1
		}
		return v.excluded.nth(0)
	}
	r := rand.Uint64()
	a, b := below(uint32(r>>32), n), below(uint32(r), n-1)
	if b >= a {
		b++
	}
	if v.excluded.n != 0 {
		a, b = v.excluded.nth(a), v.excluded.nth(b)
	}
	ma, mb := v.table.At(a), v.table.At(b)
	busyA, failedA := ma.busy(&p.fade)
	busyB, failedB := mb.busy(&p.fade)
	if failedA || failedB {
		busyA, busyB = ma.punished(busyA, &p.fade), mb.punished(busyB, &p.fade)
	}
	if busyB < busyA {
		return b
	}
	return a
}

func random(v *View) int {
	n := v.Available()
	if n < 1 {
		return -1
	}
	return v.excluded.nth(below(uint32(rand.Uint64()), n))
}

func (s *State) roundRobinNext(v *View) int {
	n := v.Available()
	if n < 1 {
		return -1
	}
	return v.excluded.nth(int((s.roundRobin.Add(1) + phase) % uint64(n)))
}

// leastPending looks at a window of members from a random start.
func (p *Policy) leastPending(v *View) int {
	n, available := v.Len(), v.Available()
	if available < 1 {
		return -1
	}
	r := rand.Uint64()
	first := 0
	if available > window {
		first = v.excluded.nth(below(uint32(r>>32), available))
	}
	var seen minima
	if v.excluded.n == 0 {
		for i, left := first, min(n, window); left > 0; {
			part := v.table.chunks[uint(i)/chunk][uint(i)%chunk:]
			part = part[:min(left, len(part))]
			for _, m := range part {
				busy, failed := m.busy(&p.fade)
				if failed {
					busy = m.punished(busy, &p.fade)
				}
				seen.add(busy)
			}
			left -= len(part)
			if i += len(part); i >= n {
				i = 0
			}
		}
		return (first + seen.one(uint32(r))) % n
	}
	for i, left := first, min(available, window); left > 0; left-- {
		i = v.excluded.around(i, 0, n)
		busy, _ := v.table.At(i).busy(&p.fade)
		seen.add(v.table.At(i).punished(busy, &p.fade))
		i++
	}
	return v.excluded.around(first, seen.one(uint32(r)), n)
}

// minima remembers which of up to 64 numbers are the smallest, so that a random
// one of those that are equal can be taken (field case SP-03).
type minima struct {
	least int64
	equal uint64 // the positions of those that are least
	bit   uint64 // of the number added last
}

func (m *minima) add(b int64) {
	if m.bit <<= 1; m.bit == 0 {
		*m = minima{least: b, equal: 1, bit: 1}
		return
	}
	if b < m.least {
		m.least, m.equal = b, m.bit
	} else if b == m.least {
		m.equal |= m.bit
	}
}

// one returns the position of one that is least, by random bits.
func (m *minima) one(r uint32) int {
	equal := m.equal
	for skip := below(r, bits.OnesCount64(equal)); skip > 0; skip-- {
		equal &= equal - 1
	}
	return bits.TrailingZeros64(equal)
}
