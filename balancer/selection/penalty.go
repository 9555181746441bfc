package selection

import (
	"sync/atomic"
	"time"
)

// penalty makes a member that fails look busier for a while. A failure counts
// like one more attempt in flight and fades linearly to nothing, so that a
// member that answers quickly because it fails does not look idle (field case
// SP-07), and is not flooded the moment the penalty ends (SP-08).
//
// The failures of a member are seen by all policies, of which each may fade them
// over another time. So they are kept for a few times, the horizons, and a
// policy reads what is kept for the first horizon that is not shorter than its
// own time. One failure fades exactly over the policy's time. Further ones are
// added to what is left of those before, as the horizon fades it; the sum fades
// over the full time again.
//
// Each word is one sum: amount and the tick it was right at. Endings of attempts
// add with compare and swap, any number of picks load. 0 means no failure, which
// is all that a pick looks at then; the clock is read only beside a sum.
type penalty struct {
	words [classes]atomic.Uint64
	clock func() time.Duration // nil: the process's
}

// horizons are the times that sums are kept for. The first stands for no
// penalty: its word stays 0.
var horizons = [classes]time.Duration{0, 250 * time.Millisecond, time.Second, 4 * time.Second, MaxPenalty}

const (
	classes = 5 // of penalties, one for each horizon

	// DefaultPenalty is over what time a failure fades by default.
	DefaultPenalty = time.Second
	// MaxPenalty is the longest that may be set.
	MaxPenalty = 16 * time.Second
)

const (
	attempt   = 64 // one attempt, in units of busy and of sums
	tick      = 1 << 18 * time.Nanosecond
	tickBits  = 40 // nine years; a sum is never that old, as picks clear those that ended
	tickMask  = 1<<tickBits - 1
	maxAmount = 1<<(64-tickBits) - 1 // 262,143 attempts
)

// fade is a policy's time in ticks, and which horizon it reads.
type fade struct {
	over  uint64
	class uint8
}

func fadeOver(d time.Duration) fade {
	if d <= 0 {
		return fade{}
	}
	d = min(d, MaxPenalty)
	class := uint8(1)
	for d > horizons[class] {
		class++
	}
	return fade{over: ticks(d), class: class}
}

// ticks rounds up, so that no time is nothing.
func ticks(d time.Duration) uint64 { return uint64((d + tick - 1) / tick) }

// start is where the process's clock counts from.
var start = time.Now()

func (p *penalty) tick() uint64 {
	if p.clock != nil {
		return uint64(p.clock()/tick) & tickMask
	}
	return uint64(time.Since(start)/tick) & tickMask
}

// add counts one failure.
func (p *penalty) add() {
	now := p.tick()
	for class := 1; class < len(horizons); class++ {
		w := &p.words[class]
		for over := ticks(horizons[class]); ; {
			old := w.Load()
			at := now
			if old != 0 && age(old, now) == 0 {
				at = old & tickMask // another core's clock may be ahead
			}
			sum := min(left(old, now, over)+attempt, maxAmount)
			if w.CompareAndSwap(old, sum<<tickBits|at) {
				break
			}
		}
	}
}

// now is what failures count for under f.
func (p *penalty) now(f fade) int64 {
	w := &p.words[f.class]
	word := w.Load()
	if word == 0 {
		return 0
	}
	now := p.tick()
	if age(word, now) >= ticks(horizons[f.class]) {
		w.CompareAndSwap(word, 0) // no pick needs to read the clock again
		return 0
	}
	return int64(left(word, now, f.over))
}

// left is what is left of a sum at now when it fades over the given ticks.
func left(word, now, over uint64) uint64 {
	a := age(word, now)
	if a >= over {
		return 0
	}
	return (word >> tickBits) * (over - a) / over
}

// age is how old a sum is in ticks. One that another core wrote a moment after
// this one read the clock is new.
func age(word, now uint64) uint64 {
	a := (now - word) & tickMask
	if a > tickMask/2 {
		return 0
	}
	return a
}
