package sdktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Gate forwards TCP connections to an address and can fail as a network does:
// stall, lose bytes, cut. It fits between a client and anything that listens.
type Gate struct {
	relay relay

	mu      sync.Mutex // guards what follows
	changed signal
	target  string
	paused  bool
	lossy   bool
	closed  bool
}

// StartGate starts a gate in front of the target address.
func StartGate(target string) (*Gate, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("sdktest: cannot listen: %w", err)
	}
	g := &Gate{target: target}
	g.relay.start(l, g.serve)
	return g, nil
}

// Addr is the address to dial.
func (g *Gate) Addr() string { return g.relay.listener.Addr().String() }

// Connections counts the connections to the gate.
func (g *Gate) Connections() Connections { return g.relay.in.counts() }

// WaitConnections waits until n connections have been accepted in all.
func (g *Gate) WaitConnections(ctx context.Context, n int) error {
	return g.relay.in.wait(ctx, fmt.Sprintf("%d connections to the gate", n),
		func(c Connections) bool { return c.Accepted >= n })
}

// Redirect sends new connections to another address.
func (g *Gate) Redirect(target string) { g.set(func() { g.target = target }) }

// Pause stalls every byte in both directions until Resume. Connections, new ones
// too, stay open.
func (g *Gate) Pause() { g.set(func() { g.paused = true }) }

// Resume delivers what a Pause has kept back.
func (g *Gate) Resume() { g.set(func() { g.paused = false }) }

// BlackHole loses every byte in both directions. Connections, new ones too, stay
// open until Heal.
func (g *Gate) BlackHole() { g.set(func() { g.paused, g.lossy = false, true }) }

// Cut closes the connections there are. New ones are welcome.
func (g *Gate) Cut() { g.relay.cut() }

// Heal ends Pause and BlackHole. Connections that may have lost bytes are cut.
func (g *Gate) Heal() {
	lossy := false
	g.set(func() {
		lossy = g.lossy
		g.paused, g.lossy = false, false
	})
	if lossy {
		g.Cut()
	}
}

// Close cuts every connection, closes the port, and waits.
func (g *Gate) Close() {
	g.set(func() { g.closed = true })
	g.relay.close()
}

func (g *Gate) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
	g.changed.raise()
}

func (g *Gate) serve(client net.Conn) {
	g.mu.Lock()
	target := g.target
	g.mu.Unlock()
	server, err := g.relay.dial(target)
	if err != nil {
		return
	}
	g.relay.join(client, server, g.pass)
}

// errGateClosed ends a copy that a pause had stalled.
var errGateClosed = errors.New("sdktest: the gate is closed")

// pass waits while the gate is paused and says whether bytes get through. It
// also returns when the connection they came from has ended.
func (g *Gate) pass(ended <-chan struct{}) (bool, error) {
	for {
		g.mu.Lock()
		paused, lossy, closed := g.paused, g.lossy, g.closed
		changed := g.changed.next()
		g.mu.Unlock()
		switch {
		case closed:
			return false, errGateClosed
		case !paused:
			return !lossy, nil
		}
		select {
		case <-changed:
		case <-ended:
			return false, net.ErrClosed
		}
	}
}
