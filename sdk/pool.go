package sdk

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/internal/callinfo"
	"github.com/slicewire/slicewire/telemetry"
)

// poolKey tells pools apart: each unique address and dial profile has one, however
// many groups list it (seed 003).
type poolKey struct {
	name    string // of the target; two targets have no URI and profile in common
	uri     string // with its scheme written out
	profile string
	// revision tells apart what was dialled with other settings, of those that a channel
	// cannot change.
	revision uint64
}

// id is unlike any other pool's of the table, and begins with the target's name.
func (k poolKey) id() string {
	return strings.Join([]string{k.name, k.uri, k.profile, strconv.FormatUint(k.revision, 10)}, idSeparator)
}

// pool is one target with the channel to it, the Router behind that, and the RPCs
// in flight.
type pool struct {
	poolKey
	id     string // unlike any other pool's of the table
	cc     *grpc.ClientConn
	router *balancer.Router
	joint  *joint
	calls  *calls

	// alive ends with close, and with it what runs in background.
	alive      context.Context
	end        context.CancelFunc
	background sync.WaitGroup
	// watching ends the goroutine that watches the channel's state, nil without one.
	// The Client's mu guards it.
	watching context.CancelFunc

	keys     atomic.Pointer[keyRules]
	settings atomic.Pointer[settings] // in force: stored under the Client's mu
	stream   assignment.Options       // that it was dialled with

	verdicts verdicts

	shown  *telemetry.Registration // nil where nothing is shown
	delays *telemetry.Delays       // nil where nobody looks
}

// dialPool makes the channel to a target. It does no I/O.
func dialPool(m *member, logger *slog.Logger, shown *telemetry.Registration) (*pool, error) {
	key, s := m.key, m.settings
	full, builder, err := splitTarget(m.target, s.resolvers)
	j := &joint{target: key.name}
	own, ownErr := j.ownOptions(s)
	if err := errors.Join(err, ownErr); err != nil {
		return nil, err
	}
	p := &pool{poolKey: key, id: key.id(), joint: j, stream: s.router.Assignment, calls: newCalls()}
	p.settings.Store(s)
	j.provider = func(key string) (grpc.ClientConnInterface, func(), error) {
		return p.settings.Load().channelProvider()(key)
	}
	p.alive, p.end = context.WithCancel(context.Background())
	if err := p.setKeys(s); err != nil {
		return nil, err
	}
	options := m.router()
	options.Logger = logger.With("target", j.target)
	before, after := p.measuredBy(shown)
	options.Observer = shown.Observer(key.name)
	p.router = balancer.NewRouter(options)
	j.router = p.router
	if err := s.declareSelectors(p.router); err != nil {
		p.router.Close()
		return nil, err
	}
	// gRPC takes the first resolver of a scheme, so ours goes first. Endpoints have
	// to be resolved here, even behind a proxy: the proxy could only be told one
	// name for all of them.
	all := []grpc.DialOption{grpc.WithResolvers(j.wrap(builder)), grpc.WithLocalDNSResolution()}
	if s.grouped {
		// A channel that goes to sleep would leave a standby target cold.
		all = append(all, grpc.WithIdleTimeout(0))
	}
	if p.cc, err = grpc.NewClient(full, slices.Concat(all, before, own, after)...); err != nil {
		p.router.Close()
		return nil, err
	}
	p.delays.SetTarget(p.cc.CanonicalTarget())
	return p, nil
}

// setKeys says how calls get their key.
func (p *pool) setKeys(s *settings) error {
	rules := &keyRules{options: s.key}
	if header := s.keyHeader(); header != "" {
		var err error
		if rules.own, err = newKeys(header, s.key); err != nil {
			return err
		}
	}
	p.keys.Store(rules)
	return nil
}

// reconfigure puts in force what of s a channel that is there can follow. The
// caller holds the Client's mu.
func (p *pool) reconfigure(m *member, logger *slog.Logger) {
	_ = p.router.SetOptions(m.router()) // plan has checked them
	s, before := m.settings, p.settings.Load()
	if before == s {
		return
	}
	p.settings.Store(s)
	_ = p.setKeys(s) // plan has checked the header
	s.publishSelectors(p.router, before, logger)
	if own, was := s.ownConfig(), p.joint.own.Load(); !reflect.DeepEqual(own.policy, was.policy) || own.service != was.service {
		p.joint.configure(own)
	}
}

