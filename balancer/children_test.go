package balancer

import (
	"errors"
	"sync/atomic"
	"testing"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/balancer/assignment"
)

// inFallbackOn is a policy without a sharding service, over addrs. It picks, and
// connects to, any of them.
func inFallbackOn(t *testing.T, cc lb.ClientConn, addrs ...string) *policy {
	t.Helper()
	p := newPolicy(cc, lb.BuildOptions{})
	t.Cleanup(p.Close)
	if err := p.UpdateClientConnState(poolUpdate(addrs...)); err != nil {
		t.Fatal(err)
	}
	soon(t, "fallback", func() bool {
		pub := p.picker.cur.Load()
		return pub != nil && pub.phase == assignment.Failed
	})
	return p
}

// TestChildrenAreLazy_A08: an endpoint has no child before a pick wants one,
// whichever update brought it, and an endpoint that stays keeps its connection.
func TestChildrenAreLazy_A08(t *testing.T) {
	cc := newFakeConn(t)
	p := inFallbackOn(t, cc, "a")
	// pick_first makes its SubConn as soon as it is given its endpoint.
	if n := cc.count(cc.opened, "a"); n != 0 {
		t.Errorf("%d SubConns before any pick", n)
	}
	if _, err := p.picker.Pick(typedKey("k", "x-key")); err != lb.ErrNoSubConnAvailable { //nolint:errorlint // as gRPC compares it
		t.Fatalf("got %v, want to queue", err)
	}
	a := p.picker.cur.Load().view.byName["a"]
	soon(t, "READY", func() bool { return a.cur.Load().connectivity == connectivity.Ready })
	for _, addrs := range [][]string{{"b", "a"}, {"a", "c", "b"}} {
		if err := p.UpdateClientConnState(poolUpdate(addrs...)); err != nil {
			t.Fatal(err)
		}
		soon(t, "the update", func() bool { return len(p.picker.cur.Load().view.endpoints) == len(addrs) })
	}
	if p.picker.cur.Load().view.byName["a"] != a || cc.count(cc.opened, "a") != 1 || cc.count(cc.dialled, "a") != 1 {
		t.Errorf("the endpoint that stayed has %d SubConns after %d attempts, want the one it had", cc.count(cc.opened, "a"), cc.count(cc.dialled, "a"))
	}
	if b, c := cc.count(cc.opened, "b"), cc.count(cc.opened, "c"); b+c != 0 {
		t.Errorf("the new endpoints have %d and %d SubConns before any pick", b, c)
	}
}

// sickConn is a channel whose connections come up and fail their health checks.
type sickConn struct{ *fakeConn }

func (c sickConn) NewSubConn(addrs []resolver.Address, opts lb.NewSubConnOptions) (lb.SubConn, error) {
	sc, err := c.fakeConn.NewSubConn(addrs, opts)
	return &sickSubConn{sc.(*fakeSubConn)}, err
}

type sickSubConn struct{ *fakeSubConn }

func (s *sickSubConn) RegisterHealthListener(f func(lb.SubConnState)) {
	s.conn.later(func() {
		f(lb.SubConnState{ConnectivityState: connectivity.TransientFailure, ConnectionError: errors.New("not serving")})
	})
}

// TestHealthListenerCounts: A119 turns the children's health listener on, so an
// endpoint that is connected and unhealthy is in TRANSIENT_FAILURE.
func TestHealthListenerCounts(t *testing.T) {
	p := inFallbackOn(t, sickConn{newFakeConn(t)}, "a")
	ep := p.picker.cur.Load().view.byName["a"]
	_, _ = p.picker.Pick(typedKey("k", "x-key"))
	soon(t, "an answer", func() bool {
		s := ep.cur.Load().connectivity
		return s == connectivity.Ready || s == connectivity.TransientFailure
	})
	if s := ep.cur.Load().connectivity; s != connectivity.TransientFailure {
		t.Errorf("the unhealthy endpoint is %v", s)
	}
}

// TestChildUpdateIsSeenAtOnce: what a child says counts for the next pick, before
// the policy's goroutine, which does not run here, has looked at it.
func TestChildUpdateIsSeenAtOnce(t *testing.T) {
	p := twoOwners(t)
	child := adopt(p.policy, p.cur.Load().view.endpoints[0])
	child.UpdateState(lb.State{ConnectivityState: connectivity.TransientFailure, Picker: stubPicker{err: stubError(5)}})
	var down stubError
	if _, err := p.Pick(typedKey("a", "x-key")); !errors.As(err, &down) || down != 5 {
		t.Errorf("got %v, want the new picker's error", err)
	}
	child.UpdateState(lb.State{ConnectivityState: connectivity.Ready, Picker: stubPicker{result: lb.PickResult{SubConn: &stubSubConn{endpoint: 6}}}})
	if res, err := p.Pick(typedKey("a", "x-key")); err != nil || res.SubConn.(*stubSubConn).endpoint != 6 {
		t.Errorf("got %+v, %v; want the new picker's connection", res.SubConn, err)
	}
}

// countingConn counts what gRPC is told.
type countingConn struct {
	lb.ClientConn
	updates atomic.Int32
}

func (c *countingConn) UpdateState(lb.State) { c.updates.Add(1) }

// TestBurstIsOneReport: changes that come together wake queued RPCs once.
func TestBurstIsOneReport(t *testing.T) {
	var eps []*endpoint
	for range 50 {
		eps = append(eps, newEndpoint("e"))
	}
	cc := &countingConn{}
	p := &policy{cc: cc, view: newView(eps), wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{})}
	p.counts[connectivity.Idle] = len(eps)
	p.picker = &picker{policy: p}
	p.picker.cur.Store(&published{view: p.view})
	p.picker.queued.Store(true)
	for _, ep := range eps {
		child := adopt(p, ep)
		for _, s := range []connectivity.State{connectivity.Connecting, connectivity.Ready} {
			child.UpdateState(lb.State{ConnectivityState: s, Picker: stubPicker{}})
		}
	}
	go p.run() // ends with Close
	soon(t, "a report", func() bool { return cc.updates.Load() > 0 })
	p.Close()
	if n := cc.updates.Load(); n != 1 || p.counts[connectivity.Ready] != len(eps) {
		t.Errorf("gRPC was told %d times of %d endpoints, want once of all", n, p.counts[connectivity.Ready])
	}
}

// adopt gives ep a connection without a child.
func adopt(p *policy, ep *endpoint) *childConn {
	c := newChildConn(p, ep)
	ep.pool.add(c)
	return c
}
