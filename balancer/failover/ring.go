package failover

import "sync/atomic"

// ring counts the calls and failures of the last while in buckets. A bucket is one
// word: the turn of the ring that it belongs to, failures, calls. Who counts swaps
// the word; the first of a new turn replaces what is there, so nothing has to clean
// up. A sum may hold a few calls more than its own time had, and a call whose
// goroutine was stopped for a whole window between reading the clock and counting
// takes the bucket of a later one.
type ring [buckets]atomic.Uint64

const (
	buckets   = 16
	countBits = 20
	countMax  = 1<<countBits - 1
	turnMask  = 1<<(64-2*countBits) - 1 // turns come again after 194 days at the least
	oneCall   = 1
	oneFailed = 1<<countBits + 1
)

func (r *ring) add(at uint64, failed bool) {
	b := &r[at%buckets]
	turn := at / buckets & turnMask
	for {
		old := b.Load()
		word := old
		if word>>(2*countBits) != turn {
			word = turn << (2 * countBits)
		}
		if word&countMax == countMax {
			// A million calls: halve both, which keeps the share.
			failures, calls := word>>countBits&countMax, word&countMax
			word = turn<<(2*countBits) | failures/2<<countBits | calls/2
		}
		if failed {
			word += oneFailed
		} else {
			word += oneCall
		}
		if b.CompareAndSwap(old, word) {
			return
		}
	}
}

// sum adds up the buckets of the window that ends with the given one.
func (r *ring) sum(at uint64) (failures, calls int) {
	for i := range uint64(buckets) {
		word := r[i].Load()
		age := (at - i) % buckets
		// A bucket from before the start is of a turn that nothing has been counted in.
		if word>>(2*countBits) == (at-age)/buckets&turnMask {
			failures += int(word >> countBits & countMax)
			calls += int(word & countMax)
		}
	}
	return failures, calls
}

func (r *ring) clear() {
	for i := range r {
		r[i].Store(0)
	}
}
