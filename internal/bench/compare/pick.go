package main

import (
	"errors"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	lb "google.golang.org/grpc/balancer"
)

// keysInTurn is how many keys picks go round: so many that no pick finds its
// slice in the nearest cache because the one before it asked for the same.
const keysInTurn = 4096

// pickWorld is what the goals for picks are about.
func pickWorld(s size) world {
	return world{slices: s.middle, endpoints: s.endpoints, replicas: 3, seed: 1}
}

// pickers are the real pickers of all policies, every endpoint READY.
type pickers struct {
	typed, header []lb.PickInfo
	hosts         []*host
	ours          lb.Picker
	peers         map[string]lb.Picker
	seed          lb.Picker
}

func newPickers(s size) (_ *pickers, err error) {
	w := pickWorld(s)
	keys := w.keyspace().probes(keysInTurn)
	p := &pickers{typed: typed(keys), header: inHeader(keys), peers: make(map[string]lb.Picker)}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	o, err := startOurs(w)
	if err != nil {
		return nil, err
	}
	p.hosts = append(p.hosts, o.host)
	// A key of each endpoint, so that each gets its connection.
	if err := o.connect(slices.Concat(typed(w.ownKeys()), p.typed), w.endpoints); err != nil {
		return nil, err
	}
	p.ours, _ = o.picker()
	for _, peer := range peers {
		h, err := startPeer(peer.label, w.resolved())
		if err != nil {
			return nil, err
		}
		p.hosts = append(p.hosts, h)
		n := w.endpoints
		if peer.label == "pick_first" {
			n = 1
		}
		if err := h.connect(p.header, n); err != nil {
			return nil, err
		}
		p.peers[peer.label], _ = h.picker()
	}
	p.seed = newSeedPicker(w)
	return p, nil
}

func (p *pickers) close() {
	for _, h := range p.hosts {
		h.close()
	}
}

// timePicks is nanoseconds of CPU a pick, one after the other. Nothing else runs
// in this process, and what others do on the machine is not counted.
func timePicks(p lb.Picker, infos []lb.PickInfo, d time.Duration) (float64, error) {
	n := 0
	began, before := time.Now(), processCPU()
	for time.Since(began) < d {
		for _, info := range infos {
			if _, err := p.Pick(info); err != nil {
				return 0, err
			}
		}
		n += len(infos)
	}
	return float64(cpuSince(before).Nanoseconds()) / float64(n), nil
}

func measurePick(s size) ([]row, error) {
	p, err := newPickers(s)
	if err != nil {
		return nil, err
	}
	defer p.close()
	contest := func(p lb.Picker, infos []lb.PickInfo) contestant {
		return func() (float64, error) { return timePicks(p, infos, s.sample) }
	}
	ns, err := inRounds(s.rounds,
		contest(p.ours, p.typed),
		contest(p.ours, p.header),
		contest(p.peers["ring_hash"], p.header),
		contest(p.peers["round_robin"], p.header),
		contest(p.peers["pick_first"], p.header),
		contest(p.seed, p.header))
	if err != nil {
		return nil, err
	}
	waits, err := lockWaits(p.ours, p.typed, s.sample*time.Duration(s.rounds))
	if err != nil {
		return nil, err
	}
	allocs := func(infos []lb.PickInfo) []float64 {
		i := 0
		return []float64{testing.AllocsPerRun(10*len(infos), func() {
			_, _ = p.ours.Pick(infos[i%len(infos)])
			i++
		})}
	}
	return []row{
		against("pick, typed key", "ns CPU", ns[0], "ring_hash", ns[2], atMost(0.5)),
		alone("pick, typed key: allocations", "", allocs(p.typed), atMost(0)),
		alone("pick, typed key: waits for a lock, all cores", "", []float64{float64(waits)}, atMost(0)),
		against("pick, key in header", "ns CPU", ns[1], "ring_hash", ns[2], atMost(1)),
		alone("pick, key in header: allocations", "", allocs(p.header), atMost(1)),
		against("pick, typed key", "ns CPU", ns[0], "round_robin", ns[3], noGoal),
		against("pick, typed key", "ns CPU", ns[0], "pick_first", ns[4], noGoal),
		against("pick, typed key", "ns CPU", ns[0], "seed", ns[5], noGoal),
	}, nil
}

// lockWaits picks on all cores and counts how often a pick waited for a lock,
// as the runtime's mutex and block profiles see it.
func lockWaits(p lb.Picker, infos []lb.PickInfo, d time.Duration) (int64, error) {
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	before := waitsInPick()
	errs := make([]error, 16)
	var all sync.WaitGroup
	for g := range errs {
		all.Go(func() { _, errs[g] = timePicks(p, infos, d) })
	}
	all.Wait()
	return waitsInPick() - before, errors.Join(errs...)
}

// waitsInPick counts the events in both profiles that have a Pick on the stack.
func waitsInPick() (n int64) {
	for _, read := range []func([]runtime.BlockProfileRecord) (int, bool){runtime.MutexProfile, runtime.BlockProfile} {
		records := make([]runtime.BlockProfileRecord, pprof.Lookup("mutex").Count()+pprof.Lookup("block").Count()+256)
		count, ok := read(records)
		for !ok {
			records = make([]runtime.BlockProfileRecord, 2*count)
			count, ok = read(records)
		}
		for _, r := range records[:count] {
			frames := runtime.CallersFrames(r.Stack())
			for {
				f, more := frames.Next()
				if strings.HasSuffix(f.Function, ").Pick") || strings.HasSuffix(f.Function, ".Pick") {
					n += r.Count
					break
				}
				if !more {
					break
				}
			}
		}
	}
	return n
}
