package sdk

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// ErrClosed is what everything returns on a closed Client. As a gRPC status it
// is CANCELED.
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string { return "slicewire: the client is closed" }

func (e closedError) GRPCStatus() *status.Status { return status.New(codes.Canceled, e.Error()) }

// Client is one channel that sends every RPC to the server that owns its key.
// It is a grpc.ClientConnInterface. All methods may be called concurrently.
type Client struct {
	cc     *grpc.ClientConn
	router *balancer.Router
	joint  *joint

	selectors  *interceptors.Selectors
	keyOptions []interceptors.KeyOption
	codeKeys   *keys                // from WithSharding; nil without
	keys       atomic.Pointer[keys] // for the header of the config in force

	drainTimeout time.Duration
	inFlight     *inFlight
	closeOnce    sync.Once
	patience     context.Context // of Close and Shutdown with RPCs in flight
	endPatience  context.CancelFunc
	cut          bool // written in closeOnce: RPCs were still in flight
}

var _ grpc.ClientConnInterface = (*Client)(nil)

// Invoke sends a unary RPC to the server that owns the call's key. Generated
// stubs call it.
func (c *Client) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if !c.inFlight.enter() {
		return ErrClosed
	}
	defer c.inFlight.leave()
	ctx, err := c.outgoing(ctx, method, args, opts)
	if err != nil {
		return err
	}
	if err := c.cc.Invoke(ctx, method, args, reply, opts...); err != nil {
		return c.explain(ctx, err)
	}
	return nil
}

// NewStream opens a stream to the server that owns the call's key; it stays
// there until it ends, also when the key's slice moves. Generated stubs call it.
// As with any gRPC stream, read it to its end or cancel ctx.
func (c *Client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if !c.inFlight.enter() {
		return nil, ErrClosed
	}
	leave := sync.OnceFunc(c.inFlight.leave)
	begun := false
	defer func() { // also when a key source or an interceptor panics
		if !begun {
			leave()
		}
	}()
	ctx, err := c.outgoing(ctx, method, nil, opts)
	if err != nil {
		return nil, err
	}
	opts = append(opts[:len(opts):len(opts)], grpc.OnFinish(func(error) { leave() }))
	stream, err := c.cc.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	begun = true
	return stream, nil
}

// outgoing chooses the call's selector, and puts its key in the context and on
// the wire.
func (c *Client) outgoing(ctx context.Context, method string, req any, opts []grpc.CallOption) (context.Context, error) {
	ctx = c.selectors.Outgoing(ctx, method)
	keys, err := c.keysInForce(ctx, opts)
	switch {
	case errors.Is(err, ErrClosed):
		return nil, err
	case err == nil && keys == nil: // no header carries keys
		return c.selectors.Begin(ctx, c.cc, method), nil
	case err == nil:
		ctx, err = keys.of(c.router.PolicyOf(ctx)).Begin(ctx, c.cc, method, req)
	}
	if err == nil {
		return ctx, nil
	}
	// Whoever calls several targets has to see which one it was. The code, the
	// details and the cause stay.
	p := status.Convert(err).Proto()
	p.Message = aboutTarget(c.joint.target, p.Message)
	return nil, &callError{status.FromProto(p), err}
}

// keysInForce follows the header of the LB config. A first call waits for that,
// as gRPC makes it wait for the name resolver: the config may name a header other
// than WithSharding's. It returns nil where there is no header.
func (c *Client) keysInForce(ctx context.Context, opts []grpc.CallOption) (*keys, error) {
	config := c.router.Config()
	if config == nil {
		err := c.whileAwake(ctx, func(ctx context.Context) (err error) {
			config, err = c.router.WaitConfig(ctx, failsFast(opts))
			return err
		})
		switch {
		case err == nil:
		case errors.Is(err, balancer.ErrClosed):
			return nil, ErrClosed
		case ctx.Err() != nil:
			return nil, &callError{status.New(status.FromContextError(ctx.Err()).Code(), err.Error()), err}
		case c.codeKeys != nil:
			return c.codeKeys, nil // gRPC says what it makes of the resolver's error
		default:
			return nil, &callError{status.New(codes.Unavailable, err.Error()), err}
		}
	}
	header := config.KeyHeader
	if header == "" {
		return nil, nil
	}
	if k := c.keys.Load(); k != nil && k.header == header {
		return k, nil
	}
	k := c.codeKeys
	if k == nil || k.header != header {
		var err error
		if k, err = newKeys(header, c.keyOptions); err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
	}
	c.keys.Store(k)
	return k, nil
}

