package balancer

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/balancer/assignment"
)

// poolUpdate is a resolver update for a policy without a sharding service, whose
// picks are all in fallback.
func poolUpdate(addrs ...string) lb.ClientConnState {
	s := lb.ClientConnState{BalancerConfig: &Config{
		ChannelFactoryKey: "none", SlicingTarget: "none", KeyHeader: "x-key", EnableFallback: true, InitialAssignmentTimeout: time.Minute,
	}}
	for _, a := range addrs {
		s.ResolverState.Endpoints = append(s.ResolverState.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: a}}})
	}
	return s
}

func soon(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}

// TestRemovedEndpointIsNeverWokenUp_EC07: picks race with removal, some from a
// value that was published before it.
func TestRemovedEndpointIsNeverWokenUp_EC07(t *testing.T) {
	cc := newFakeConn(t)
	p := newPolicy(cc, lb.BuildOptions{})
	if err := p.UpdateClientConnState(poolUpdate("keep")); err != nil {
		t.Fatal(err)
	}
	soon(t, "fallback", func() bool {
		pub := p.picker.cur.Load()
		return pub != nil && pub.phase == assignment.Failed
	})
	info := typedKey("k", "x-key")
	for round := range 1000 {
		leaves := fmt.Sprint("leaves", round)
		if err := p.UpdateClientConnState(poolUpdate("keep", leaves)); err != nil {
			t.Fatal(err)
		}
		soon(t, "the update", func() bool { return p.picker.cur.Load().view.byName[leaves] != nil })
		ep := p.picker.cur.Load().view.byName[leaves]
		halt := make(chan struct{})
		var wg sync.WaitGroup
		for w := range 3 {
			wg.Go(func() {
				for {
					select {
					case <-halt:
						return
					default:
					}
					if w == 0 {
						// As a pick that loaded its value long ago.
						p.requestConnection(ep)
					} else {
						_, _ = p.picker.Pick(info)
					}
					runtime.Gosched()
				}
			})
		}
		if round%2 == 0 { // else it leaves IDLE, CONNECTING or never asked
			soon(t, "READY", func() bool { return ep.cur.Load().connectivity == connectivity.Ready })
		}
		if err := p.UpdateClientConnState(poolUpdate("keep")); err != nil {
			t.Fatal(err)
		}
		soon(t, "the removal", func() bool { return p.picker.cur.Load().view.byName[leaves] == nil })
		soon(t, "the connection to be shut down", func() bool { return cc.count(cc.opened, leaves) == 0 })
		dialled := cc.count(cc.dialled, leaves)
		for range 20 {
			p.requestConnection(ep)
			runtime.Gosched()
		}
		close(halt)
		wg.Wait()
		soon(t, "the policy to have nothing left to do", func() bool { return !p.hasWork() })
		if n := cc.count(cc.dialled, leaves); n != dialled || cc.count(cc.opened, leaves) != 0 {
			t.Fatalf("round %d: %d connections asked for, %d after the removal, %d left open", round, n, n-dialled, cc.count(cc.opened, leaves))
		}
	}
	p.Close()
	if n := cc.count(cc.opened, "keep"); n != 0 {
		t.Errorf("%d SubConns are left", n)
	}
}

// hasWork says whether something waits in the inbox.
func (p *policy) hasWork() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	in := &p.inbox
	return in.update != nil || in.resolverError != nil || in.assignment != nil || len(in.changed) > 0 || len(in.connect) > 0
}

// TestColdStart_A25: thousands of endpoints come up one after the other, each
// change costing the same however many there are.
func TestColdStart_A25(t *testing.T) {
	const n = 5000
	cc := newFakeConn(t)
	p := newPolicy(cc, lb.BuildOptions{})
	defer p.Close()
	addrs := make([]string, n)
	for i := range addrs {
		addrs[i] = fmt.Sprint("host-", i)
	}
	before := cpuTime(t)
	if err := p.UpdateClientConnState(poolUpdate(addrs...)); err != nil {
		t.Fatal(err)
	}
	soon(t, "the update", func() bool { return p.picker.cur.Load() != nil })
	view := p.picker.cur.Load().view
	for _, ep := range view.endpoints {
		p.requestConnection(ep)
	}
	for _, ep := range view.endpoints {
		soon(t, "READY", func() bool { return ep.cur.Load().connectivity == connectivity.Ready })
	}
	used := cpuTime(t) - before
	t.Logf("%d endpoints cost %v of processor time", n, used)
	if used > 2*time.Second { // a small part of it when the race detector is off
		t.Errorf("%v of processor time", used)
	}
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Skip(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
