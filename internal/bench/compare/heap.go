package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// heapEndpoints is how many endpoints own the slices whose memory is measured.
const heapEndpoints = 1000

// measureHeap looks at the heap while our policy has one large assignment, and
// while it is given the next one.
func measureHeap(s size) ([]row, error) {
	w := world{slices: s.big, endpoints: min(heapEndpoints, s.small), replicas: 3, seed: 1}
	var perSlice, live, peak, seed []float64
	for range s.heavy {
		sample, err := sampleHeap(w)
		if err != nil {
			return nil, err
		}
		keys := float64(keyBytes * (w.slices - 1))
		perSlice = append(perSlice, (sample.retained-keys)/float64(w.slices))
		live = append(live, sample.live/sample.retained)
		peak = append(peak, sample.peak/sample.retained)
	}
	base := liveHeap()
	picker := newSeedPicker(w)
	seed = append(seed, (liveHeap()-base)/float64(w.slices)-keyBytes)
	runtime.KeepAlive(picker)
	return []row{
		alone("heap a slice beside its key, 3 replicas", "bytes", perSlice, atMost(40)).beside("seed", seed),
		alone("peak heap while replacing, against one assignment", "x", peak, atMost(2.5)),
		alone("the same, without garbage", "x", live, noGoal),
	}, nil
}

// heapSample is bytes: what one assignment retains, and how much the heap has at
// most while it is replaced, all over what there was before.
type heapSample struct{ retained, live, peak float64 }

func sampleHeap(w world) (heapSample, error) {
	var sample heapSample
	o, err := newOurs(newSharding(), nil, w.resolved())
	if err != nil {
		return sample, err
	}
	defer o.close()
	base := liveHeap()
	if err := o.sharding.assign(w.frames()); err != nil {
		return sample, err
	}
	sample.retained = liveHeap() - base
	next := w
	next.seed++

	// As it comes, with the garbage that lies about until it is collected.
	watch := watchHeap()
	err = o.sharding.assign(next.frames())
	sample.peak = watch() - base
	if err != nil {
		return sample, err
	}
	// With next to no garbage.
	liveHeap()
	defer debug.SetGCPercent(debug.SetGCPercent(3))
	watch = watchHeap()
	err = o.sharding.assign(w.frames())
	sample.live = watch() - base
	return sample, err
}

func liveHeap() float64 {
	runtime.GC()
	runtime.GC() // what the first one found dead may have waited for a finalizer
	return heapNow()
}

// heapNow is bytes of objects, dead ones that were not swept yet included.
func heapNow() float64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return float64(sample[0].Value.Uint64())
}

// watchHeap follows the heap until the returned function is called, which says
// how much there was at most.
func watchHeap() func() float64 {
	most, stop := make(chan float64), make(chan struct{})
	go func() { // ends with stop
		peak := heapNow()
		for {
			select {
			case <-stop:
				most <- max(peak, heapNow())
				return
			case <-time.After(500 * time.Microsecond):
				peak = max(peak, heapNow())
			}
		}
	}()
	return func() float64 { close(stop); return <-most }
}
