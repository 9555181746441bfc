package main

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	lb "google.golang.org/grpc/balancer"
)

// pickingGoroutines is how many RPCs are being picked at once.
const pickingGoroutines = 16

// measureScaling asks how much more 16 goroutines pick on all cores than one
// goroutine on one. What the machine can give is measured beside it, with
// arithmetic that touches no memory: on a machine that other programs use too,
// or whose cores share their parts, that is less than the number of cores.
func measureScaling(s size) ([]row, error) {
	p, err := newPickers(s)
	if err != nil {
		return nil, err
	}
	defer p.close()
	cores := float64(runtime.GOMAXPROCS(0))
	picks := func(p lb.Picker, infos []lb.PickInfo) func(int) (int, error) {
		return func(g int) (int, error) {
			for i := range infos {
				// Each goroutine has a place of its own in the round of keys.
				if _, err := p.Pick(infos[(i+g*len(infos)/pickingGoroutines)%len(infos)]); err != nil {
					return 0, err
				}
			}
			return len(infos), nil
		}
	}
	contest := func(work func(int) (int, error)) contestant {
		return func() (float64, error) { return speedup(work, s.sample) }
	}
	factors, err := inRounds(s.rounds,
		contest(picks(p.ours, p.typed)),
		contest(arithmetic),
		contest(picks(p.peers["ring_hash"], p.header)),
		contest(picks(p.peers["round_robin"], p.header)))
	if err != nil {
		return nil, err
	}
	// 1.8 times on 2 cores is the goal.
	const share = 0.9
	name, g := "the same, against the number of cores", atLeast(share*cores)
	if given := median(factors[1]); given < 0.95*cores {
		name, g = fmt.Sprintf("the same (others use the cores: %s of %s are ours)", number(given), number(cores)), noGoal
	}
	return []row{
		against("pick, 16 goroutines, all cores: speed against one", "x", factors[0], "arithmetic", factors[1], atLeast(share)),
		alone(name, "x", factors[0], g),
		against("the same", "x", factors[0], "ring_hash", factors[2], noGoal),
		against("the same", "x", factors[0], "round_robin", factors[3], noGoal),
	}, nil
}

// speedup is the work a second of many goroutines on all cores, in units of that
// of one goroutine.
func speedup(work func(g int) (int, error), d time.Duration) (float64, error) {
	one, err := rate(1, work, d)
	if err != nil {
		return 0, err
	}
	many, err := rate(pickingGoroutines, work, d)
	return many / one, err
}

// rate is work a second.
func rate(goroutines int, work func(g int) (int, error), d time.Duration) (float64, error) {
	counts, errs := make([]int, goroutines), make([]error, goroutines)
	began := time.Now()
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			n := 0
			for time.Since(began) < d && errs[g] == nil {
				var done int
				done, errs[g] = work(g)
				n += done
			}
			counts[g] = n
		})
	}
	all.Wait()
	took := time.Since(began)
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / took.Seconds(), errors.Join(errs...)
}

// arithmetic is a piece of work that shares nothing.
func arithmetic(g int) (int, error) {
	x := uint64(g) + 1
	for range 100_000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	if x == 0 {
		return 0, errors.New("xorshift reached 0, which it cannot")
	}
	return 100_000, nil
}
