package keyrange

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unsafe"
)

// Index maps a key to the number of the slice that holds it. It never changes
// after New, so concurrent use is fine. The zero Index holds no slice.
type Index struct {
	keys []byte   // all start keys, one behind the other
	ends []uint32 // where in keys the start key of each slice ends

	words  []uint64 // one per slice, read by the node whose bucket holds the slice
	tables []uint32 // bucket tables of all nodes, see node.table
	cuts   []uint64 // words of the nodes without buckets by distance, see node.cut
	nodes  []node   // nodes[0] is the root
}

// New makes an index over slices 0 to len(ends)-1. The start key of slice i is
// keys[ends[i-1]:ends[i]], from 0 for i = 0. Start keys must be strictly
// increasing in byte order (A119 compares keys as bytes, unsigned). An empty
// start key, which only slice 0 can have, is below every key.
//
// New takes ownership of both arrays: the caller must not change them any more.
// It says no with an error that names the slice, and never the key, which is
// personal data.
func New(keys []byte, ends []uint32) (*Index, error) {
	if err := check(keys, ends); err != nil {
		return nil, err
	}
	x := &Index{keys: keys, ends: ends}
	x.build()
	return x, nil
}

// Len is the number of slices.
func (x *Index) Len() int { return len(x.ends) }

// Start is the start key of a slice, from 0 to Len()-1. The bytes are the
// index's own: they must not be changed.
func (x *Index) Start(slice int) []byte {
	from, to := x.bounds(slice)
	return x.keys[from:to:to]
}

// Bytes is how much heap the index retains, in bytes, with the two arrays given
// to New.
func (x *Index) Bytes() int {
	return int(unsafe.Sizeof(*x)) +
		cap(x.keys) +
		cap(x.ends)*int(unsafe.Sizeof(x.ends[0])) +
		cap(x.words)*int(unsafe.Sizeof(x.words[0])) +
		cap(x.tables)*int(unsafe.Sizeof(x.tables[0])) +
		cap(x.cuts)*int(unsafe.Sizeof(x.cuts[0])) +
		cap(x.nodes)*int(unsafe.Sizeof(x.nodes[0]))
}

// bounds is where in keys the start key of a slice lies.
func (x *Index) bounds(slice int) (from, to uint32) {
	if slice > 0 {
		from = x.ends[slice-1]
	}
	return from, x.ends[slice]
}

// check holds what New promises about its arrays. It stops at the first fault:
// after one, positions no longer mean anything.
func check(keys []byte, ends []uint32) error {
	var previous []byte
	var from uint32
	var previousWord uint64
	for i, to := range ends {
		switch {
		case to < from:
			return fmt.Errorf("keyrange: the start key of slice %d ends at byte %d, before it begins at byte %d: ends must not decrease", i, to, from)
		case uint64(to) > uint64(len(keys)):
			return fmt.Errorf("keyrange: the start key of slice %d ends at byte %d, past the %d bytes of keys", i, to, len(keys))
		}
		key := keys[from:to]
		var first uint64
		if len(key) >= 8 {
			first = binary.BigEndian.Uint64(key)
		} else {
			first = wordAt(keys, from, to) &^ tagMask
		}
		// Most neighbours differ in their first bytes; the others are compared whole.
		if i > 0 && first <= previousWord {
			switch order := bytes.Compare(previous, key); {
			case order == 0:
				return fmt.Errorf("keyrange: slices %d and %d have the same start key: start keys must be strictly increasing", i-1, i)
			case order > 0:
				return fmt.Errorf("keyrange: the start key of slice %d is below that of slice %d: start keys must be strictly increasing", i, i-1)
			}
		}
		previous, previousWord, from = key, first, to
	}
	return nil
}
