package keyrange

import "encoding/binary"

// wordBytes is how many bytes of a key one word holds. The eighth byte of the
// word is a tag: how many bytes the key had left, from 0 to 7, or goesOn.
//
// The tag tells a key from the same key with zero bytes behind it ("a" and
// "a\x00" have the same padded bytes). So two words compare as the keys do, and
// equal words mean equal keys unless the tag is goesOn.
const (
	wordBytes = 7
	goesOn    = wordBytes + 1
	tagMask   = 0xff
)

// word is the word of what is left of a looked-up key.
func word(key string) uint64 {
	n := len(key)
	switch {
	case n > wordBytes:
		w := uint64(key[7]) | uint64(key[6])<<8 | uint64(key[5])<<16 | uint64(key[4])<<24 |
			uint64(key[3])<<32 | uint64(key[2])<<40 | uint64(key[1])<<48 | uint64(key[0])<<56
		return w&^tagMask | goesOn
	case n >= 4:
		// Two loads that overlap: bytes that both hold are or-ed with themselves.
		first := uint64(key[3]) | uint64(key[2])<<8 | uint64(key[1])<<16 | uint64(key[0])<<24
		last := uint64(key[n-1]) | uint64(key[n-2])<<8 | uint64(key[n-3])<<16 | uint64(key[n-4])<<24
		return first<<32 | last<<(64-8*uint(n)) | uint64(n)
	case n >= 2:
		first := uint64(key[1]) | uint64(key[0])<<8
		last := uint64(key[n-1]) | uint64(key[n-2])<<8
		return first<<48 | last<<(64-8*uint(n)) | uint64(n)
	case n == 1:
		return uint64(key[0])<<56 | 1
	}
	return 0
}

// wordAt is the word of keys[from:to]. It reads past to where it can, because
// the next key lies there, and masks what is not the key's.
func wordAt(keys []byte, from, to uint32) uint64 {
	left := uint64(to - from)
	if uint64(from)+8 > uint64(len(keys)) {
		var tail [8]byte
		copy(tail[:], keys[from:to])
		return binary.BigEndian.Uint64(tail[:])&^tagMask | min(left, goesOn)
	}
	w := binary.BigEndian.Uint64(keys[from:])
	if left < goesOn {
		// The shift is 64 for an empty key, which clears the word.
		drop := 64 - 8*left
		return w>>drop<<drop | left
	}
	return w&^tagMask | goesOn
}

// sharedPrefix is how many bytes a and b have in common from their start.
func sharedPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for i+8 <= n && binary.LittleEndian.Uint64(a[i:]) == binary.LittleEndian.Uint64(b[i:]) {
		i += 8
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
