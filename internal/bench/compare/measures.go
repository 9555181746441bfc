package main

import (
	"strings"
	"time"
)

// size is how large and how long everything is measured.
type size struct {
	big, middle, small int // slices
	endpoints          int // of a pick
	many, few          int // endpoints of a cold start

	rounds int           // of what is cheap
	heavy  int           // rounds of what takes a second each
	sample time.Duration // of one contestant in one round

	cold    int // index lookups after each emptying of the caches
	sweep   int // bytes read to empty the caches
	changes int // state changes in one sample
	updates int // resolver updates in one sample
}

var (
	full = size{
		big: 1_000_000, middle: 100_000, small: 1_000, endpoints: 100, many: 5_000, few: 1_000,
		rounds: 21, heavy: 9, sample: 100 * time.Millisecond,
		cold: 20_000, sweep: 96 << 20, changes: 4_000, updates: 200,
	}
	// short has the sizes that the goals are for, and fewer rounds.
	short = size{
		big: 1_000_000, middle: 100_000, small: 1_000, endpoints: 100, many: 5_000, few: 1_000,
		rounds: 7, heavy: 3, sample: 40 * time.Millisecond,
		cold: 20_000, sweep: 96 << 20, changes: 1_000, updates: 50,
	}
)

// measure is a family of rows that share what they are measured on.
type measure struct {
	name string // for -only
	run  func(size) ([]row, error)
}

var measures = []measure{
	{"pick", measurePick},
	{"scaling", measureScaling},
	{"selection", measureSelection},
	{"lookup", measureLookup},
	{"state", measureStateChange},
	{"resolver", measureResolverUpdate},
	{"heap", measureHeap},
	{"decode", measureDecode},
	{"coldstart", measureColdStart},
	{"throughput", measureThroughput},
	{"groups", measureGroups},
	{"building", measureBuilding},
	{"telemetry", measureTelemetry},
}

func names(ms []measure) string {
	var all []string
	for _, m := range ms {
		all = append(all, m.name)
	}
	return strings.Join(all, ", ")
}
