package interceptors_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// triedPolicy is a balancer whose picker sends a call to the first endpoint, by
// address, that the call has not tried, as the real one does. It refuses calls
// that ask for another selector than "reads".
const triedPolicy = "interceptors_test_tried"

func init() {
	balancer.Register(base.NewBalancerBuilder(triedPolicy, triedPickers{}, base.Config{}))
}

type triedPickers struct{}

func (triedPickers) Build(info base.PickerBuildInfo) balancer.Picker {
	type ready struct {
		addr string
		sc   balancer.SubConn
	}
	var all []ready
	for sc, i := range info.ReadySCs {
		all = append(all, ready{i.Address.Addr, sc})
	}
	slices.SortFunc(all, func(a, b ready) int { return cmp.Compare(a.addr, b.addr) })
	var p triedPicker
	for _, r := range all {
		p = append(p, r.sc)
	}
	return p
}

const triedEndpoints = 3

type triedPicker []balancer.SubConn

func (p triedPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	if len(p) < triedEndpoints { // so that the order is always the same
		return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
	}
	call := callinfo.From(info.Ctx)
	if call == nil || call.Selector != callinfo.Selector("reads") {
		return balancer.PickResult{}, status.Error(codes.Internal, "the picker got another selector")
	}
	for i, sc := range p {
		if id := uint32(i + 1); !call.Tried.Has(id) {
			call.Tried.Add(id)
			return balancer.PickResult{SubConn: sc}, nil
		}
	}
	return balancer.PickResult{SubConn: p[0]}, nil
}

const (
	triedConfig      = `{"loadBalancingConfig":[{"interceptors_test_tried":{}}]}`
	triedConfigRetry = `{"loadBalancingConfig":[{"interceptors_test_tried":{}}],"methodConfig":[{"name":[{}],
	"retryPolicy":{"maxAttempts":4,"initialBackoff":"0.01s","maxBackoff":"0.01s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`
)

// changing makes a pair of what happens to the context on its way in.
func changing(change func(context.Context) context.Context) interceptors.Pair {
	return interceptors.Pair{
		Unary: func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return invoker(change(ctx), method, req, reply, cc, opts...)
		},
		Stream: func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return streamer(change(ctx), desc, cc, method, opts...)
		},
	}
}

