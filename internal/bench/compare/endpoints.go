package main

import (
	"errors"
	"fmt"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/resolver"
)

// overEndpoints is how many endpoints there are when one of them changes, or
// when the resolver updates them.
const overEndpoints = 1000

// settled is our policy over a number of slices, every endpoint READY.
type settled struct {
	*ours
	world world
	infos []lb.PickInfo // one for each endpoint, which alone owns its key
	turn  int           // resolver updates so far
}

func newSettled(slices, endpoints int) (*settled, error) {
	w := world{slices: max(slices, endpoints), endpoints: endpoints, replicas: 1, seed: 1}
	o, err := startOurs(w)
	if err != nil {
		return nil, err
	}
	t := &settled{ours: o, world: w, infos: typed(w.ownKeys())}
	if err := o.connect(t.infos, w.endpoints); err != nil {
		o.close()
		return nil, err
	}
	return t, nil
}

// largeAndSmall measures the same on few slices and on many. What is compared
// is CPU time of the whole process, the policy's goroutine included.
func largeAndSmall(s size, name string, operations int, sample func(*settled) error) ([]row, error) {
	var contestants []contestant
	for _, n := range []int{s.big, s.small} {
		t, err := newSettled(n, min(overEndpoints, s.small))
		if err != nil {
			return nil, err
		}
		defer t.close()
		contestants = append(contestants, func() (float64, error) {
			before := processCPU()
			err := sample(t)
			return float64(cpuSince(before).Nanoseconds()) / 1e3 / float64(operations), err
		})
	}
	us, err := inRounds(s.rounds, contestants...)
	if err != nil {
		return nil, err
	}
	return []row{against(
		fmt.Sprintf("%s at %d slices", name, s.big), "us CPU", us[0],
		fmt.Sprintf("%d slices", s.small), us[1], atMost(1.2))}, nil
}

// measureStateChange takes endpoints from READY to IDLE and, by a pick, back:
// each change goes from the connection through the endpoint's pick_first and
// our goroutine to a picker update.
func measureStateChange(s size) ([]row, error) {
	return largeAndSmall(s, "an endpoint goes and comes back,", s.changes, func(t *settled) error {
		for i := range s.changes {
			endpoint := i % t.world.endpoints
			if err := t.goAndComeBack(endpoint); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *settled) goAndComeBack(endpoint int) error {
	t.mu.Lock()
	sc, update := t.subConns[t.world.address(endpoint)], t.updates
	t.mu.Unlock()
	if sc == nil {
		return errors.New("an endpoint has no connection")
	}
	sc.lose()
	if err := t.waitUpdate(update); err != nil {
		return err
	}
	return t.pickReady(t.infos[endpoint])
}

// measureResolverUpdate replaces one endpoint of many, so that each update ends
// in a picker update, which is waited for.
func measureResolverUpdate(s size) ([]row, error) {
	versions := resolved(min(overEndpoints, s.small))
	return largeAndSmall(s, fmt.Sprintf("resolver update of %d endpoints", len(versions[0])), s.updates, func(t *settled) error {
		for range s.updates {
			if err := t.update(versions); err != nil {
				return err
			}
		}
		return nil
	})
}

// resolved is two lists of n endpoints that differ in one; the second is what a
// settled policy starts with.
func resolved(n int) (versions [2][]resolver.Endpoint) {
	for v := range versions {
		all := world{endpoints: n + 1}.resolved()
		all[n-1] = all[n-v]
		versions[v] = all[:n]
	}
	return versions
}

// update resolves the versions in turn and waits for the picker update.
func (t *settled) update(versions [2][]resolver.Endpoint) error {
	_, update := t.picker()
	err := t.resolve(versions[t.turn%2])
	t.turn++
	if err != nil {
		return err
	}
	return t.waitUpdate(update)
}
