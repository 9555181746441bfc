package sdktest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// ErrClosed is what an operation on something closed returns.
var ErrClosed = errors.New("sdktest: closed")

// host owns the sockets of one gRPC server across its restarts. It accepts
// connections itself and hands them to the server of the moment, so that the
// server can be drained or replaced while the port stays open.
type host struct {
	newServer func() *grpc.Server
	afterStop func() // waits for what handlers have started; may be nil
	conns     connSet

	// op makes start, stop, drain and close take turns. It is held while the
	// handlers of an old server end, so no handler may need it.
	op       sync.Mutex
	closed   bool
	down     bool
	release  func() // of the port, while nothing listens on it; may be nil
	draining []*grpc.Server
	running  sync.WaitGroup // accept loops, Serve, GracefulStop: waited for by stop

	mu        sync.Mutex // guards what follows
	addr      string
	listeners []net.Listener // the newest is the one of addr
	server    *grpc.Server
	inbox     *inbox // nil: connections are held and never answered
}

func startHost(address string, newServer func() *grpc.Server, afterStop func()) (*host, error) {
	h := &host{newServer: newServer, afterStop: afterStop, addr: address}
	h.op.Lock()
	defer h.op.Unlock()
	h.serve() // first, as in restart
	if err := h.listen(address); err != nil {
		h.stop()
		return nil, err
	}
	return h, nil
}

func (h *host) address() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.addr
}

// listen opens one more port and starts its accept loop, which ends when stop
// closes the listener.
func (h *host) listen(address string) error {
	h.letGo()
	l, err := listenAgain(address)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.addr = l.Addr().String()
	h.listeners = append(h.listeners, l)
	h.mu.Unlock()
	h.running.Go(func() { h.accept(l) })
	return nil
}

// listenAgain waits a little for a port that was ours and is still in use, for
// instance as the local port of somebody's connection.
func listenAgain(address string) (net.Listener, error) {
	const tries, gap = 60, 50 * time.Millisecond
	var err error
	for range tries {
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			return l, nil
		}
		if _, port, e := net.SplitHostPort(address); e != nil || port == "0" {
			break
		}
		time.Sleep(gap)
	}
	return nil, fmt.Errorf("sdktest: cannot listen: %w", err)
}

func (h *host) accept(l net.Listener) {
	for {
		raw, err := l.Accept()
		if err != nil {
			return
		}
		h.mu.Lock()
		stray := l != h.listeners[len(h.listeners)-1]
		h.mu.Unlock()
		if c := h.conns.add(raw, stray); c != nil {
			h.dispatch(c)
		}
	}
}

// dispatch gives c to the server of the moment. Without one, c is kept open and
// nothing is ever written to it.
func (h *host) dispatch(c net.Conn) {
	for {
		h.mu.Lock()
		in := h.inbox
		h.mu.Unlock()
		if in == nil {
			h.running.Go(func() { swallow(c) })
			return
		}
		if in.deliver(c) {
			return
		}
		h.mu.Lock()
		replaced := h.inbox != in
		h.mu.Unlock()
		if !replaced { // stopping
			_ = c.Close()
			return
		}
	}
}

// serve starts a new server behind the open ports.
func (h *host) serve() {
	in := newInbox()
	server := h.newServer()
	h.mu.Lock()
	h.server, h.inbox = server, in
	h.mu.Unlock()
	h.running.Go(func() { _ = server.Serve(in) })
}

// stop cuts every connection, closes every port and waits for every handler.
func (h *host) stop() {
	h.down = true
	h.mu.Lock()
	listeners, server, in := h.listeners, h.server, h.inbox
	h.server = nil
	h.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close()
	}
	if in != nil {
		_ = in.Close()
	}
	h.conns.refuse(true)
	if server != nil {
		server.Stop()
	}
	for _, s := range h.draining {
		s.Stop()
	}
	h.running.Wait()
	if h.afterStop != nil {
		h.afterStop()
	}
	h.draining = nil
	h.mu.Lock()
	h.listeners, h.inbox = nil, nil
	h.mu.Unlock()
	h.conns.refuse(false)
}

func (h *host) kill() {
	h.op.Lock()
	defer h.op.Unlock()
	if !h.closed && !h.down {
		h.stop()
		h.release = reserve(h.address())
	}
}

func (h *host) letGo() {
	if h.release != nil {
		h.release()
		h.release = nil
	}
}

func (h *host) restart() error {
	h.op.Lock()
	defer h.op.Unlock()
	if h.closed {
		return ErrClosed
	}
	if !h.down {
		h.stop()
	}
	h.serve() // first: without a server, a connection would be held and never answered
	if err := h.listen(h.address()); err != nil {
		h.stop()
		return err
	}
	h.down = false
	return nil
}

// move opens a new port and keeps the old ones, whose new connections count as
// strays from now on.
func (h *host) move() error {
	h.op.Lock()
	defer h.op.Unlock()
	if h.closed {
		return ErrClosed
	}
	hostname, _, err := net.SplitHostPort(h.address())
	if err != nil {
		return err
	}
	if h.down {
		h.serve() // first, as in restart
	}
	if err := h.listen(net.JoinHostPort(hostname, "0")); err != nil {
		if h.down {
			h.stop()
		}
		return err
	}
	h.down = false
	return nil
}

// blackHole cuts what there is; from then on connections are accepted and
// nothing answers.
func (h *host) blackHole() error {
	h.op.Lock()
	defer h.op.Unlock()
	if h.closed {
		return ErrClosed
	}
	if !h.down {
		h.stop()
	}
	if err := h.listen(h.address()); err != nil {
		return err
	}
	h.down = false
	return nil
}

// goAway replaces the server: the old one says GOAWAY on its connections and
// ends its calls, the new one takes new connections. The port stays open.
func (h *host) goAway() error {
	h.op.Lock()
	defer h.op.Unlock()
	if h.closed {
		return ErrClosed
	}
	h.mu.Lock()
	old, oldInbox := h.server, h.inbox
	h.mu.Unlock()
	if old == nil || oldInbox == nil {
		return nil
	}
	h.serve()
	h.draining = append(h.draining, old)
	h.running.Go(old.GracefulStop)
	return nil
}

func (h *host) close() {
	h.op.Lock()
	defer h.op.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	if !h.down {
		h.stop()
	}
	h.letGo()
}

// inbox is the listener of one gRPC server: connections come from the host.
type inbox struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newInbox() *inbox {
	return &inbox{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// deliver reports false when the inbox is closed; c is then still the caller's.
func (in *inbox) deliver(c net.Conn) bool {
	select {
	case in.conns <- c:
		return true
	case <-in.closed:
		return false
	}
}

func (in *inbox) Accept() (net.Conn, error) {
	select {
	case c := <-in.conns:
		return c, nil
	case <-in.closed:
		return nil, net.ErrClosed
	}
}

func (in *inbox) Close() error {
	in.once.Do(func() { close(in.closed) })
	return nil
}

func (in *inbox) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
