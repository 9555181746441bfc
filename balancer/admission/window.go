package admission

import (
	"sync/atomic"
	"time"
)

// window counts the calls and failures of a closed phase over the last while, in
// a ring of buckets. A bucket is one word: the turn of the ring it belongs to,
// failures, calls. Reports add with compare and swap; the first of a new turn
// replaces what is there, so that nothing has to clean up.
//
// Each report is counted once. A report adds before it sums, so of several that
// race the last to add sees all, and no opening is missed; a sum may hold a few
// more than its own time had. A bucket that is full, at a million calls, counts
// no more; a report that was stopped between the clock and the count for a whole
// window takes the bucket of a later one.
type window [buckets]atomic.Uint64

const (
	buckets   = 16
	countBits = 20
	countMax  = 1<<countBits - 1
	turnMask  = 1<<(64-2*countBits) - 1 // turns come again after 194 days at the least
)

// bucketAt numbers the bucket of a time since the clock's start.
func bucketAt(now, window time.Duration) uint64 { return uint64(now / (window / buckets)) }

func (w *window) add(at uint64, failed bool) {
	bucket := &w[at%buckets]
	turn := at / buckets & turnMask
	for {
		old := bucket.Load()
		word := old
		if old>>(2*countBits) != turn {
			word = turn << (2 * countBits)
		}
		if word&countMax == countMax {
			return
		}
		word++
		if failed {
			word += 1 << countBits
		}
		if bucket.CompareAndSwap(old, word) {
			return
		}
	}
}

// sum adds up the buckets of the window that ends with the given one.
func (w *window) sum(at uint64) (failures, calls int) {
	for i := range uint64(buckets) {
		word := w[i].Load()
		age := (at - i) % buckets
		if word>>(2*countBits) == (at-age)/buckets&turnMask {
			failures += int(word >> countBits & countMax)
			calls += int(word & countMax)
		}
	}
	return failures, calls
}