// invoke sends a unary RPC; the caller has entered calls.
func (p *pool) invoke(ctx context.Context, r *route, method string, args, reply any, opts []grpc.CallOption) error {
	ctx, err := p.outgoing(ctx, r, method, args, opts)
	if err != nil {
		return err
	}
	if err = p.cc.Invoke(ctx, method, args, reply, opts...); err != nil {
		p.unresolved(ctx, method)
		err = p.explain(ctx, err)
	}
	return err
}

// newStream opens a stream; ended is called once, with its error, when it is over,
// also when it does not begin.
func (p *pool) newStream(ctx context.Context, r *route, desc *grpc.StreamDesc, method string, opts []grpc.CallOption, ended func(error)) (grpc.ClientStream, error) {
	var once sync.Once
	end := func(err error) { once.Do(func() { ended(err) }) }
	begun := false
	defer func() { // when a key source or an interceptor panics
		if !begun {
			end(nil)
		}
	}()
	ctx, err := p.outgoing(ctx, r, method, nil, opts)
	if err != nil {
		end(err)
		return nil, err
	}
	stream, err := p.cc.NewStream(ctx, desc, method, append(opts[:len(opts):len(opts)], grpc.OnFinish(end))...)
	if err != nil {
		p.unresolved(ctx, method)
		end(err)
		return nil, p.explain(ctx, err)
	}
	begun = true
	return stream, nil
}

// outgoing chooses the call's selector, and puts its key in the context and on
// the wire.
func (p *pool) outgoing(ctx context.Context, r *route, method string, req any, opts []grpc.CallOption) (context.Context, error) {
	asked := r.selectors.Outgoing(ctx, method)
	begin, inside := p.resolving()
	keys, err := p.keysInForce(asked, opts)
	if !inside && !begin.IsZero() {
		p.delays.Resolving(asked, method, begin, time.Now())
	}
	switch {
	case errors.Is(err, ErrClosed):
		return nil, err
	case err == nil && keys == nil: // no header carries keys
		ctx = r.selectors.Begin(asked, p.cc, method)
	case err == nil:
		ctx, err = keys.of(p.router.PolicyOf(asked)).Begin(asked, p.cc, method, req)
	}
	if err == nil {
		p.keyed(ctx)
		if inside {
			callinfo.Resolves(ctx, begin)
		}
		return ctx, nil
	}
	p.keyless(asked, err)
	// Whoever calls several targets has to see which one it was. The code, the
	// details and the cause stay.
	st := status.Convert(err).Proto()
	st.Message = aboutTarget(p.joint.target, st.Message)
	return nil, &callError{status.FromProto(st), err}
}

// keysInForce follows the header of the LB config. A first call waits for that,
// as gRPC makes it wait for the name resolver: the config may name a header other
// than WithSharding's. It returns nil where there is no header.
func (p *pool) keysInForce(ctx context.Context, opts []grpc.CallOption) (*keys, error) {
	config := p.router.Config()
	if config == nil {
		err := p.whileAwake(ctx, func(ctx context.Context) (err error) {
			config, err = p.router.WaitConfig(ctx, failsFast(opts))
			return err
		})
		switch {
		case err == nil:
		case errors.Is(err, balancer.ErrClosed):
			return nil, ErrClosed
		case ctx.Err() != nil:
			return nil, &callError{status.New(status.FromContextError(ctx.Err()).Code(), err.Error()), err}
		case p.keys.Load().own != nil:
			return p.keys.Load().own, nil // gRPC says what it makes of the resolver's error
		default:
			return nil, &callError{status.New(codes.Unavailable, err.Error()), err}
		}
	}
	header := config.KeyHeader
	if header == "" {
		return nil, nil
	}
	k, err := p.keys.Load().of(header)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
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
func (p *pool) whileAwake(ctx context.Context, wait func(context.Context) error) error {
	for {
		p.cc.Connect() // does nothing unless the channel is idle
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
func (p *pool) explain(ctx context.Context, err error) error {
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
	if detail := p.router.WaitDetail(wait.DelayType); detail != "" {
		text += " " + detail
	}
	pb := st.Proto()
	pb.Message += "; " + aboutTarget(p.joint.target, text)
	return &callError{status.FromProto(pb), err}
}

// close ends the channel and everything behind it. RPCs in flight end with
// CANCELED.
func (p *pool) close() {
	p.end()
	_ = p.cc.Close() // its only error is that it was closed before
	p.router.Close()
	p.background.Wait()
}
