package sdktest

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
)

// Connections counts TCP connections as their listener sees them.
type Connections struct {
	Accepted int // since the start, over all ports and restarts
	Live     int // open now
	Strays   int // of Accepted: came to a port that a Move had left behind
}

// connSet holds the live connections of something that listens.
type connSet struct {
	mu      sync.Mutex // guards what follows
	changed signal
	count   Connections
	live    map[*trackedConn]struct{}
	refused bool
}

// add takes raw in, or closes it and returns nil while the set refuses.
func (s *connSet) add(raw net.Conn, stray bool) net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused {
		_ = raw.Close()
		return nil
	}
	c := &trackedConn{Conn: raw, set: s}
	if s.live == nil {
		s.live = make(map[*trackedConn]struct{})
	}
	s.live[c] = struct{}{}
	s.count.Accepted++
	s.count.Live++
	if stray {
		s.count.Strays++
	}
	s.changed.raise()
	return c
}

func (s *connSet) remove(c *trackedConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.live[c]; ok {
		delete(s.live, c)
		s.count.Live--
		s.changed.raise()
	}
}

// cut closes every live connection.
func (s *connSet) cut() {
	s.mu.Lock()
	conns := make([]*trackedConn, 0, len(s.live))
	for c := range s.live {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// refuse(true) cuts every connection and each one added later.
func (s *connSet) refuse(on bool) {
	s.mu.Lock()
	s.refused = on
	s.mu.Unlock()
	if on {
		s.cut()
	}
}

func (s *connSet) counts() Connections {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

func (s *connSet) wait(ctx context.Context, what string, done func(Connections) bool) error {
	return s.changed.await(ctx, &s.mu, func() bool { return done(s.count) }, what,
		func() string { return fmt.Sprintf("%d accepted, %d live", s.count.Accepted, s.count.Live) })
}

// trackedConn leaves its set when it is closed.
type trackedConn struct {
	net.Conn
	set  *connSet
	once sync.Once
	err  error
}

func (c *trackedConn) Close() error {
	c.once.Do(func() {
		c.err = c.Conn.Close()
		c.set.remove(c)
	})
	return c.err
}

// swallow reads c to its end and says nothing, so that a peer that gives up is
// seen to leave.
func swallow(c net.Conn) {
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
}