// Row S-21: three endpoints, two failing: a retry reaches the third, never the same
// twice. A second call with the same context starts from the beginning.
func TestS21RetriesAvoidWhatWasTried(t *testing.T) {
	type chain = []interceptors.Pair
	retry := interceptors.Retry(interceptors.RetryBackoff(time.Millisecond, time.Millisecond))
	field := newKey(t, header, interceptors.KeyFrom(interceptors.FuncKey(func(context.Context, string, any) (string, bool, error) { return "k", true, nil })))
	key := newKey(t, header)
	byMethod := newSelectors(t, map[string]string{"*": "reads"})
	withKey := interceptors.WithKeyString(context.Background(), "k")
	both := interceptors.WithSelector(withKey, "reads")
	byHand, err := key.Outgoing(both, unaryMethod, nil)
	if err != nil {
		t.Fatal(err)
	}
	// package sdk: the call begins outside the channel's interceptors
	begun := func(s *interceptors.Selectors, k *interceptors.Key) func(context.Context, *grpc.ClientConn, string) context.Context {
		return func(ctx context.Context, cc *grpc.ClientConn, method string) context.Context {
			ctx, err := k.Begin(s.Outgoing(ctx, method), cc, method, nil)
			if err != nil {
				t.Error(err)
			}
			return ctx
		}
	}
	wire := changing(func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "x-other", "o")
	})
	reads := changing(func(ctx context.Context) context.Context { return interceptors.WithSelector(ctx, "reads") })
	keyed := changing(func(ctx context.Context) context.Context { return interceptors.WithKeyString(ctx, "k") })

	preset, config := []string{"unary", "output"}, []string{"unary", "output", "duplex"}
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		begin  func(context.Context, *grpc.ClientConn, string) context.Context
		chain  chain
		config string
		kinds  []string
	}{
		{"preset inside the key", both, nil, chain{key.Pair(), retry}, triedConfig, preset},
		{"preset outside the key", both, nil, chain{retry, key.Pair()}, triedConfig, preset},
		{"preset outside a key that is found", interceptors.WithSelector(context.Background(), "reads"), nil, chain{retry, field.Pair()}, triedConfig, preset},
		{"preset between two keys", both, nil, chain{key.Pair(), wire, retry, key.Pair()}, triedConfig, preset},
		{"preset without a key", interceptors.WithSelector(context.Background(), "reads"), nil, chain{retry}, triedConfig, preset},
		{"preset, selectors outside", withKey, nil, chain{byMethod.Pair(), retry, key.Pair()}, triedConfig, preset},
		{"preset, selectors inside", withKey, nil, chain{retry, key.Pair(), byMethod.Pair()}, triedConfig, preset},
		{"preset, selectors between", withKey, nil, chain{key.Pair(), retry, byMethod.Pair(), key.Pair()}, triedConfig, preset},
		{"preset, context prepared by hand", byHand, nil, chain{retry}, triedConfig, preset},
		{"preset, context prepared by hand for a key", byHand, nil, chain{key.Pair(), retry}, triedConfig, preset},
		{"preset in a client", both, begun(nil, key), chain{retry}, triedConfig, preset},
		{"preset in a client, key again", both, begun(nil, key), chain{retry, key.Pair()}, triedConfig, preset},
		{"preset in a client that selects by method", withKey, begun(byMethod, key), chain{retry}, triedConfig, preset},
		{"preset inside an interceptor that selects", withKey, nil, chain{key.Pair(), reads, retry}, triedConfig, preset},
		{"service config, key", both, nil, chain{key.Pair()}, triedConfigRetry, config},
		{"service config, selectors", context.Background(), nil, chain{byMethod.Pair()}, triedConfigRetry, config},
		{"service config in a client", both, begun(nil, key), nil, triedConfigRetry, config},
		{"service config in a client, key again", both, begun(nil, key), chain{key.Pair()}, triedConfigRetry, config},
		{"service config in a client that selects by method", context.Background(), begun(byMethod, field), nil, triedConfigRetry, config},
		{"service config, an interceptor selects", withKey, nil, chain{key.Pair(), reads}, triedConfigRetry, config},
		{"service config, an interceptor selects and gives a key", context.Background(), nil, chain{retry, reads, keyed, key.Pair()}, triedConfigRetry, config},
		{"service config, context prepared by hand for a key", byHand, nil, chain{key.Pair()}, triedConfigRetry, config},
	} {
		for _, kind := range tt.kinds {
			t.Run(tt.name+"/"+kind, func(t *testing.T) {
				f := newTriedFixture(t, tt.config, tt.chain...)
				const calls = 3
				ctx, cancel := context.WithTimeout(tt.ctx, 20*time.Second)
				defer cancel()
				for range calls {
					if err := f.call(ctx, tt.begin, kind); err != nil {
						t.Fatal(err)
					}
				}
				if got, want := f.seen(), [triedEndpoints]int{calls, calls, calls}; got != want {
					t.Errorf("the servers saw %v attempts, want %v", got, want)
				}
			})
		}
	}
}

