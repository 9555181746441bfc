package admission

import (
	"sync/atomic"
	"time"
)

// trials are the permits of a half-open phase, in one word: when the last was
// granted, the round, how many permits of it are taken, and how many calls
// succeeded. Picks and reports change it with compare and swap.
//
// A round ends when its permits lapse; the next grants anew what has not
// succeeded yet. A permit of an earlier round cannot be given back, as it is no
// longer taken.
type trials struct{ word atomic.Uint64 }

const (
	trialBits   = 5
	roundBits   = 10 // a round that comes again after 1,024 that lapsed costs one trial call more
	grantedBits = 64 - roundBits - 2*trialBits
	grain       = time.Duration(1 << 16) // of granted, in nanoseconds; 44 bits of it are 36 years
)

// permits is the word unpacked.
type permits struct {
	granted       time.Duration // in grains, rounded up so that no permit lapses early
	round         uint64
	taken, passed int
}

func unpack(w uint64) permits {
	return permits{
		granted: time.Duration(w >> (64 - grantedBits)),
		round:   w >> (2 * trialBits) & (1<<roundBits - 1),
		taken:   int(w >> trialBits & maxTrialCalls),
		passed:  int(w & maxTrialCalls),
	}
}

func (p permits) pack() uint64 {
	return uint64(p.granted)<<(64-grantedBits) | p.round&(1<<roundBits-1)<<(2*trialBits) |
		uint64(p.taken)<<trialBits | uint64(p.passed)
}

func grains(d time.Duration) time.Duration { return (d + grain - 1) / grain }

// lapses is when the last permit does, in grains.
func (p permits) lapses(o *BreakerOptions) time.Duration { return p.granted + grains(o.OpenFor) }

// acquire takes a permit and returns its round.
func (t *trials) acquire(now time.Duration, o *BreakerOptions) (round uint64, ok bool) {
	for {
		old := t.word.Load()
		p := unpack(old)
		if p.taken >= o.HalfOpenCalls {
			if p.passed >= o.HalfOpenCalls || now/grain < p.lapses(o) {
				return 0, false
			}
			p.taken = p.passed
			p.round++
		}
		p.taken++
		p.granted = grains(now)
		if w := p.pack(); t.word.CompareAndSwap(old, w) {
			return unpack(w).round, true
		}
	}
}

// pass counts one success of a permit of the given round and returns how many
// there are.
func (t *trials) pass(round uint64) int {
	for {
		old := t.word.Load()
		p := unpack(old)
		p.passed = min(p.passed+1, maxTrialCalls)
		if p.round != round { // it lapsed, and is taken again
			p.taken = min(p.taken+1, maxTrialCalls)
		}
		if t.word.CompareAndSwap(old, p.pack()) {
			return p.passed
		}
	}
}

// giveBack returns a permit of the given round that was of no use.
func (t *trials) giveBack(round uint64) {
	for {
		old := t.word.Load()
		p := unpack(old)
		if p.round != round || p.taken <= p.passed {
			return
		}
		p.taken--
		if t.word.CompareAndSwap(old, p.pack()) {
			return
		}
	}
}

func (t *trials) passed() int { return unpack(t.word.Load()).passed }

func (t *trials) retryAfter(now time.Duration, o *BreakerOptions) time.Duration {
	p := unpack(t.word.Load())
	if p.taken < o.HalfOpenCalls {
		return 0
	}
	return max(0, p.lapses(o)*grain-now)
}
