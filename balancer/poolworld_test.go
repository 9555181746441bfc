package balancer

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/experimental/balancer/hostname"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

// How servers of an address answer attempts to connect.
type answer int32

const (
	accepts answer = iota
	refuses        // at once; gRPC's backoff is a second here
	holds          // never answers
	hangsUp        // right after it has accepted
	drops          // sooner, so that the connection is never READY
)

// moodyConn is a channel whose servers answer as they are told.
type moodyConn struct {
	*fakeConn
	updates atomic.Int32 // UpdateState

	mu      sync.Mutex // guards what follows
	answers map[string]answer
	live    []*moodySubConn // in the order in which they were made
	dials   []time.Time
}

func newMoodyConn(t testing.TB) *moodyConn {
	return &moodyConn{fakeConn: newFakeConn(t), answers: make(map[string]answer)}
}

func (c *moodyConn) UpdateState(lb.State) { c.updates.Add(1) }

func (c *moodyConn) answer(addr string, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[addr] = a
}

func (c *moodyConn) NewSubConn(addrs []resolver.Address, opts lb.NewSubConnOptions) (lb.SubConn, error) {
	sc, err := c.fakeConn.NewSubConn(addrs, opts)
	s := &moodySubConn{fakeSubConn: sc.(*fakeSubConn), moody: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = append(c.live, s)
	return s, err
}

// dialledAt returns the times of all attempts and forgets them.
func (c *moodyConn) dialledAt() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.dials
	c.dials = nil
	return all
}

// open are the SubConns of addr that are not shut down.
func (c *moodyConn) open(addr string) []*moodySubConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = slices.DeleteFunc(c.live, func(s *moodySubConn) bool { return s.shut.Load() })
	var of []*moodySubConn
	for _, s := range c.live {
		if s.addr == addr {
			of = append(of, s)
		}
	}
	return of
}

type moodySubConn struct {
	*fakeSubConn
	moody  *moodyConn
	active int // RPCs of the test's; its own goroutine counts
}

func (s *moodySubConn) Connect() {
	s.moody.mu.Lock()
	a := s.moody.answers[s.addr]
	s.moody.dials = append(s.moody.dials, time.Now())
	s.moody.mu.Unlock()
	if a == accepts {
		s.fakeSubConn.Connect()
		return
	}
	s.tell(connectivity.Connecting)
	switch a {
	case refuses:
		s.conn.later(func() {
			if !s.shut.Load() {
				s.listen(lb.SubConnState{ConnectivityState: connectivity.TransientFailure, ConnectionError: errors.New("refused")})
			}
		})
		time.AfterFunc(time.Second, func() { s.tell(connectivity.Idle) })
	case hangsUp, drops:
		s.tell(connectivity.Ready) // see RegisterHealthListener
	}
}

// RegisterHealthListener is the last step to READY.
func (s *moodySubConn) RegisterHealthListener(f func(lb.SubConnState)) {
	s.moody.mu.Lock()
	a := s.moody.answers[s.addr]
	s.moody.mu.Unlock()
	if a != drops {
		s.fakeSubConn.RegisterHealthListener(f)
	}
	if a == drops || a == hangsUp {
		s.tell(connectivity.Idle)
	}
}

// poolWorld is a policy over addresses, in a bubble of virtual time.
type poolWorld struct {
	t      *testing.T
	cc     *moodyConn
	router *Router
	policy *policy
}

func newPoolWorld(t *testing.T, c Connections, addrs ...string) *poolWorld {
	t.Helper()
	return newPoolWorldOf(t, RouterOptions{Connections: c}, addrs...)
}

func newPoolWorldOf(t *testing.T, o RouterOptions, addrs ...string) *poolWorld {
	t.Helper()
	w := &poolWorld{t: t, cc: newMoodyConn(t), router: NewRouter(o)}
	t.Cleanup(w.router.Close)
	w.wakeUp(addrs...)
	return w
}

// wakeUp makes a policy, as gRPC does when a channel leaves idle mode.
func (w *poolWorld) wakeUp(addrs ...string) {
	w.policy = newPolicy(w.cc, lb.BuildOptions{})
	w.t.Cleanup(w.policy.Close)
	w.resolve(addrs...)
}

