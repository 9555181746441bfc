package keyrange

import (
	"math/bits"
	"slices"
)

const (
	// bucketAim is how many distinct words a bucket holds when words are spread
	// evenly: about half a cache line, so that tables cost 1 byte a slice.
	bucketAim = 4

	// bucketLimit is the most slices that are searched by their words. Past it a
	// node of its own costs fewer cache lines than the binary search.
	bucketLimit = 128

	// equalLimit is the most slices of one bucket that may have the same word, and
	// so are told apart by comparing bytes. At 16, nodes of 17 slices are the
	// smallest that long shared prefixes can force, which bounds memory.
	equalLimit = 16

	// cutLimit is the most distinct words for which a node with crowded words has
	// cuts rather than buckets.
	cutLimit = 64

	// inlineBytes is how long a prefix a node holds itself. Longer ones are read
	// from keys, which costs a cache line more.
	inlineBytes = 16

	// childBit marks a table entry that is the number of a node. Slices and nodes
	// stay below it: 2^31 distinct keys do not fit into the 4 GiB that ends can say.
	childBit = 1 << 31
)

// node is a range of slices whose keys share all bytes before off. It fills one
// cache line.
type node struct {
	min    uint64 // smallest word of the range
	shift  uint32 // bucket of word w: (w - min) >> shift, or byCuts
	lo, hi uint32 // slices lo to hi-1

	// tables[table+b] is the first slice of bucket b, or its node with childBit.
	// Behind the last of the buckets stands hi.
	table, buckets uint32

	// With byCuts there is one bucket for each word, and cuts[cut+b] is the word of
	// bucket b. So keys that branch off a long shared prefix at every byte cost one
	// node for each word of the prefix; ever finer tables would cost many.
	cut uint32

	// The bytes that the range shares and its parent's does not: in keys, from
	// prefixAt, prefixLen long, and in inline if they are few.
	prefixAt, prefixLen uint32
	inline              [inlineBytes]byte

	off uint32 // where the words of this range begin in its keys

	// The length of the keys when all of the range have the same, else 0. It saves
	// the cache line of ends that would say where a key lies.
	keyLen uint32
}

// byCuts is the shift of a node that finds its bucket by comparing words.
const byCuts = 64

// prefix is the bytes that n strips.
func (x *Index) prefix(n *node) []byte {
	if n.prefixLen <= inlineBytes {
		return n.inline[:n.prefixLen]
	}
	return x.keys[n.prefixAt:][:n.prefixLen]
}

// build fills words, tables and nodes. Nodes are a queue: each is appended by its
// parent with lo, hi and its parent's off, and finished when its turn comes. A
// child has fewer slices than its parent, and at most a few levels pass before
// the shared prefix grows, so the work is linear in the bytes of the keys.
func (x *Index) build() {
	if len(x.ends) == 0 {
		return
	}
	x.words = make([]uint64, len(x.ends))
	x.nodes = append(x.nodes, node{hi: uint32(len(x.ends))})
	for i := 0; i < len(x.nodes); i++ {
		n := x.nodes[i]
		distinct, crowded := x.readWords(&n)
		// Either appends children to x.nodes.
		if crowded > 0 && distinct <= cutLimit {
			x.fillCuts(&n, distinct)
		} else {
			x.fillTable(&n, distinct, crowded)
		}
		x.nodes[i] = n
	}
	x.tables = fit(x.tables)
	x.cuts = fit(x.cuts)
	x.nodes = fit(x.nodes)
}

