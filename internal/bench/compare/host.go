package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// host runs an LB policy, ours or a peer's, as a gRPC channel would, over
// connections that are READY as soon as they are asked for. What it costs is
// part of what is measured, and the same for all.
type host struct {
	lb.ClientConn // gRPC asks for it; no method of it is called
	policy        lb.Balancer
	serial        *serial
	ready         atomic.Int64 // SubConns in state READY

	mu       sync.Mutex // guards the fields below
	changed  *sync.Cond
	state    lb.State
	updates  int                 // of the picker
	subConns map[string]*subConn // by address
}

// newHost builds the policy of a name.
func newHost(name string) (*host, error) {
	builder := lb.Get(name)
	if builder == nil {
		return nil, fmt.Errorf("no LB policy is registered as %q", name)
	}
	h := &host{serial: newSerial(), subConns: make(map[string]*subConn)}
	h.changed = sync.NewCond(&h.mu)
	h.serial.do(func() {
		h.policy = builder.Build(h, lb.BuildOptions{Target: resolver.Target{}})
	})
	return h, nil
}

// parse reads a config as gRPC does. "" is for a policy that has none.
func parse(name, js string) (serviceconfig.LoadBalancingConfig, error) {
	if js == "" {
		return nil, nil
	}
	parser, ok := lb.Get(name).(lb.ConfigParser)
	if !ok {
		return nil, fmt.Errorf("LB policy %q has no config", name)
	}
	return parser.ParseConfig(json.RawMessage(js))
}

// resolve hands a resolver update to the policy.
func (h *host) resolve(s lb.ClientConnState) (err error) {
	h.serial.do(func() { err = h.policy.UpdateClientConnState(s) })
	return err
}

func (h *host) close() {
	h.serial.do(h.policy.Close)
	h.serial.close()
}

// pick asks the newest picker.
func (h *host) pick(info lb.PickInfo) (lb.PickResult, error) {
	h.mu.Lock()
	p := h.state.Picker
	h.mu.Unlock()
	if p == nil {
		return lb.PickResult{}, lb.ErrNoSubConnAvailable
	}
	return p.Pick(info)
}

// picker returns the newest picker and the number of its update.
func (h *host) picker() (lb.Picker, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state.Picker, h.updates
}

// waitUpdate waits for a picker update after the one of that number.
func (h *host) waitUpdate(after int) error {
	timer := time.AfterFunc(waitLimit, h.changed.Broadcast)
	defer timer.Stop()
	late := time.Now().Add(waitLimit)
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.updates == after {
		if !time.Now().Before(late) {
			return errors.New("the policy sent no picker update")
		}
		h.changed.Wait()
	}
	return nil
}

// connect picks with each info until n connections are READY.
func (h *host) connect(infos []lb.PickInfo, n int) error {
	for deadline := time.Now().Add(waitLimit); ; {
		for _, info := range infos {
			_, _ = h.pick(info)
		}
		if h.ready.Load() == int64(n) {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d connections are READY", h.ready.Load(), n)
		}
		time.Sleep(time.Millisecond)
	}
	for _, info := range infos {
		if err := h.pickReady(info); err != nil {
			return err
		}
	}
	return nil
}

// pickReady picks until there is a result, as a queued RPC does.
func (h *host) pickReady(info lb.PickInfo) error {
	for {
		p, update := h.picker()
		if p != nil {
			_, err := p.Pick(info)
			if err == nil {
				return nil
			}
			if !errors.Is(err, lb.ErrNoSubConnAvailable) {
				return err
			}
		}
		if err := h.waitUpdate(update); err != nil {
			return err
		}
	}
}

// UpdateState is called by the policy from goroutines of its own.
func (h *host) UpdateState(s lb.State) {
	h.mu.Lock()
	h.state = s
	h.updates++
	h.mu.Unlock()
	h.changed.Broadcast()
}

// NewSubConn makes a connection that is not connected yet.
func (h *host) NewSubConn(addrs []resolver.Address, opts lb.NewSubConnOptions) (lb.SubConn, error) {
	sc := &subConn{host: h, address: addrs[0].Addr, listener: opts.StateListener}
	h.mu.Lock()
	h.subConns[sc.address] = sc
	h.mu.Unlock()
	return sc, nil
}

func (h *host) ResolveNow(resolver.ResolveNowOptions) {}
func (h *host) Target() string                        { return "bench:///target" }
func (h *host) MetricsRecorder() stats.MetricsRecorder {
	return noMetrics{}
}

type noMetrics struct {
	stats.UnimplementedMetricsRecorder
}

// subConn is a connection of a host. Its state belongs to the host's serial.
type subConn struct {
	lb.SubConn // gRPC asks for it; no method of it is called
	host       *host
	address    string
	listener   func(lb.SubConnState)
	state      connectivity.State
}

// Connect succeeds, later, as it does in gRPC: never during the call.
func (sc *subConn) Connect() {
	sc.host.serial.put(func() {
		if sc.state == connectivity.Idle {
			sc.enter(connectivity.Connecting)
			sc.enter(connectivity.Ready)
		}
	})
}

// Shutdown ends the connection.
func (sc *subConn) Shutdown() {
	sc.host.mu.Lock()
	if sc.host.subConns[sc.address] == sc {
		delete(sc.host.subConns, sc.address)
	}
	sc.host.mu.Unlock()
	sc.host.serial.put(func() { sc.enter(connectivity.Shutdown) })
}

// RegisterHealthListener says that the server is healthy.
func (sc *subConn) RegisterHealthListener(listener func(lb.SubConnState)) {
	if listener != nil {
		sc.host.serial.put(func() { listener(lb.SubConnState{ConnectivityState: connectivity.Ready}) })
	}
}

// lose is what a server does that goes away: READY becomes IDLE.
func (sc *subConn) lose() {
	sc.host.serial.put(func() { sc.enter(connectivity.Idle) })
}

func (sc *subConn) enter(s connectivity.State) {
	if sc.state == connectivity.Shutdown {
		return
	}
	switch {
	case s == connectivity.Ready:
		sc.host.ready.Add(1)
	case sc.state == connectivity.Ready:
		sc.host.ready.Add(-1)
	}
	sc.state = s
	sc.listener(lb.SubConnState{ConnectivityState: s})
}
