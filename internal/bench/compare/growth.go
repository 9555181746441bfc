package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"strconv"
)

// growthSlices are the sizes at which measureGrowth looks.
var growthSlices = []int{1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000}

// cost is one column of the growth table.
type cost struct {
	name string
	at   func(s size, slices int) (float64, error) // any unit; the table divides by the first
}

var costs = []cost{
	{"index lookup, cold", growthOfLookup},
	{"decode, validate and index", growthOfDecode},
	{"one endpoint goes and comes back", growthOfStateChange},
	{"resolver update", growthOfResolverUpdate},
}

// measureGrowth writes how much more each cost is than at the first size, for
// the figure in docs/performance.md.
func measureGrowth(s size, name string) error {
	rows := [][]string{{"slices"}}
	for _, c := range costs {
		rows[0] = append(rows[0], c.name)
	}
	var first []float64
	for i, n := range growthSlices {
		row := []string{strconv.Itoa(n)}
		for at, c := range costs {
			v, err := c.at(s, n)
			if err != nil {
				return fmt.Errorf("%s at %d slices: %w", c.name, n, err)
			}
			if i == 0 {
				first = append(first, v)
			}
			row = append(row, strconv.FormatFloat(v/first[at], 'f', 3, 64))
		}
		fmt.Fprintln(os.Stderr, row)
		rows = append(rows, row)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := csv.NewWriter(f).WriteAll(rows); err != nil {
		_ = f.Close() // the first error says more
		return err
	}
	return f.Close()
}

// medianOf is the median of as many samples as a heavy measure takes rounds.
func medianOf(s size, sample contestant) (float64, error) {
	samples, err := inRounds(s.heavy, sample)
	if err != nil {
		return 0, err
	}
	return median(samples[0]), nil
}

func growthOfLookup(s size, slices int) (float64, error) {
	l, err := newLookups(keyspace{length: keyBytes, keys: slices, seed: 1}, s)
	if err != nil {
		return 0, err
	}
	return medianOf(s, l.contest(true, func(i int) int { return l.index.Find(l.probes[i]) }))
}

func growthOfDecode(s size, slices int) (float64, error) {
	w := world{slices: slices, endpoints: heapEndpoints, replicas: 3, seed: 1}
	frames := w.keptFrames()
	return medianOf(s, func() (float64, error) {
		before := processCPU()
		err := decodeOurs(frames)
		return float64(cpuSince(before).Nanoseconds()), err
	})
}

func growthOfStateChange(s size, slices int) (float64, error) {
	return growthOfSettled(s, slices, s.changes, func(t *settled, i int) error {
		return t.goAndComeBack(i % t.world.endpoints)
	})
}

func growthOfResolverUpdate(s size, slices int) (float64, error) {
	versions := resolved(overEndpoints)
	return growthOfSettled(s, slices, s.updates, func(t *settled, _ int) error { return t.update(versions) })
}

func growthOfSettled(s size, slices, operations int, do func(t *settled, i int) error) (float64, error) {
	t, err := newSettled(slices, overEndpoints)
	if err != nil {
		return 0, err
	}
	defer t.close()
	return medianOf(s, func() (float64, error) {
		before := processCPU()
		for i := range operations {
			if err := do(t, i); err != nil {
				return 0, err
			}
		}
		return float64(cpuSince(before).Nanoseconds()), nil
	})
}
