package main

import (
	"slices"
	"sync/atomic"
	"time"

	lb "google.golang.org/grpc/balancer"
)

// measureBuilding times each pick of one goroutine, alone and while our policy
// decodes, validates and indexes a large assignment in the same process.
func measureBuilding(s size) ([]row, error) {
	w := world{slices: s.big, endpoints: s.endpoints, replicas: 3, seed: 1}
	o, err := startOurs(w)
	if err != nil {
		return nil, err
	}
	defer o.close()
	infos := typed(w.keyspace().probes(keysInTurn))
	if err := o.connect(slices.Concat(typed(w.ownKeys()), infos), w.endpoints); err != nil {
		return nil, err
	}
	p, _ := o.picker()
	// What the harness would do to make them shall not be seen as our building.
	frames := w.keptFrames()
	var during time.Duration
	build := func() (float64, error) {
		began := time.Now()
		p99, err := p99While(p, infos, func() error { return o.sharding.assign(slices.Values(frames)) })
		during = time.Since(began)
		return p99, err
	}
	if _, err := build(); err != nil { // tells how long it takes
		return nil, err
	}
	quiet := func() (float64, error) {
		return p99While(p, infos, func() error { time.Sleep(during); return nil })
	}
	ns, err := inRounds(s.heavy, build, quiet)
	if err != nil {
		return nil, err
	}
	return []row{
		against("p99 of picks while a large assignment is built", "ns", ns[0], "quiet", ns[1], atMost(2)),
	}, nil
}

// p99While picks until other has returned, and says how many nanoseconds all but
// one in a hundred picks took at most.
func p99While(p lb.Picker, infos []lb.PickInfo, other func() error) (float64, error) {
	var over atomic.Bool
	failed := make(chan error, 1)
	go func() { // ends with other
		failed <- other()
		over.Store(true)
	}()
	const longest = 1 << 16
	counts := make([]uint32, longest+1) // by nanoseconds; the last one is everything above
	total := 0
	began := time.Now()
	last := time.Since(began)
	const least = 1000 // picks, however short the other is
	for i := 0; !over.Load() || total < least; i++ {
		if i == len(infos) {
			i = 0
		}
		if _, err := p.Pick(infos[i]); err != nil {
			<-failed
			return 0, err
		}
		now := time.Since(began)
		counts[min(now-last, longest)]++
		last = now
		total++
	}
	below := 0
	for ns, n := range counts {
		below += int(n)
		if below*100 >= total*99 {
			return float64(ns), <-failed
		}
	}
	return longest, <-failed
}
