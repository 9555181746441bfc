package keyrange_test

import (
	"strings"
	"testing"

	"github.com/slicewire/slicewire/balancer/keyrange"
)

// fuzzKeys reads keys out of fuzz bytes: a byte says how many bytes the key takes
// over from the one before (high half, in 8s) and how many are its own (low half).
func fuzzKeys(data string) (keys []string) {
	previous := ""
	for len(data) > 0 && len(keys) < 2000 {
		kept := min(int(data[0]>>4)*8, len(previous))
		data = data[1:]
		if data == "" {
			break
		}
		own := min(int(data[0]&0x0f), len(data)-1)
		previous = previous[:kept] + data[1:1+own]
		data = data[1+own:]
		keys = append(keys, previous)
	}
	return keys
}

// FuzzFind builds an index out of fuzz bytes and holds Find against the oracle,
// for the fuzzed key and for every start key.
func FuzzFind(f *testing.F) {
	f.Add("", "")
	f.Add("\x00\x00", "a")
	f.Add("\x00\x01m\x00\x01\x80", "m\x00")
	f.Add("\x00\x01a\x00\x02a\x00\x00\x03a\x00\x00", "a\x00")
	f.Add("\x00\x0f"+strings.Repeat("\xff", 15)+"\xf0\x01\xff", strings.Repeat("\xff", 16))
	f.Add("\x00\x0ftenant/000123/a\x10\x0700/zzzz\x10\x0700/zzzy\xf0\x04/sub", "tenant/000123/b")
	many := "\x00\x0fshared-prefix-1\x10\x08prefix-2"
	for c := range byte(200) { // past both limits of a bucket
		many += "\x20\x01" + string([]byte{c})
	}
	f.Add(many, "shared-prprefix-2c")
	f.Fuzz(func(t *testing.T, data, key string) {
		starts, x := index(t, fuzzKeys(data))
		if x.Len() != len(starts) {
			t.Fatalf("Len() = %d, want %d", x.Len(), len(starts))
		}
		check := func(key string) {
			want := oracle(starts, key)
			if got := x.Find(key); got != want {
				t.Fatalf("Find(%q) in %q = %d, want %d", key, starts, got, want)
			}
		}
		check(key)
		for i, s := range starts {
			if got := x.Find(s); got != i {
				t.Fatalf("Find(%q) in %q = %d, want %d", s, starts, got, i)
			}
		}
		for _, s := range starts[:min(len(starts), 20)] {
			check(s + key)
			check(s + "\x00")
			check(s[:len(s)/2] + key)
		}
	})
}

// FuzzNew gives New arrays as they come: it must refuse them or build an index
// that answers for all its start keys, and never panic.
func FuzzNew(f *testing.F) {
	f.Add([]byte("abc"), []byte{1, 2, 3})
	f.Add([]byte("abc"), []byte{0, 1, 3})
	f.Add([]byte("abc"), []byte{2, 1, 9})
	f.Add([]byte("aab"), []byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, keys, ends8 []byte) {
		ends := make([]uint32, len(ends8))
		for i, e := range ends8 {
			ends[i] = uint32(e)
		}
		x, err := keyrange.New(keys, ends)
		if err != nil {
			return
		}
		for i := range x.Len() {
			if i > 0 && string(x.Start(i-1)) >= string(x.Start(i)) {
				t.Fatalf("New took start keys that do not increase: %q, %q", x.Start(i-1), x.Start(i))
			}
			if got := x.FindBytes(x.Start(i)); got != i {
				t.Fatalf("FindBytes(%q) = %d, want %d", x.Start(i), got, i)
			}
		}
	})
}
