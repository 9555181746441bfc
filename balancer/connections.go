package balancer

import (
	"errors"
	"fmt"
	"time"
)

// Connections says how many connections a channel keeps, and for how long each
// (rows G-30 to G-42). The zero value is one connection for each endpoint that
// RPCs want, kept for as long as it holds.
type Connections struct {
	// Min is how many connections an endpoint has that is in use, which it is from
	// its first connection until it has lost the last one. Default 1.
	Min int
	// Max bounds the connections of one endpoint that take new RPCs; while one is
	// replaced or drains there may be more. Default: Min. At most 1000.
	Max int
	// Streams is how many RPCs in flight fill a connection, default 100. When all
	// READY connections of an endpoint have as many and there are fewer than Max, one
	// more is opened. RPCs above the mark wait for it, for a second at most, and then
	// share the connections that there are: it is a mark and not a limit.
	//
	// A server's own limit (MAX_CONCURRENT_STREAMS, often 100) cannot be seen from
	// here: gRPC holds RPCs above it back inside the connection. Set Streams to that
	// limit or below.
	Streams int
	// ScaleDownAfter is how long the load has to fit on fewer connections until those
	// too many are drained: they get no new RPC and are closed when empty. Default
	// 3 min. If the load returns while they drain they are used again.
	ScaleDownAfter time.Duration
	// MaxAge replaces a connection that is so old, give or take 10%, so that clients
	// spread anew over what is behind an L4 load balancer. The new one is READY before
	// the old one drains, and of an endpoint one is replaced at a time. At least 100
	// ms and at most 10 years. Default 0: never.
	MaxAge time.Duration
	// MinReady is how many endpoints of the channel are kept connected without any
	// RPC, the first ones in the resolver's order that can be, so that a standby is
	// warm. Default 0: connections are made when an RPC wants one (A119). A channel
	// that gRPC has put in idle mode has none until it leaves that.
	MinReady int
	// Unresponsive replaces connections that have gone silent.
	Unresponsive Unresponsive
}

// Unresponsive says when a connection that looks READY is held for dead: the
// server, or something on the way, no longer answers. A fresh one is made and
// takes the new RPCs once it is READY; what runs on the old one is not cancelled.
type Unresponsive struct {
	// Deadlines is how many RPCs have to run into their deadline without a byte from
	// the server, all begun after the connection's last response. Default 0: off.
	Deadlines int
	// Window is how long ago that response has to be, default 10 s, at most 1 h. It
	// doubles with each connection in a row that is replaced so, up to 16 times, and
	// is itself again after a response. Messages on a stream that goes on are no
	// response; that an RPC ends which has received something is one.
	Window time.Duration
}

const (
	defaultStreams        = 100
	defaultScaleDownAfter = 3 * time.Minute
	defaultWindow         = 10 * time.Second
	maxConnections        = 1000
	minAge                = 100 * time.Millisecond
	maxAge                = 10 * 365 * 24 * time.Hour
	maxWindow             = time.Hour
	windowGrowth          = 16
)

// Validate reports everything that is wrong with c.
func (c Connections) Validate() error {
	var problems []error
	fault := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for _, f := range []struct {
		name  string
		n     int
		means string
	}{
		{"Min", c.Min, "1"},
		{"Max", c.Max, "Min"},
		{"Streams", c.Streams, fmt.Sprint(defaultStreams)},
		{"MinReady", c.MinReady, "none without traffic"},
		{"Unresponsive.Deadlines", c.Unresponsive.Deadlines, "off"},
	} {
		if f.n < 0 {
			fault("%s is %d; it must be 1 or more, or 0 for the default (%s)", f.name, f.n, f.means)
		}
	}
	for _, f := range []struct {
		name  string
		d     time.Duration
		means string
	}{
		{"ScaleDownAfter", c.ScaleDownAfter, defaultScaleDownAfter.String()},
		{"MaxAge", c.MaxAge, "never"},
		{"Unresponsive.Window", c.Unresponsive.Window, defaultWindow.String()},
	} {
		if f.d < 0 {
			fault("%s is %v; it must be above 0, or 0 for the default (%s)", f.name, f.d, f.means)
		}
	}
	if c.Max > 0 && c.Max < c.Min {
		fault("Max is %d and Min %d; Max must not be below Min", c.Max, c.Min)
	}
	if most := max(c.Min, c.Max); most > maxConnections {
		fault("%d connections for an endpoint are too many; at most %d are allowed", most, maxConnections)
	}
	if a := c.MaxAge; a > 0 && a < minAge {
		fault("MaxAge is %v; at least %v is allowed", a, minAge)
	}
	if a := c.MaxAge; a > maxAge { // more of it would not hold 10% more
		fault("MaxAge is %v; at most %v is allowed, and 0 is never", a, maxAge)
	}
	if w := c.Unresponsive.Window; w > maxWindow {
		fault("Unresponsive.Window is %v; at most %v is allowed", w, maxWindow)
	}
	return errors.Join(problems...)
}

// filled is c with its defaults.
func (c Connections) filled() *Connections {
	c.Min = max(1, c.Min)
	c.Max = max(c.Min, c.Max)
	if c.Streams == 0 {
		c.Streams = defaultStreams
	}
	if c.ScaleDownAfter == 0 {
		c.ScaleDownAfter = defaultScaleDownAfter
	}
	if c.Unresponsive.Window == 0 {
		c.Unresponsive.Window = defaultWindow
	}
	return &c
}

var oneConnection = Connections{}.filled()

// counted says whether RPCs are counted by connection. With one connection that is
// never replaced nobody asks, and picks are spared it.
func (c *Connections) counted() bool {
	return c.Max > 1 || c.MaxAge > 0 || c.Unresponsive.Deadlines > 0
}

// SetConnections replaces the settings while RPCs run; no RPC is dropped for it
// (row G-41). Connections are opened and drained as they then ask for. The error
// lists everything that is wrong with c, and then nothing has changed, or is
// ErrClosed.
func (r *Router) SetConnections(c Connections) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("slicewire: the settings of connections: %w", err)
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	next, before := c.filled(), r.connections.Load()
	if before != nil && *next == *before {
		r.mu.Unlock()
		return nil
	}
	r.connections.Store(next)
	routes := r.allRoutes()
	r.mu.Unlock()
	for _, rt := range routes {
		rt.post(func(in *inbox) { in.connections = true })
	}
	return nil
}

// Connections returns the settings in force, defaults filled in.
func (r *Router) Connections() Connections { return *r.limits() }

func (r *Router) limits() *Connections {
	if c := r.connections.Load(); c != nil {
		return c
	}
	return oneConnection
}

// limits are the settings for p, which are the Router's once it has one.
func (p *policy) limits() *Connections {
	if p.route == nil {
		return oneConnection
	}
	return p.route.router.limits()
}

// applyConnections puts the newest settings in force on all endpoints. Those that
// have left get no new connection and keep theirs.
func (p *policy) applyConnections() {
	limits := p.limits()
	for _, ep := range p.view.endpoints {
		ep.pool.setLimits(limits)
		ep.wish(p, tick)
	}
}
