package main

import (
	"encoding/binary"
	"iter"
	"math"
	"math/rand/v2"
)

// keyspace makes start keys: sorted, as if drawn at random, each a prefix and
// then random bytes. The same keyspace always gives the same keys, and none is
// stored, so that it does not count where memory is measured.
type keyspace struct {
	prefix string
	length int // of a key, prefix included; at least 8 more than the prefix
	keys   int
	seed   uint64
}

// all yields the keys in order. The bytes are valid until the next one.
func (k keyspace) all() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		// The sums of exponential steps, scaled, are distributed as sorted random
		// numbers are.
		steps := rand.New(rand.NewPCG(k.seed, 1))
		total := 0.0
		for range k.keys + 1 {
			total += steps.ExpFloat64()
		}
		steps = rand.New(rand.NewPCG(k.seed, 1))
		tail := rand.New(rand.NewPCG(k.seed, 2))
		key := append(make([]byte, 0, k.length+8), k.prefix...)
		sum, last := 0.0, uint64(0)
		for range k.keys {
			sum += steps.ExpFloat64()
			head := uint64(sum/total*math.MaxUint64)&^0x7ff | tail.Uint64()&0x7ff // a float64 has no more bits
			last = max(head, last+1)
			key = binary.BigEndian.AppendUint64(key[:len(k.prefix)], last)
			for len(key) < k.length {
				key = binary.BigEndian.AppendUint64(key, tail.Uint64())
			}
			if !yield(key[:k.length]) {
				return
			}
		}
	}
}

// probes are n keys to look up, drawn as the start keys are, one behind the
// other in memory: what shall be cold is the index, not the question.
func (k keyspace) probes(n int) []string {
	random := rand.New(rand.NewPCG(k.seed, 3))
	text := make([]byte, 0, n*k.length+8)
	for range n {
		end := len(text) + k.length
		text = append(text, k.prefix...)
		for len(text) < end {
			text = binary.BigEndian.AppendUint64(text, random.Uint64())
		}
		text = text[:end]
	}
	all, out := string(text), make([]string, n)
	for i := range out {
		out[i] = all[i*k.length : (i+1)*k.length]
	}
	return out
}
