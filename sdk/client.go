package sdk

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/configsource"
	"github.com/slicewire/slicewire/telemetry"
	"github.com/slicewire/slicewire/telemetry/debug"
)

// ErrClosed is what everything returns on a closed Client. As a gRPC status it
// is CANCELED.
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string { return "slicewire: the client is closed" }

func (e closedError) GRPCStatus() *status.Status { return status.New(codes.Canceled, e.Error()) }

// Client is one channel that sends every RPC to the server that owns its key, at
// the best address that is available. It is a grpc.ClientConnInterface. All methods
// may be called concurrently.
type Client struct {
	logger  *slog.Logger
	unknown unknownGroups

	// table is loaded by calls, and stored under mu; nil once the Client is closed.
	// seen is the same and stays, for who only looks, and so is onLeave, the pools that
	// are leaving.
	table    atomic.Pointer[table]
	seen     atomic.Pointer[table]
	onLeave  atomic.Pointer[[]*pool]
	driver   *driver
	configs  configStatus
	monitor  atomic.Pointer[monitor] // nil without
	shown    *telemetry.Registration // nil where nothing is shown
	declared declared
	events   debug.Events // for DebugHandler

	mu      sync.Mutex // guards the fields below, and makes changes of the topology one by one
	plan    *plan
	pools   map[poolKey]*pool     // of the table
	leaving map[poolKey]*departed // out of the table, with RPCs in flight
	off     map[string]string     // targets that an operator took out, with the reason
	judged  bool                  // a monitor has been told of the targets
	closed  bool

	// What code says, and what is configured on top of it.
	target    string // of Dial
	options   []Option
	base      Topology
	config    configsource.Config // in force
	running   *running
	revisions uint64 // of the settings that channels are dialled with

	// alive ends when the Client closes, and with it what waits in background for
	// pools to be left.
	alive       context.Context
	end         context.CancelFunc
	background  sync.WaitGroup
	closeOnce   sync.Once
	patience    context.Context // of Close and Shutdown with RPCs in flight
	endPatience context.CancelFunc
	cut         bool // written in closeOnce: RPCs were still in flight
}

var _ grpc.ClientConnInterface = (*Client)(nil)

// Invoke sends a unary RPC to the server that owns the call's key. Generated
// stubs call it.
func (c *Client) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	r, p, err := c.enter(ctx, method, opts)
	if err != nil {
		return err
	}
	defer p.calls.leave()
	err = p.invoke(ctx, r, method, args, reply, opts)
	if err != nil {
		c.driver.awaitState(ctx, p, err)
	}
	c.driver.ended(p, err)
	return err
}

// NewStream opens a stream to the server that owns the call's key; it stays
// there until it ends, also when the key's slice moves or another target becomes
// its group's current one. Generated stubs call it. As with any gRPC stream, read
// it to its end or cancel ctx.
func (c *Client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	r, p, err := c.enter(ctx, method, opts)
	if err != nil {
		return nil, err
	}
	return p.newStream(ctx, r, desc, method, opts, func(err error) {
		c.driver.ended(p, err)
		p.calls.leave()
	})
}

// WaitReady connects to the name resolver of the default group's current target,
// then waits until RPCs can be routed there, and says how: by an assignment, or in
// fallback because there is none. It follows the group to another target. The
// error wraps ctx's, or is ErrClosed, and says what is missing.
func (c *Client) WaitReady(ctx context.Context) (balancer.Readiness, error) {
	for {
		t := c.table.Load()
		if t == nil {
			return balancer.Readiness{}, ErrClosed
		}
		p := t.fallback.group.current.Load()
		within, over := context.WithCancel(ctx)
		watched := make(chan struct{})
		go func() { // ends with within
			defer close(watched)
			c.whenMoved(within, p, over)
		}()
		var ready balancer.Readiness
		err := p.whileAwake(within, func(ctx context.Context) (err error) {
			ready, err = p.router.WaitReady(ctx)
			return err
		})
		moved := within.Err() != nil && ctx.Err() == nil
		over()
		<-watched
		if err == nil || !moved && !errors.Is(err, balancer.ErrClosed) {
			return ready, p.told(err)
		}
	}
}

// whenMoved calls then when p is not where the default group's RPCs go, unless ctx
// ends before.
func (c *Client) whenMoved(ctx context.Context, p *pool, then func()) {
	for {
		changed := c.driver.change()
		if t := c.table.Load(); t == nil || t.fallback.group.current.Load() != p {
			then()
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Close refuses new RPCs, waits for those in flight (WithDrainTimeout), and ends
// everything the client started. Later calls wait for the first and return nil.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.seen.Load().settings.drainTimeout)
	defer cancel()
	_ = c.close(ctx) // what Shutdown reports, the caller left to the timeout
	return nil
}

// Shutdown is Close with ctx in place of the drain timeout, also for a Close that
// is waiting. It returns ctx's error if RPCs were still in flight; everything is
// closed all the same.
func (c *Client) Shutdown(ctx context.Context) error { return c.close(ctx) }

func (c *Client) close(ctx context.Context) error {
	// The least patient caller decides for all.
	defer context.AfterFunc(ctx, c.endPatience)()
	c.closeOnce.Do(func() {
		c.mu.Lock()
		c.closed = true
		c.table.Store(nil)
		pools := slices.Collect(maps.Values(c.pools))
		for _, p := range pools {
			c.driver.unwatch(p)
			p.calls.seal()
		}
		for key, d := range c.leaving {
			d.back()
			pools = append(pools, d.pool)
			delete(c.leaving, key)
		}
		c.tellLeaving()
		c.mu.Unlock()
		c.driver.close()
		c.end()
		c.background.Wait()
		for _, p := range pools {
			c.cut = p.calls.wait(c.patience) != nil || c.cut
		}
		c.endPatience()
		for _, p := range pools {
			c.driver.closePool(p)
		}
		c.running.closeBut(&running{})
		c.shown.Close()
	})
	if c.cut {
		return ctx.Err()
	}
	return nil
}
