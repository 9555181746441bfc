package main

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/slicewire/slicewire/balancer/keyrange"
)

// measureLookup compares the key index with searches over as many keys. The
// caches are emptied before each stretch of lookups, and each lookup depends on
// the one before, as an RPC's pick depends on its lookup: the processor cannot
// look up several keys at once. The rows "in a row" let it.
func measureLookup(s size) ([]row, error) {
	shapes := []struct {
		name       string
		keys       keyspace
		limit      float64 // times the Eytzinger search
		fasterThan float64 // times slices.BinarySearch; 0: no goal
	}{
		{"random 16-byte keys", keyspace{length: 16, keys: s.big, seed: 1}, 1.5, 4},
		{"64-byte keys, first 40 shared", keyspace{prefix: strings.Repeat("tenant/000123/", 3)[:40], length: 64, keys: s.big, seed: 1}, 2.5, 0},
	}
	var rows []row
	for _, shape := range shapes {
		l, err := newLookups(shape.keys, s)
		if err != nil {
			return nil, err
		}
		var contestants []contestant
		for _, chained := range []bool{true, false} {
			contestants = append(contestants,
				l.contest(chained, func(i int) int { return l.index.Find(l.probes[i]) }),
				l.contest(chained, func(i int) int { return l.tree.find(l.numbers[i]) }),
				l.contest(chained, func(i int) int { at, _ := slices.BinarySearch(l.sorted, l.probes[i]); return at }))
		}
		ns, err := inRounds(s.rounds, contestants...)
		if err != nil {
			return nil, err
		}
		for i, name := range []string{"index lookup, " + shape.name, "the same, in a row"} {
			ours, tree, search := ns[3*i], ns[3*i+1], ns[3*i+2]
			faster := noGoal
			if shape.fasterThan > 0 {
				faster = atMost(1 / shape.fasterThan)
			}
			rows = append(rows,
				against(name, "ns CPU", ours, "Eytzinger", tree, atMost(shape.limit)),
				against(name, "ns CPU", ours, "BinarySearch", search, faster))
		}
	}
	return rows, nil
}

type lookups struct {
	size   size
	index  *keyrange.Index
	sorted []string
	tree   eytzinger

	probes  []string
	numbers []uint64

	sweep []uint64
	rng   *rand.Rand
	sink  int
}

func newLookups(k keyspace, s size) (*lookups, error) {
	l := &lookups{size: s, rng: rand.New(rand.NewPCG(k.seed, 4)), sweep: make([]uint64, s.sweep/8)}
	flat, ends := make([]byte, 0, k.keys*k.length), make([]uint32, 0, k.keys)
	for key := range k.all() {
		flat = append(flat, key...)
		ends = append(ends, uint32(len(flat)))
		l.sorted = append(l.sorted, string(key))
	}
	var err error
	if l.index, err = keyrange.New(flat, ends); err != nil {
		return nil, err
	}
	sorted := make([]uint64, k.keys)
	for i := range sorted {
		sorted[i] = l.rng.Uint64()
	}
	slices.Sort(sorted)
	l.tree = newEytzinger(sorted)
	n := max(s.cold, 1<<18)
	l.probes = k.probes(n)
	l.numbers = make([]uint64, n)
	for i := range l.numbers {
		l.numbers[i] = l.rng.Uint64()
	}
	return l, nil
}

// contest times lookups after the caches were emptied; the questions are others
// each time.
func (l *lookups) contest(chained bool, find func(probe int) int) contestant {
	return func() (float64, error) {
		for i := 0; i < len(l.sweep); i += 8 { // one word of each cache line
			l.sweep[i]++
		}
		at := l.rng.IntN(len(l.probes) - l.size.cold + 1)
		sum := 0
		never := 0 // of a chain: 0, but only the answer says so
		before := processCPU()
		if chained {
			for i := range l.size.cold {
				r := find(at + i + never)
				never = r >> 62
				sum += r
			}
		} else {
			for i := range l.size.cold {
				sum += find(at + i)
			}
		}
		took := cpuSince(before)
		l.sink += sum
		return float64(took.Nanoseconds()) / float64(l.size.cold), nil
	}
}
