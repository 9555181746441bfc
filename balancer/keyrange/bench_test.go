package keyrange_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/slicewire/slicewire/balancer/keyrange"
)

const probes = 1 << 20

// shapeNamed is the shape of that name.
func shapeNamed(b *testing.B, name string) shape {
	at := slices.IndexFunc(shapes, func(s shape) bool { return s.name == name })
	if at < 0 {
		b.Fatalf("no shape %q", name)
	}
	return shapes[at]
}

// probeSet is keys to look up, drawn from some in random order. They lie one behind
// the other in memory: what is cold is the index, not the question.
func probeSet(r *rand.Rand, from []string) []string {
	var all strings.Builder
	picked := make([]int, probes)
	for i := range picked {
		picked[i] = r.IntN(len(from))
		all.WriteString(from[picked[i]])
	}
	text, at := all.String(), 0
	out := make([]string, probes)
	for i, p := range picked {
		out[i] = text[at : at+len(from[p])]
		at += len(from[p])
	}
	return out
}

// eytzinger is the limit that issue B names: 64-bit numbers in the order of a
// breadth-first walk of their search tree, without the tie-break, the key bytes
// and the mapping back that a real index needs.
type eytzinger []uint64

func newEytzinger(sorted []uint64) eytzinger {
	e := make(eytzinger, len(sorted)+1)
	next := 0
	var fill func(at int)
	fill = func(at int) {
		if at < len(e) {
			fill(2 * at)
			e[at] = sorted[next]
			next++
			fill(2*at + 1)
		}
	}
	fill(1)
	return e
}

func (e eytzinger) find(w uint64) int {
	at := 1
	for at < len(e) {
		right := 0
		if e[at] <= w {
			right = 1
		}
		at = 2*at + right
	}
	return at >> (bits.TrailingZeros(^uint(at)) + 1)
}

// BenchmarkFind looks up keys in random order in indexes that do not fit the
// nearest caches. The Eytzinger search gets as many random numbers as there are
// slices, so it is the same limit for each shape.
func BenchmarkFind(b *testing.B) {
	for _, c := range []struct {
		shape string
		n     int
		hits  bool // look up the start keys, not fresh keys of the same shape
	}{
		{"random16", 1_000_000, false},
		{"random16", 1_000_000, true},
		{"shared40of64", 1_000_000, false},
		{"shared40of64", 1_000_000, true},
		{"shared40of64withEmpty", 1_000_000, false},
		{"tenants", 1_000_000, false},
		{"nested", 1_000_000, false},
		{"pairs", 1_000_000, false},
		{"nines", 1_000_000, true},
		{"uuids", 1_000_000, false},
		{"digits", 1_000_000, false},
		{"counters", 1_000_000, false},
		{"skewed", 1_000_000, false},
		{"random16", 100_000, false},
		{"tenants", 100_000, false},
		{"random16", 1_000, false},
		{"random16", 10, false},
	} {
		name := fmt.Sprintf("%s/%d", c.shape, c.n)
		if c.hits {
			name = fmt.Sprintf("%s-hits/%d", c.shape, c.n)
		}
		b.Run(name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, uint64(c.n)))
			all := shapeNamed(b, c.shape).make(r, 2*c.n)
			sorted, x := index(b, all[:c.n])
			asked := all[c.n:]
			if c.hits {
				asked = sorted
			}
			keys := probeSet(r, asked)
			numbers := make([]uint64, len(sorted))
			for i := range numbers {
				numbers[i] = r.Uint64()
			}
			slices.Sort(numbers)
			tree := newEytzinger(numbers)
			words := make([]uint64, probes)
			for i := range words {
				words[i] = r.Uint64()
			}

			sum := 0
			b.Run("ours", func(b *testing.B) {
				b.ReportAllocs()
				b.ReportMetric(float64(x.Bytes()-keyBytes(sorted))/float64(len(sorted)), "B/slice")
				for i := range b.N {
					sum += x.Find(keys[i%probes])
				}
			})
			b.Run("eytzinger", func(b *testing.B) {
				for i := range b.N {
					sum += tree.find(words[i%probes])
				}
			})
			b.Run("binarysearch", func(b *testing.B) {
				for i := range b.N {
					at, _ := slices.BinarySearch(sorted, keys[i%probes])
					sum += at
				}
			})
			sink = sum
		})
	}
}

var sink int

func keyBytes(keys []string) (n int) {
	for _, k := range keys {
		n += len(k)
	}
	return n
}

// BenchmarkNew builds an index, without copying the arrays it takes over.
func BenchmarkNew(b *testing.B) {
	for _, name := range []string{"random16", "shared40of64", "tenants", "nested", "digits"} {
		b.Run(name+"/1000000", func(b *testing.B) {
			_, flat, ends := pack(shapeNamed(b, name).make(rand.New(rand.NewPCG(1, 2)), 1_000_000))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if _, err := keyrange.New(flat, ends); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
