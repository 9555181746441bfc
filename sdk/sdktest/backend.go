package sdktest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// Backend is a gRPC server with a name, on a loopback port. It serves
// [EchoService] and what [WithServices] adds, records each call, and fails on
// command; [Backend.Heal] ends the faults of calls, [Backend.Restart] those of
// the port.
type Backend struct {
	name string
	host *host

	mu       sync.Mutex // guards what follows
	changed  signal
	calls    []Call
	count    int
	inFlight int
	trouble  trouble
}

// StartBackend starts a backend. The name is what it answers and what a
// [Cluster] announces as its hostname.
func StartBackend(name string, opts ...Option) (*Backend, error) {
	o := newOptions(opts)
	b := &Backend{name: name}
	h, err := startHost(o.address, func() *grpc.Server {
		// Handlers are waited for, so that nothing of a backend outlives it. The
		// interceptors come first: they see every call, whatever a user's own do.
		server := grpc.NewServer(append([]grpc.ServerOption{
			grpc.WaitForHandlers(true),
			grpc.ChainUnaryInterceptor(b.unary),
			grpc.ChainStreamInterceptor(b.stream),
		}, o.server...)...)
		echoServer{name: name}.register(server)
		for _, register := range o.register {
			register(server)
		}
		return server
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", name, err)
	}
	b.host = h
	return b, nil
}

// Name is the name given at the start.
func (b *Backend) Name() string { return b.name }

// Addr is the address to dial. Only Move changes it.
func (b *Backend) Addr() string { return b.host.address() }

// Close ends the backend: calls are cut, handlers waited for.
func (b *Backend) Close() { b.host.close() }

// Kill cuts every connection and closes the port, so that dials are refused. It
// waits for the handlers, whose contexts end.
func (b *Backend) Kill() { b.host.kill() }

// Restart listens again on the same port, after a Kill or a BlackHole; a backend
// that is up is killed first.
func (b *Backend) Restart() error { return b.host.restart() }

// Move opens a new port, which Addr is from now on; whoever announces the
// backend must say so again, with [Cluster.Resolve] for instance. The old port
// stays open, so that calls in flight can end, and connections that still come to
// it are served and counted as strays.
func (b *Backend) Move() error { return b.host.move() }

// BlackHole cuts every connection; from now on dials are accepted and nothing
// ever comes back: to a client the backend is neither up nor refused.
func (b *Backend) BlackHole() error { return b.host.blackHole() }

// GoAway tells every connection to go away, as a server does that limits their
// age. Calls in flight end normally; the port stays open.
func (b *Backend) GoAway() error { return b.host.goAway() }

// Connections counts the connections to the backend.
func (b *Backend) Connections() Connections { return b.host.conns.counts() }

// WaitConnections waits until n connections have been accepted in all.
func (b *Backend) WaitConnections(ctx context.Context, n int) error {
	return b.host.conns.wait(ctx, fmt.Sprintf("%d connections to backend %s", n, b.name),
		func(c Connections) bool { return c.Accepted >= n })
}

// WaitLive waits until exactly n connections are open.
func (b *Backend) WaitLive(ctx context.Context, n int) error {
	return b.host.conns.wait(ctx, fmt.Sprintf("%d live connections to backend %s", n, b.name),
		func(c Connections) bool { return c.Live == n })
}

// trouble is what is wrong with calls at present. Guarded by Backend.mu.
type trouble struct {
	fail     codes.Code // of every call
	next     codes.Code // of the next few calls
	nextLeft int
	slow     time.Duration
	hold     chan struct{} // closed by Release; nil: calls are not held
}

// FailCalls answers every call with the code. [codes.OK] ends it.
func (b *Backend) FailCalls(code codes.Code) {
	b.setTrouble(func(t *trouble) { t.fail = code })
}

// FailNext answers the next n calls with the code.
func (b *Backend) FailNext(n int, code codes.Code) {
	b.setTrouble(func(t *trouble) { t.next, t.nextLeft = code, n })
}

// SlowCalls starts to handle every call d late. 0 ends it.
func (b *Backend) SlowCalls(d time.Duration) {
	b.setTrouble(func(t *trouble) { t.slow = d })
}

// Hold keeps each new call in flight, before its handler, until Release.
func (b *Backend) Hold() {
	b.setTrouble(func(t *trouble) {
		if t.hold == nil {
			t.hold = make(chan struct{})
		}
	})
}

// Release lets the held calls go and holds no more.
func (b *Backend) Release() {
	b.setTrouble(func(t *trouble) {
		if t.hold != nil {
			close(t.hold)
			t.hold = nil
		}
	})
}

// Heal ends every fault of calls and releases those that are held.
func (b *Backend) Heal() {
	b.Release()
	b.setTrouble(func(t *trouble) { *t = trouble{hold: t.hold} })
}

func (b *Backend) setTrouble(set func(*trouble)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	set(&b.trouble)
}
