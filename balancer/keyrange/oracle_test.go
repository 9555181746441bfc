package keyrange_test

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// oracle is Find without any thought: it looks at every slice.
func oracle(starts []string, key string) int {
	last := -1
	for i, s := range starts {
		if s <= key {
			last = i
		}
	}
	return last
}

// around is keys at, just below, just above and near a start key.
func around(r *rand.Rand, key string) string {
	switch r.IntN(14) {
	case 0:
		return key
	case 1: // the next key
		return key + "\x00"
	case 2:
		return key + "\xff"
	case 3:
		return key + strings.Repeat("\x00", r.IntN(20))
	case 4:
		return key + strings.Repeat("\xff", r.IntN(20))
	case 5: // a prefix
		return key[:r.IntN(len(key)+1)]
	case 6:
		return key[:max(0, len(key)-1)]
	case 7, 8: // last byte one up or down
		if key == "" {
			return ""
		}
		b := []byte(key)
		b[len(b)-1] += byte(1 - 2*r.IntN(2))
		return string(b)
	case 9, 10: // any byte one up or down
		if key == "" {
			return ""
		}
		b := []byte(key)
		b[r.IntN(len(b))] += byte(1 - 2*r.IntN(2))
		return string(b)
	case 11: // any byte anything
		if key == "" {
			return "\x00"
		}
		b := []byte(key)
		b[r.IntN(len(b))] = byte(r.Uint32())
		return string(b)
	case 12:
		return key[:r.IntN(len(key)+1)] + randomBytes(r, r.IntN(12))
	default:
		return []string{
			"", "\x00", "\xff", strings.Repeat("\x00", 512), strings.Repeat("\xff", 512),
			strings.Repeat("\xff", 10<<10), key + strings.Repeat("k", 10<<10), randomBytes(r, r.IntN(20)),
		}[r.IntN(8)]
	}
}

// TestFindOracle is row A-06: a million lookups, over many indexes of each shape
// and size, against the oracle.
func TestFindOracle(t *testing.T) {
	lookups := 1_000_000
	if testing.Short() {
		lookups = 100_000
	}
	sizes := []int{1, 2, 3, 7, 8, 9, 17, 33, 150, 600}
	perIndex := lookups/(len(shapes)*len(sizes)*5) + 1
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(7, uint64(len(s.name))))
			for _, size := range sizes {
				for round := range 5 {
					keys := s.make(r, size)
					if round%2 == 0 {
						keys = append(keys, "") // as a whole keyspace begins
					}
					if round == 4 { // two shapes in one index
						keys = append(keys, shapes[r.IntN(len(shapes))].make(r, size)...)
					}
					starts, x := index(t, keys)
					for range perIndex {
						key := around(r, starts[r.IntN(len(starts))])
						want := oracle(starts, key)
						if got := x.Find(key); got != want {
							t.Fatalf("Find(%q) over %d slices = %d, want %d", key, len(starts), got, want)
						}
						if got := x.FindBytes([]byte(key)); got != want {
							t.Fatalf("FindBytes(%q) over %d slices = %d, want %d", key, len(starts), got, want)
						}
					}
				}
			}
		})
	}
}

// TestFindOracleLarge looks up every start key and its neighbours in big indexes,
// where the place in the sorted keys is the oracle.
func TestFindOracleLarge(t *testing.T) {
	n := 50_000
	if testing.Short() {
		n = 5_000
	}
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(8, 9))
			starts, x := index(t, s.make(r, n))
			for i, start := range starts {
				if got := x.Find(start); got != i {
					t.Fatalf("Find(%q) = %d, want %d", start, got, i)
				}
				if string(x.Start(i)) != start {
					t.Fatalf("Start(%d) = %q, want %q", i, x.Start(i), start)
				}
				// No key lies between a key and the same key with a zero byte.
				want := i
				if i+1 < len(starts) && starts[i+1] == start+"\x00" {
					want = i + 1
				}
				if got := x.Find(start + "\x00"); got != want {
					t.Fatalf("Find(%q) = %d, want %d", start+"\x00", got, want)
				}
				// The greatest key below start, up to its length and more.
				if start == "" {
					continue
				}
				below := start[:len(start)-1]
				if last := start[len(start)-1]; last > 0 {
					below += string([]byte{last - 1}) + strings.Repeat("\xff", 600)
				}
				if got := x.Find(below); got != i-1 && below != start {
					t.Fatalf("Find(%q) just below slice %d = %d, want %d", below, i, got, i-1)
				}
			}
		})
	}
}