func (w *poolWorld) resolve(addrs ...string) {
	w.t.Helper()
	if err := w.policy.UpdateClientConnState(unsharded(w.router, addrs...)); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// move gives the endpoint of that name, the only one, an address.
func (w *poolWorld) move(name, addr string) {
	w.t.Helper()
	u := unsharded(w.router, addr)
	u.ResolverState.Endpoints[0] = hostname.Set(u.ResolverState.Endpoints[0], name)
	if err := w.policy.UpdateClientConnState(u); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *poolWorld) set(c Connections) {
	w.t.Helper()
	if err := w.router.SetConnections(c); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// rpc is one RPC in flight.
type rpc struct {
	on   *moodySubConn
	done func(lb.DoneInfo)
}

func (r rpc) end() { r.endWith(lb.DoneInfo{BytesSent: true, BytesReceived: true}) }

func (r rpc) endWith(info lb.DoneInfo) {
	r.on.active--
	r.done(info)
}

func (r rpc) timeOut() {
	r.endWith(lb.DoneInfo{BytesSent: true, Err: status.Error(codes.DeadlineExceeded, "too late")})
}

// begin starts one RPC.
func (w *poolWorld) begin() rpc {
	w.t.Helper()
	return w.beginWith(selectorInfo(""))
}

// beginWith starts one RPC. It is picked again as gRPC does, when it is told to.
func (w *poolWorld) beginWith(info lb.PickInfo) rpc {
	w.t.Helper()
	for range 20 {
		seen := w.cc.updates.Load()
		res, err := w.policy.picker.Pick(info)
		if err == nil {
			sc := res.SubConn.(*moodySubConn)
			if sc.shut.Load() {
				w.t.Fatal("a pick chose a connection that is closed")
			}
			sc.active++
			return rpc{sc, res.Done}
		}
		if !errors.Is(err, lb.ErrNoSubConnAvailable) {
			w.t.Fatal(err)
		}
		for waited := time.Duration(0); w.cc.updates.Load() == seen; waited += time.Second {
			if synctest.Wait(); w.cc.updates.Load() != seen {
				break
			}
			if waited > time.Minute {
				w.t.Fatal("nobody wakes the RPC")
			}
			time.Sleep(time.Second)
		}
	}
	w.t.Fatal("the RPC is queued for ever")
	return rpc{}
}

func (w *poolWorld) beginMany(n int) []rpc {
	w.t.Helper()
	var all []rpc
	for range n {
		all = append(all, w.begin())
	}
	synctest.Wait()
	return all
}

func endAll(all []rpc) {
	for _, r := range all {
		r.end()
	}
	synctest.Wait()
}

// connected makes the connections that there are without load.
func (w *poolWorld) connected() {
	w.t.Helper()
	w.begin().end()
	synctest.Wait()
}

// wait lets virtual time pass.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// load is how many RPCs the connections of addr have, in the order in which they
// were made.
func (w *poolWorld) load(addr string) []int {
	var n []int
	for _, s := range w.cc.open(addr) {
		n = append(n, s.active)
	}
	return n
}

func (w *poolWorld) states(addr string) ConnectionStates {
	w.t.Helper()
	for _, e := range w.router.Status().Endpoints {
		if e.Name == addr {
			return e.Connections
		}
	}
	w.t.Fatalf("no endpoint %q", addr)
	return ConnectionStates{}
}

func (w *poolWorld) counts() ConnectionCounts { return w.router.Status().Connections }

// wantStates fails unless the connections of addr, Streams aside, are so.
func (w *poolWorld) wantStates(addr string, want ConnectionStates) {
	w.t.Helper()
	got := w.states(addr)
	got.Streams, got.DrainingStreams = 0, 0
	if got != want {
		w.t.Errorf("connections of %q: %+v, want %+v", addr, got, want)
	}
}

// wantCounts fails unless the counts, given without reasons that count 0, are so.
func (w *poolWorld) wantCounts(want ConnectionCounts) {
	w.t.Helper()
	got := w.counts()
	maps.DeleteFunc(got.Closed, func(_ string, n uint64) bool { return n == 0 })
	same := maps.Equal(got.Closed, want.Closed)
	closed := want.Closed
	got.Closed, want.Closed = nil, nil
	if !same || got.Opened != want.Opened || got.ScaledUp != want.ScaledUp || got.ScaledDown != want.ScaledDown ||
		got.Reused != want.Reused || got.Unresponsive != want.Unresponsive {
		w.t.Errorf("counted %+v, closed %v; want %+v, closed %v", got, w.counts().Closed, want, closed)
	}
}

// nothingLeft fails unless every count was given back and every connection ends
// with the policy.
func (w *poolWorld) nothingLeft(addrs ...string) {
	w.t.Helper()
	for _, e := range w.router.Status().Endpoints {
		if e.Pending != 0 || e.Connections.Streams != 0 || e.Connections.DrainingStreams != 0 {
			w.t.Errorf("%s has %d RPCs in flight, %+v", e.Name, e.Pending, e.Connections)
		}
	}
	w.policy.Close()
	synctest.Wait()
	for _, a := range addrs {
		if n := w.cc.count(w.cc.opened, a); n != 0 {
			w.t.Errorf("%d connections to %q are left", n, a)
		}
	}
	c := w.counts()
	var closed uint64
	for _, n := range c.Closed {
		closed += n
	}
	if c.Opened != closed {
		w.t.Errorf("%d connections were opened and %d closed: %v", c.Opened, closed, c.Closed)
	}
}
