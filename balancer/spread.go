package balancer

import (
	"fmt"
	"math/rand/v2"
	"time"

	lb "google.golang.org/grpc/balancer"
)

// spread picks one of an endpoint's READY connections: the one with the fewest RPCs
// in flight (row G-32). It is immutable.
type spread struct {
	endpoint *endpoint
	policy   *policy
	ready    []*readyConn
	// full is how many RPCs in flight fill a connection, 0 if nothing follows from
	// that.
	full int64
	// room says that one more connection may be opened, until how long those that are
	// on their way are waited for.
	room  bool
	until time.Time
}

// fewConns is up to how many connections all are compared; of more of them, two
// that are drawn. So a pick costs the same for any number.
const fewConns = 4

// errFull says that an endpoint is READY and its connections are full, and that
// another one is on its way.
var errFull = fmt.Errorf("the connections are full: %w", lb.ErrNoSubConnAvailable)

// Pick reserves a place on the connection that it returns. Who does not send the
// pick gives it back: see endpoint.send.
func (s *spread) Pick(lb.PickInfo) (lb.PickResult, error) {
	c := s.least()
	if n := c.conn.active.Add(1); s.full == 0 || n <= s.full {
		return lb.PickResult{SubConn: c}, nil
	}
	c.conn.release()
	if c = s.free(); c == nil {
		if s.waits() {
			return lb.PickResult{}, errFull
		}
		c = s.least()
		c.conn.active.Add(1)
	}
	return lb.PickResult{SubConn: c}, nil
}

// least is the connection with the fewest RPCs; which one of equals is left to
// chance, so that ties spread (field case SP-03).
func (s *spread) least() *readyConn {
	n := len(s.ready)
	if n == 1 {
		return s.ready[0]
	}
	at := int(rand.Uint32N(uint32(n)))
	best := s.ready[at]
	fewest := best.conn.active.Load()
	if n > fewConns {
		// Another one than the first (field case SP-04).
		if o := s.ready[(at+1+int(rand.Uint32N(uint32(n-1))))%n]; o.conn.active.Load() < fewest {
			best = o
		}
		return best
	}
	for range n - 1 {
		if at++; at == n {
			at = 0
		}
		if a := s.ready[at].conn.active.Load(); a < fewest {
			best, fewest = s.ready[at], a
		}
	}
	return best
}

// looks bounds how many connections a pick looks at when that which it chose is full.
const looks = 16

// free reserves a place on a connection that is not full, or returns nil. It looks
// at a few from a random start.
func (s *spread) free() *readyConn {
	n := len(s.ready)
	at := int(rand.Uint32N(uint32(n)))
	for range min(n, looks) {
		c := s.ready[at]
		if c.conn.active.Load() < s.full {
			if c.conn.active.Add(1) <= s.full {
				return c
			}
			c.conn.release()
		}
		if at++; at == n {
			at = 0
		}
	}
	return nil
}

// waits says whether an RPC that finds all connections full is to wait for another
// one, and asks for that if need be.
func (s *spread) waits() bool {
	if g := s.endpoint.guard.Load(); g != nil && (*g).RetryAfter() > 0 {
		return false // it is refused here, and goes to another endpoint at once
	}
	if s.room {
		s.endpoint.wish(s.policy, grow) // the policy answers by publishing anew
		return len(s.ready) <= looks    // else a place may be free after all
	}
	if s.until.IsZero() {
		return false
	}
	left := time.Until(s.until)
	if left <= 0 {
		return false
	}
	s.policy.wakeAfter(left)
	return true
}

// holds says whether a pick that comes now would find the connections full and wait.
// It asks for nothing and reserves nothing.
func (s *spread) holds() bool {
	for _, c := range s.ready {
		if s.full == 0 || c.conn.active.Load() < s.full {
			return false
		}
	}
	if s.room {
		return len(s.ready) <= looks
	}
	return !s.until.IsZero() && time.Until(s.until) > 0
}
