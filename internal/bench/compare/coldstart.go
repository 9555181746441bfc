package main

import (
	"errors"
	"runtime"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/balancer"
)

// measureColdStart brings all endpoints up at once: a new policy gets its
// endpoints, an RPC for each waits, and it is over when each has been picked
// with success. The assignment is there already, as after an idle time.
func measureColdStart(s size) ([]row, error) {
	many, err := newStarter(s.middle, s.many)
	if err != nil {
		return nil, err
	}
	defer many.close()
	few, err := newStarter(s.middle, s.few)
	if err != nil {
		return nil, err
	}
	defer few.close()
	// The few are started so often that both sides start as many: else the
	// garbage collector would run for the many alone.
	turns := max(1, s.many/s.few)
	ms, err := inRounds(s.heavy,
		many.contestant(1, many.ours), few.contestant(turns, few.ours),
		few.contestant(1, few.roundRobin)) // many would take ten seconds
	if err != nil {
		return nil, err
	}
	manyName, fewName := number(float64(s.many)), number(float64(s.few))
	return []row{
		against("cold start of "+manyName+" endpoints", "ms CPU", ms[0], fewName+" endpoints", ms[1], atMost(6)),
		// With what the host and the waiting RPCs cost.
		alone("cold start of "+manyName+" endpoints", "ms CPU", ms[0], atMost(1000)),
		against("cold start of "+fewName+" endpoints", "ms CPU", ms[1], "round_robin", ms[2], noGoal),
	}, nil
}

// starter starts policies over the same endpoints again and again.
type starter struct {
	endpoints []resolver.Endpoint
	infos     []lb.PickInfo
	sharding  *sharding
	router    *balancer.Router
}

func newStarter(slices, endpoints int) (*starter, error) {
	w := world{slices: max(slices, endpoints), endpoints: endpoints, replicas: 1, seed: 1}
	st := &starter{
		endpoints: w.resolved(), infos: typed(w.ownKeys()),
		sharding: newSharding(), router: balancer.NewRouter(balancer.RouterOptions{}),
	}
	o, err := newOurs(st.sharding, st.router, st.endpoints)
	if err != nil {
		st.close()
		return nil, err
	}
	defer o.close()
	if err := st.sharding.assign(w.frames()); err != nil {
		st.close()
		return nil, err
	}
	return st, nil
}

func (st *starter) close() { st.router.Close() }

func (st *starter) ours() (*host, error) {
	o, err := newOurs(st.sharding, st.router, st.endpoints)
	if err != nil {
		return nil, err
	}
	return o.host, nil
}

func (st *starter) roundRobin() (*host, error) { return startPeer("round_robin", st.endpoints) }

// contestant is milliseconds of CPU that one start takes, of several one after
// the other.
func (st *starter) contestant(times int, start func() (*host, error)) contestant {
	return func() (float64, error) {
		runtime.GC()
		var total time.Duration
		for range times {
			took, err := st.once(start)
			if err != nil {
				return 0, err
			}
			total += took
		}
		return float64(total.Nanoseconds()) / 1e6 / float64(times), nil
	}
}

// once is the CPU time from nothing to the last RPC. The end of the policy is
// not measured.
func (st *starter) once(start func() (*host, error)) (time.Duration, error) {
	before := processCPU()
	h, err := start()
	if err != nil {
		return 0, err
	}
	defer h.close()
	if err := h.pickAll(st.infos); err != nil {
		return 0, err
	}
	// round_robin gives connections before the last endpoint is up.
	err = h.waitReady(len(st.endpoints))
	return cpuSince(before), err
}

// pickAll picks as gRPC does for RPCs that wait: each again at every picker update
// until it has its connection.
func (h *host) pickAll(infos []lb.PickInfo) error {
	waiting := append([]lb.PickInfo(nil), infos...)
	for {
		p, update := h.picker()
		if p != nil {
			still := waiting[:0]
			for _, info := range waiting {
				_, err := p.Pick(info)
				if errors.Is(err, lb.ErrNoSubConnAvailable) {
					still = append(still, info)
				} else if err != nil {
					return err
				}
			}
			if waiting = still; len(waiting) == 0 {
				return nil
			}
		}
		if err := h.waitUpdate(update); err != nil {
			return err
		}
	}
}

// waitReady waits until n connections are READY and the policy has been told.
func (h *host) waitReady(n int) error {
	for deadline := time.Now().Add(waitLimit); h.ready.Load() != int64(n); {
		if time.Now().After(deadline) {
			return errors.New("not every connection came up")
		}
		time.Sleep(time.Millisecond)
	}
	h.serial.do(func() {}) // the last READY has been said
	h.serial.do(func() {}) // and the last health, which it asked for
	return nil
}
