package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// contestant takes one sample, a number such as nanoseconds an operation.
type contestant func() (float64, error)

// inRounds lets the contestants take turns and returns the samples of each. Who
// goes first changes with the round, so that nobody always follows the same one.
func inRounds(rounds int, contestants ...contestant) ([][]float64, error) {
	samples := make([][]float64, len(contestants))
	for c := range samples {
		samples[c] = make([]float64, rounds)
	}
	for r := range rounds {
		for i := range contestants {
			c := (i + r) % len(contestants)
			v, err := contestants[c]()
			if err != nil {
				return nil, fmt.Errorf("round %d: %w", r+1, err)
			}
			if math.IsNaN(v) || math.IsInf(v, 0) || v <= 0 {
				return nil, errors.New("a sample is not a number above 0: too little was measured")
			}
			samples[c][r] = v
		}
	}
	return samples, nil
}

// inTurn is inRounds for two whose difference is small: so many more and shorter
// rounds that a disturbance is in few of them, and who goes first is drawn, so that
// nothing with a beat of its own always meets the same one.
func inTurn(rounds int, a, b contestant) (as, bs []float64, err error) {
	for range rounds {
		var pair [][]float64
		if rand.IntN(2) == 0 {
			pair, err = inRounds(1, a, b)
		} else if pair, err = inRounds(1, b, a); err == nil {
			slices.Reverse(pair)
		}
		if err != nil {
			return nil, nil, err
		}
		as, bs = append(as, pair[0]...), append(bs, pair[1]...)
	}
	return as, bs, nil
}

// cpuSince is never 0, where the system counts CPU time in steps.
func cpuSince(before time.Duration) time.Duration { return max(processCPU()-before, time.Nanosecond) }

// ratios divides round by round: what disturbs a round disturbs both sides.
func ratios(ours, peer []float64) []float64 {
	out := make([]float64, len(ours))
	for i := range out {
		out[i] = ours[i] / peer[i]
	}
	return out
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// spread is the distance between the quartiles.
func spread(values []float64) float64 { return quantile(values, 0.75) - quantile(values, 0.25) }

// quantile interpolates between the two nearest values.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	below := int(at)
	if below+1 == len(sorted) {
		return sorted[below]
	}
	part := at - float64(below)
	return sorted[below]*(1-part) + sorted[below+1]*part
}
