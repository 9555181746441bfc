package keyrange_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/slicewire/slicewire/balancer/keyrange"
)

// shape is a kind of start keys: make gives about n of them, in any order and
// with repeats.
type shape struct {
	name string
	make func(r *rand.Rand, n int) []string
}

func each(n int, key func(i int) string) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = key(i)
	}
	return keys
}

func randomBytes(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}

// fromAlphabet is a random word of a few letters, so that words collide.
func fromAlphabet(r *rand.Rand, alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

// shapes are what the oracle test, the heap test and the benchmarks draw from.
var shapes = []shape{
	{"random16", func(r *rand.Rand, n int) []string {
		return each(n, func(int) string { return randomBytes(r, 16) })
	}},
	{"shared40of64", func(r *rand.Rand, n int) []string {
		shared := randomBytes(r, 40)
		return each(n, func(int) string { return shared + randomBytes(r, 24) })
	}},
	{"shared40of64withEmpty", func(r *rand.Rand, n int) []string {
		shared := randomBytes(r, 40)
		return append(each(n, func(int) string { return shared + randomBytes(r, 24) }), "")
	}},
	{"tenants", func(r *rand.Rand, n int) []string {
		tenants := max(2, n/1000)
		return each(n, func(int) string {
			return fmt.Sprintf("tenant/%06d/object/%010d", r.IntN(tenants), r.IntN(1e9))
		})
	}},
	{"nested", func(r *rand.Rand, n int) []string {
		return each(n, func(int) string {
			return fmt.Sprintf("region/%02d/datacenter-of-that-region/%02d/tenant/%04d/table/%02d/row/%s",
				r.IntN(5), r.IntN(4), r.IntN(50), r.IntN(10), randomBytes(r, 8))
		})
	}},
	{"pairs", func(r *rand.Rand, n int) []string {
		keys := make([]string, 0, n)
		for len(keys) < n {
			owner := randomBytes(r, 24)
			keys = append(keys, owner+randomBytes(r, 2), owner+randomBytes(r, 2))
		}
		return keys
	}},
	{"nines", func(r *rand.Rand, n int) []string { // just past equalLimit
		keys := make([]string, 0, n)
		for len(keys) < n {
			owner := randomBytes(r, 24)
			for range 9 {
				keys = append(keys, owner+randomBytes(r, 3))
			}
		}
		return keys
	}},
	{"uuids", func(r *rand.Rand, n int) []string {
		return each(n, func(int) string {
			b := randomBytes(r, 16)
			return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
		})
	}},
	{"digits", func(r *rand.Rand, n int) []string {
		return each(n, func(int) string { return fromAlphabet(r, "0123456789", 16) })
	}},
	{"counters", func(r *rand.Rand, n int) []string {
		return each(n, func(int) string { return string(binary.BigEndian.AppendUint64(nil, uint64(r.IntN(4*n))*977)) })
	}},
	{"skewed", func(r *rand.Rand, n int) []string { // a power law: most keys lie close together
		return each(n, func(int) string {
			return string(binary.BigEndian.AppendUint64(nil, r.Uint64()>>r.IntN(64)))
		})
	}},
	{"short", func(r *rand.Rand, n int) []string {
		return each(n, func(int) string { return randomBytes(r, r.IntN(4)) })
	}},
	{"zeroRuns", func(r *rand.Rand, n int) []string {
		return each(n, func(int) string { return fromAlphabet(r, "a\x00\x00\x00", r.IntN(24)) })
	}},
	{"ffRuns", func(r *rand.Rand, n int) []string {
		return each(n, func(int) string { return fromAlphabet(r, "\xff\xff\xff\xfe\x00", r.IntN(24)) })
	}},
	{"prefixesOfEachOther", func(r *rand.Rand, n int) []string {
		trunk := fromAlphabet(r, "ab\x00\xff", min(n, 600))
		return each(n, func(int) string {
			return trunk[:r.IntN(len(trunk)+1)] + fromAlphabet(r, "ab", r.IntN(2))
		})
	}},
	{"deepChain", func(r *rand.Rand, n int) []string { // each level has one key beside the next level
		trunk := strings.Repeat("\x00", 512)
		return each(n, func(int) string { return trunk[:r.IntN(len(trunk))] + "\x01" + fromAlphabet(r, "\x00\x01", 3) })
	}},
	{"long512", func(r *rand.Rand, n int) []string {
		trunk := randomBytes(r, 512)
		return each(n, func(int) string {
			at := r.IntN(512)
			return trunk[:at] + randomBytes(r, 512-at)
		})
	}},
}

// pack sorts keys, drops repeats and lays them out as New takes them.
func pack(keys []string) (sorted []string, flat []byte, ends []uint32) {
	sorted = slices.Clone(keys)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	size := 0
	for _, k := range sorted {
		size += len(k)
	}
	flat = make([]byte, 0, size)
	ends = make([]uint32, 0, len(sorted))
	for _, k := range sorted {
		flat = append(flat, k...)
		ends = append(ends, uint32(len(flat)))
	}
	return sorted, flat, ends
}

// index packs keys and builds their index.
func index(t testing.TB, keys []string) (sorted []string, x *keyrange.Index) {
	t.Helper()
	sorted, flat, ends := pack(keys)
	x, err := keyrange.New(flat, ends)
	if err != nil {
		t.Fatalf("New of %d sorted keys: %v", len(sorted), err)
	}
	return sorted, x
}