// readWords strips the node's shared prefix, stores the words of its slices and
// says how many of them differ and how many of those are crowded: more slices have
// them than may be told apart by comparing bytes. Words that a child stores again
// are overwritten then: each slice keeps the word of the deepest node that holds it.
func (x *Index) readWords(n *node) (distinct, crowded int) {
	first, last := x.Start(int(n.lo)), x.Start(int(n.hi-1))
	// Keys are sorted: what the first and the last share, all share.
	n.prefixLen = uint32(sharedPrefix(first[n.off:], last[n.off:]))
	from, _ := x.bounds(int(n.lo))
	n.prefixAt = from + n.off
	copy(n.inline[:], x.keys[n.prefixAt:][:n.prefixLen])
	n.off += n.prefixLen

	keys, ends := x.keys, x.ends[n.lo:n.hi]
	words := x.words[n.lo:n.hi]
	words = words[:len(ends)]
	before := ^uint64(0) // no word: its tag is too large
	equal := 0
	n.keyLen = uint32(len(first))
	for i, to := range ends {
		if to-from != n.keyLen {
			n.keyLen = 0
		}
		w := wordAt(keys, from+n.off, to)
		words[i] = w
		if w != before {
			distinct++
			equal = 0
		}
		if equal++; equal == equalLimit+1 {
			crowded++
		}
		before, from = w, to
	}
	n.min = words[0]
	return distinct, crowded
}

// fillTable sizes the node's table for its distinct words, fills it and appends
// a child for each bucket that is too full.
func (x *Index) fillTable(n *node, distinct, crowded int) {
	words := x.words[n.lo:n.hi]
	span := words[len(words)-1] - n.min
	// Crowded words become children whatever the table, so a finer one
	// that parts them from each other saves a level and costs little.
	aim := max(distinct/bucketAim, min(len(words)/8, 16*crowded))
	// At least two buckets, so that the first and the last word part and each
	// child is smaller than this node.
	want := max(1, bits.Len(uint(aim)))
	n.shift = uint32(max(0, bits.Len64(span)-want))
	n.buckets = uint32(span>>n.shift) + 1
	table := x.newTable(n)

	filled := 0 // buckets with a table entry
	for start := 0; start < len(words); {
		bucket := int((words[start] - n.min) >> n.shift)
		end, equal, mostEqual := start+1, 1, 1
		for ; end < len(words) && int((words[end]-n.min)>>n.shift) == bucket; end++ {
			if words[end] != words[end-1] {
				equal = 0
			}
			equal++
			mostEqual = max(mostEqual, equal)
		}
		lo, hi := n.lo+uint32(start), n.lo+uint32(end)
		// Empty buckets are empty ranges: they begin where this one does.
		for ; filled < bucket; filled++ {
			table[filled] = lo
		}
		table[filled] = lo
		if end-start > bucketLimit || mostEqual > equalLimit {
			table[filled] = x.newChild(n, lo, hi)
		}
		filled++
		start = end
	}
	table[filled] = n.hi
}

// fillCuts makes a bucket of each distinct word, and a child of each crowded one.
func (x *Index) fillCuts(n *node, distinct int) {
	words := x.words[n.lo:n.hi]
	n.shift, n.buckets = byCuts, uint32(distinct)
	n.cut = uint32(len(x.cuts))
	table := x.newTable(n)
	bucket := 0
	for start := 0; start < len(words); bucket++ {
		end := start + 1
		for end < len(words) && words[end] == words[start] {
			end++
		}
		x.cuts = append(x.cuts, words[start])
		table[bucket] = n.lo + uint32(start)
		if end-start > equalLimit {
			table[bucket] = x.newChild(n, n.lo+uint32(start), n.lo+uint32(end))
		}
		start = end
	}
	table[bucket] = n.hi
}

// newTable adds the table of n, with an entry behind its buckets.
func (x *Index) newTable(n *node) []uint32 {
	n.table = uint32(len(x.tables))
	size := int(n.buckets) + 1
	x.tables = slices.Grow(x.tables, size)[:len(x.tables)+size]
	return x.tables[n.table:]
}

// newChild queues a node for the slices lo to hi-1 of n and is its table entry.
func (x *Index) newChild(n *node, lo, hi uint32) uint32 {
	x.nodes = append(x.nodes, node{lo: lo, hi: hi, off: n.off})
	return uint32(len(x.nodes)-1) | childBit
}

// fit gives back what a grown array has not used, when that is worth a copy.
func fit[T any](s []T) []T {
	if cap(s)-len(s) <= len(s)/16 {
		return s
	}
	fitted := make([]T, len(s))
	copy(fitted, s)
	return fitted
}
