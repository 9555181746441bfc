package keyrange

import "unsafe"

// Find is the number of the slice whose range holds key: the last slice whose
// start key is not above key. It is -1 for a key below the first start key, which
// the empty start key rules out, and for an index without slices. Find does not
// allocate.
func (x *Index) Find(key string) int {
	if len(x.nodes) == 0 {
		return -1
	}
	n := &x.nodes[0]
	for {
		if n.prefixLen != 0 {
			prefix := x.prefix(n)
			if len(key) < len(prefix) || key[:len(prefix)] != string(prefix) {
				// The key is on one side of the whole range.
				if key < string(prefix) {
					return int(n.lo) - 1
				}
				return int(n.hi) - 1
			}
			key = key[len(prefix):]
		}
		w := word(key)
		if w < n.min {
			return int(n.lo) - 1
		}
		exact := true // a bucket by distance may hold w, one of another word cannot
		bucket := (w - n.min) >> (n.shift & 63)
		if n.shift == byCuts {
			bucket, exact = x.findCut(n, w)
		}
		if bucket >= uint64(n.buckets) {
			return int(n.hi) - 1
		}
		table := x.tables[uint64(n.table)+bucket:][:2]
		if table[0]&childBit != 0 && exact {
			n = &x.nodes[table[0]&^childBit]
			continue
		}
		end := table[1]
		if end&childBit != 0 {
			end = x.nodes[end&^childBit].lo
		}
		if !exact {
			return int(end) - 1
		}
		return x.findInBucket(n, key, w, int(table[0]), int(end))
	}
}

// findCut is the last bucket of n whose word is not above w, and whether it is w.
// There is one, because w is not below n.min.
func (x *Index) findCut(n *node, w uint64) (bucket uint64, exact bool) {
	cuts := x.cuts[n.cut:][:n.buckets]
	at := 0
	for left := len(cuts); left > 1; {
		half := left >> 1
		if cuts[at+half] <= w {
			at += half
		}
		left -= half
	}
	return uint64(at), cuts[at] == w
}

// FindBytes is Find for a key that is not a string. It reads key only during the
// call and does not allocate.
func (x *Index) FindBytes(key []byte) int {
	return x.Find(unsafe.String(unsafe.SliceData(key), len(key)))
}

// findInBucket is Find among the slices lo to hi-1 of one bucket of n. key is
// what n has not stripped, w its word.
func (x *Index) findInBucket(n *node, key string, w uint64, lo, hi int) int {
	// at is the last slice known to have a word not above w; the one before the
	// bucket counts as such. The compiler makes the step a conditional move.
	words := x.words
	at := lo - 1
	for left := hi - at; left > 1; {
		half := left >> 1
		if words[at+half] <= w {
			at += half
		}
		left -= half
	}
	if w&tagMask != goesOn {
		return at // equal words are equal keys
	}
	// Up to equalLimit slices share the word: a binary search over the bytes behind
	// it. first is the first of them, or at+1 if there is none.
	first := at + 1
	for first > lo && words[first-1] == w {
		first--
	}
	for rest := key[wordBytes:]; first <= at; {
		middle := int(uint(first+at) >> 1)
		if x.rest(n, middle) <= rest {
			first = middle + 1
		} else {
			at = middle - 1
		}
	}
	return at
}

// rest is what the start key of a slice of n has behind its word. The string is
// the index's own memory, which never changes.
func (x *Index) rest(n *node, slice int) string {
	var from, to uint32
	if n.keyLen != 0 {
		// prefixAt lies off-prefixLen behind the start of the first key.
		from = n.prefixAt + n.prefixLen - n.off + (uint32(slice)-n.lo)*n.keyLen
		to = from + n.keyLen
	} else {
		from, to = x.bounds(slice)
	}
	b := x.keys[from+n.off+wordBytes : to]
	return unsafe.String(unsafe.SliceData(b), len(b))
}
