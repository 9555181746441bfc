package balancer

import (
	"sync"
	"sync/atomic"
	"testing"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

// fakeConn is a gRPC channel to a policy, with connections that succeed at once.
// Like gRPC it tells SubConns' listeners from one goroutine, in order.
type fakeConn struct {
	lb.ClientConn // of which the policy calls what is below

	mu      sync.Mutex // guards what follows
	notes   []func()
	dialled map[string]int // SubConn.Connect by address
	opened  map[string]int // SubConns made and not shut down, by address

	wake chan struct{} // capacity 1
	quit chan struct{}
	done chan struct{}
}

func newFakeConn(t testing.TB) *fakeConn {
	c := &fakeConn{
		dialled: make(map[string]int), opened: make(map[string]int),
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	go c.run() // ends with the test
	t.Cleanup(func() { close(c.quit); <-c.done })
	return c
}

func (c *fakeConn) run() {
	defer close(c.done)
	for {
		c.mu.Lock()
		notes := c.notes
		c.notes = nil
		c.mu.Unlock()
		for _, n := range notes {
			n()
		}
		if notes != nil {
			continue
		}
		select {
		case <-c.wake:
		case <-c.quit:
			return
		}
	}
}

func (c *fakeConn) later(note func()) {
	c.mu.Lock()
	c.notes = append(c.notes, note)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *fakeConn) Target() string                        { return "fake:///target" }
func (c *fakeConn) ResolveNow(resolver.ResolveNowOptions) {}

func (c *fakeConn) UpdateState(lb.State) {}

func (c *fakeConn) count(m map[string]int, addr string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return m[addr]
}

func (c *fakeConn) NewSubConn(addrs []resolver.Address, opts lb.NewSubConnOptions) (lb.SubConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened[addrs[0].Addr]++
	return &fakeSubConn{conn: c, addr: addrs[0].Addr, listen: opts.StateListener}, nil
}

type fakeSubConn struct {
	lb.SubConn
	conn   *fakeConn
	addr   string
	listen func(lb.SubConnState)
	shut   atomic.Bool
	ready  atomic.Bool // as it was told last
}

func (s *fakeSubConn) tell(state connectivity.State) {
	s.conn.later(func() {
		if !s.shut.Load() {
			s.ready.Store(state == connectivity.Ready)
			s.listen(lb.SubConnState{ConnectivityState: state})
		}
	})
}

func (s *fakeSubConn) Connect() {
	s.conn.mu.Lock()
	s.conn.dialled[s.addr]++
	s.conn.mu.Unlock()
	s.tell(connectivity.Connecting)
	s.tell(connectivity.Ready)
}

func (s *fakeSubConn) RegisterHealthListener(f func(lb.SubConnState)) {
	s.conn.later(func() {
		if !s.shut.Load() && s.ready.Load() { // gRPC forgets the listener of what is not
			f(lb.SubConnState{ConnectivityState: connectivity.Ready})
		}
	})
}

func (s *fakeSubConn) Shutdown() {
	if s.shut.CompareAndSwap(false, true) {
		s.conn.mu.Lock()
		s.conn.opened[s.addr]--
		s.conn.mu.Unlock()
	}
}
