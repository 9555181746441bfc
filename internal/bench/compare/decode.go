package main

import (
	"runtime"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/internal/wire"
)

// measureDecode makes an assignment of the bytes of its chunks. The peer only
// unmarshals the same bytes into the generated messages, and drops them.
func measureDecode(s size) ([]row, error) {
	w := world{slices: s.big, endpoints: min(heapEndpoints, s.small), replicas: 3, seed: 1}
	frames := w.keptFrames()
	timed := func(f func() error) contestant {
		return func() (float64, error) {
			runtime.GC() // of the one before
			began := time.Now()
			err := f()
			return float64(time.Since(began).Nanoseconds()) / float64(w.slices), err
		}
	}
	ns, err := inRounds(s.heavy,
		timed(func() error { return decodeOurs(frames) }),
		timed(func() error { return unmarshal(frames) }))
	if err != nil {
		return nil, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = decodeOurs(frames)
	runtime.ReadMemStats(&after)
	if err != nil {
		return nil, err
	}
	allocs := float64(after.Mallocs-before.Mallocs) / float64(len(frames))
	return []row{
		against("decode, validate and index, a slice", "ns", ns[0], "proto.Unmarshal", ns[1], atMost(2)),
		// "A handful of allocations per chunk at most."
		alone("the same: allocations a chunk of 1000", "", []float64{allocs}, atMost(5)),
	}, nil
}

func decodeOurs(frames [][]byte) error {
	a, _, err := assignment.Decode(1, assignment.Revision202608, frames...)
	runtime.KeepAlive(a)
	return err
}

func unmarshal(frames [][]byte) error {
	for _, f := range frames {
		var m wire.WatchShardingAssignmentResponse
		if err := proto.Unmarshal(f, &m); err != nil {
			return err
		}
	}
	return nil
}