// failsFast says whether a call is to fail when it cannot be routed. That is
// gRPC's default.
func failsFast(opts []grpc.CallOption) bool {
	fast := true
	for _, o := range opts {
		if f, ok := o.(grpc.FailFastCallOption); ok {
			fast = f.FailFast
		}
	}
	return fast
}

// whileAwake waits with the channel connected to the name resolver. gRPC does
// not know of the wait, and may put the channel to sleep in the middle of it.
func (c *Client) whileAwake(ctx context.Context, wait func(context.Context) error) error {
	for {
		c.cc.Connect() // does nothing unless the channel is idle
		again, cancel := context.WithTimeout(ctx, time.Second)
		err := wait(again)
		over := err == nil || again.Err() == nil || ctx.Err() != nil
		cancel()
		if over {
			return err
		}
	}
}

// callError is the status of a call that keeps its cause.
type callError struct {
	status *status.Status
	cause  error
}

func (e *callError) Error() string              { return e.status.Err().Error() }
func (e *callError) GRPCStatus() *status.Status { return e.status }
func (e *callError) Unwrap() error              { return e.cause }

// explain adds to the error of a call that ended while its pick was queued what
// it was waiting for, and what is known of that. The code stays.
func (c *Client) explain(ctx context.Context, err error) error {
	call := callinfo.From(ctx)
	if call == nil {
		return err
	}
	wait := call.Waiting.Load()
	if wait == nil {
		return err
	}
	st, ok := status.FromError(err)
	if !ok || (st.Code() != codes.DeadlineExceeded && st.Code() != codes.Canceled) {
		return err
	}
	text := "the call was waiting for " + wait.Text
	if detail := c.router.WaitDetail(wait.DelayType); detail != "" {
		text += " " + detail
	}
	p := st.Proto()
	p.Message += "; " + aboutTarget(c.joint.target, text)
	return &callError{status.FromProto(p), err}
}

// WaitReady connects to the name resolver, then waits until RPCs can be routed,
// and says how: by an assignment, or in fallback because there is none. The
// error wraps ctx's, or is ErrClosed, and says what is missing.
func (c *Client) WaitReady(ctx context.Context) (balancer.Readiness, error) {
	if c.inFlight.isClosed() {
		return balancer.Readiness{}, ErrClosed
	}
	var ready balancer.Readiness
	err := c.whileAwake(ctx, func(ctx context.Context) (err error) {
		ready, err = c.router.WaitReady(ctx)
		return err
	})
	switch {
	case errors.Is(err, balancer.ErrClosed):
		err = ErrClosed
	case err != nil:
		err = c.joint.about(err)
	}
	return ready, err
}

// Status returns a snapshot of endpoints, their states, and the assignment. It
// works after Close as well.
func (c *Client) Status() balancer.Status { return c.router.Status() }

// Close refuses new RPCs, waits for those in flight (WithDrainTimeout), and ends
// everything the client started. Later calls wait for the first and return nil.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.drainTimeout)
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
		c.cut = c.inFlight.drain(c.patience) != nil
		c.endPatience()
		_ = c.cc.Close() // its only error is that it was closed before
		c.router.Close()
	})
	if c.cut {
		return ctx.Err()
	}
	return nil
}