// Row S-21: calls at the same time, with one context, know nothing of each other.
func TestS21CallsShareNothing(t *testing.T) {
	key := newKey(t, header)
	retry := interceptors.Retry(interceptors.RetryBackoff(0, 0))
	ctx := interceptors.WithSelector(interceptors.WithKeyString(testContext(t), "k"), "reads")
	for name, chain := range map[string][]interceptors.Pair{
		"retry inside": {key.Pair(), retry}, "retry outside": {retry, key.Pair()}, "retry alone": {retry},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTriedFixture(t, triedConfig, chain...)
			const calls = 50
			var wg sync.WaitGroup
			for i := range calls {
				wg.Go(func() {
					if err := f.call(ctx, nil, []string{"unary", "output"}[i%2]); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if got, want := f.seen(), [triedEndpoints]int{calls, calls, calls}; got != want {
				t.Errorf("the servers saw %v attempts, want %v", got, want)
			}
		})
	}
}

// Row S-21: what has nothing remembered of it, and what is not one call's to
// remember.
func TestS21WhoseRecordItIs(t *testing.T) {
	key := newKey(t, header)
	cc, other := &grpc.ClientConn{}, &grpc.ClientConn{}
	byMethod := newSelectors(t, map[string]string{"*": "by method"})
	asked := interceptors.WithSelector(interceptors.WithKeyString(context.Background(), "k"), "reads")
	prepared, err := key.Outgoing(asked, unaryMethod, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, ctx := range map[string]context.Context{
		"WithSelector and WithKey": asked,
		"Key.Outgoing":             prepared,
		"Selectors.Outgoing":       byMethod.Outgoing(context.Background(), unaryMethod),
		"Selectors.Outgoing that changes nothing, on what a call used": byMethod.Outgoing(passing(t, asked, cc, unaryMethod, false, key.Pair()), unaryMethod),
	} {
		if callinfo.From(ctx).Tried != nil {
			t.Errorf("%s: a context that may make several calls remembers endpoints", name)
		}
	}
	begun := passing(t, interceptors.WithKeyString(context.Background(), "k"), cc, unaryMethod, false, key.Pair())
	tried := callinfo.From(begun).Tried
	for _, tt := range []struct {
		name   string
		got    context.Context
		shares bool
	}{
		{"key again", passing(t, begun, cc, unaryMethod, false, key.Pair()), true},
		{"retry", passing(t, begun, cc, unaryMethod, false, interceptors.Retry()), true},
		{"selectors", passing(t, begun, cc, unaryMethod, false, byMethod.Pair()), true},
		{"selectors and the key again", passing(t, begun, cc, unaryMethod, false, byMethod.Pair(), key.Pair()), true},
		{"an interceptor makes another call on the channel", passing(t, begun, cc, outputMethod, false, key.Pair()), false},
		{"an interceptor makes a call on another channel", passing(t, begun, other, unaryMethod, false, key.Pair()), false},
		{"that begins with retry", passing(t, begun, other, unaryMethod, false, interceptors.Retry()), false},
		{"that begins with selectors", passing(t, begun, other, unaryMethod, false, newSelectors(t, nil).Pair()), false},
		{"an interceptor spreads the call over keys", passing(t, interceptors.WithKeyString(begun, "k2"), cc, unaryMethod, false, key.Pair()), false},
		{"or over selectors", passing(t, interceptors.WithSelector(begun, "s2"), cc, unaryMethod, false, key.Pair()), false},
		{"or over keys by hand", passing(t, metadata.NewOutgoingContext(begun, metadata.Pairs(header, "k2")), cc, unaryMethod, false, key.Pair()), false},
	} {
		rec := callinfo.From(tt.got)
		if rec.Tried == nil {
			t.Errorf("%s: nothing is remembered of the call", tt.name)
		}
		if (rec.Tried == tried) != tt.shares {
			t.Errorf("%s: shares what was tried: %v", tt.name, !tt.shares)
		}
	}
	again, err := key.Begin(begun, cc, unaryMethod, nil)
	if err != nil || callinfo.From(again).Tried == tried || callinfo.From(again).Tried == nil {
		t.Errorf("Begin with a context that was used before did not begin a new call (error %v)", err)
	}
	bare := (*interceptors.Selectors)(nil).Begin(begun, cc, unaryMethod)
	if callinfo.From(bare).Tried == tried || !callinfo.From(bare).Is(cc, unaryMethod) {
		t.Errorf("Selectors.Begin with a context that was used before did not begin a new call")
	}
}

// triedFixture is a channel with triedPolicy to servers of which only the last
// does not fail.
type triedFixture struct {
	cc      *grpc.ClientConn
	servers []*server
}

func newTriedFixture(t *testing.T, config string, chain ...interceptors.Pair) *triedFixture {
	t.Helper()
	f := &triedFixture{}
	for range triedEndpoints {
		f.servers = append(f.servers, newServer(t, nil))
	}
	slices.SortFunc(f.servers, func(a, b *server) int { return cmp.Compare(a.addr, b.addr) })
	var state resolver.State
	for i, s := range f.servers {
		if i < triedEndpoints-1 {
			s.answer = func(int) error { return status.Error(codes.Unavailable, "down") }
		}
		state.Addresses = append(state.Addresses, resolver.Address{Addr: s.addr})
	}
	r := manual.NewBuilderWithScheme("tried")
	r.InitialState(state)
	f.cc = connect(t, "tried:///x", append(interceptors.Chain(chain...), grpc.WithResolvers(r), grpc.WithDefaultServiceConfig(config))...)
	return f
}

func (f *triedFixture) call(ctx context.Context, begin func(context.Context, *grpc.ClientConn, string) context.Context, kind string) error {
	c := pb.NewTestServiceClient(f.cc)
	method := map[string]string{"unary": unaryMethod, "output": outputMethod, "duplex": duplexMethod}[kind]
	if begin != nil {
		ctx = begin(ctx, f.cc, method)
	}
	switch kind {
	case "unary":
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
		return err
	case "output":
		_, err := output(ctx, c)
		return err
	case "duplex":
		return duplex(ctx, c)
	}
	return fmt.Errorf("no kind %q", kind)
}

func (f *triedFixture) seen() (attempts [triedEndpoints]int) {
	for i, s := range f.servers {
		attempts[i] = len(s.seen())
	}
	return attempts
}
