package interceptors_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/internal/callinfo"
)

const header = "x-shard-key"

func newKey(t testing.TB, header string, opts ...interceptors.KeyOption) *interceptors.Key {
	t.Helper()
	k, err := interceptors.NewKey(header, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func outgoing(t testing.TB, ctx context.Context) metadata.MD {
	t.Helper()
	md, _ := metadata.FromOutgoingContext(ctx)
	return md
}

// Row A-04: which key it is, and that the key on the wire is the one that routes.
func TestA04KeyOnTheWireIsTheKeyThatRoutes(t *testing.T) {
	byFunc := interceptors.FuncKey(func(context.Context, string, any) (string, bool, error) { return "from-func", true, nil })
	hand := func(ctx context.Context, name string, values ...string) context.Context {
		return metadata.NewOutgoingContext(ctx, metadata.MD{name: values, "x-other": {"o"}})
	}
	other := newKey(t, "x-other-key", interceptors.KeyFrom(byFunc))
	otherCall := func(ctx context.Context) context.Context {
		ctx, err := other.Outgoing(ctx, unaryMethod, nil)
		if err != nil {
			t.Fatal(err)
		}
		return ctx
	}
	for _, tt := range []struct {
		name string
		ctx  func(context.Context) context.Context
		opts []interceptors.KeyOption
		want string
		code codes.Code
	}{
		{name: "typed", ctx: func(ctx context.Context) context.Context { return interceptors.WithKeyString(ctx, "k") }, want: "k"},
		{name: "typed wins over header and source", ctx: func(ctx context.Context) context.Context {
			return interceptors.WithKeyString(hand(ctx, header, "by hand"), "k")
		}, opts: []interceptors.KeyOption{interceptors.KeyFrom(byFunc)}, want: "k"},
		{name: "typed replaces several by hand in any case", ctx: func(ctx context.Context) context.Context {
			return interceptors.WithKeyString(hand(ctx, "X-Shard-KEY", "a", "b"), "k")
		}, want: "k"},
		{name: "latest typed", ctx: func(ctx context.Context) context.Context {
			return interceptors.WithKeyString(interceptors.WithKeyString(ctx, "old"), "k")
		}, want: "k"},
		{name: "header by hand wins over source", ctx: func(ctx context.Context) context.Context { return hand(ctx, header, "by hand") }, opts: []interceptors.KeyOption{interceptors.KeyFrom(byFunc)}, want: "by hand"},
		{name: "header by hand in any case", ctx: func(ctx context.Context) context.Context { return hand(ctx, "X-Shard-KEY", "by hand") }, want: "by hand"},
		{name: "two by hand", ctx: func(ctx context.Context) context.Context { return hand(ctx, header, "a", "b") }, opts: []interceptors.KeyOption{interceptors.KeyFrom(byFunc)}, code: codes.InvalidArgument},
		{name: "one by hand behind another in any case", ctx: func(ctx context.Context) context.Context {
			return metadata.AppendToOutgoingContext(hand(ctx, "X-Shard-KEY", "a"), header, "a")
		}, code: codes.InvalidArgument},
		{name: "source", ctx: func(ctx context.Context) context.Context { return ctx }, opts: []interceptors.KeyOption{interceptors.KeyFrom(byFunc)}, want: "from-func"},
		{name: "a record for another header is no key", ctx: otherCall, code: codes.InvalidArgument},
		{name: "header named without a value", ctx: func(ctx context.Context) context.Context { return hand(ctx, header) }, code: codes.InvalidArgument},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newKey(t, "X-Shard-Key", tt.opts...)
			parent := tt.ctx(context.Background())
			before := outgoing(t, parent)
			ctx, err := k.Outgoing(parent, unaryMethod, &pb.SimpleRequest{})
			if diff := cmp.Diff(before, outgoing(t, parent)); diff != "" {
				t.Errorf("parent changed:\n%s", diff)
			}
			if status.Code(err) != tt.code {
				t.Fatalf("error %v, want code %v", err, tt.code)
			}
			if err != nil {
				if !strings.Contains(err.Error(), header) || !strings.Contains(err.Error(), unaryMethod) {
					t.Errorf("error %q does not name header and method", err)
				}
				return
			}
			assertKey(t, ctx, tt.want)
			for name, values := range before {
				if name != header && !cmp.Equal(values, outgoing(t, ctx)[name]) {
					t.Errorf("metadata %q is %q, was %q", name, outgoing(t, ctx)[name], values)
				}
			}
		})
	}
}

func assertKey(t *testing.T, ctx context.Context, want string) {
	t.Helper()
	rec := callinfo.From(ctx)
	if rec == nil || !rec.HasKey || rec.Key != want || rec.Header != header {
		t.Errorf("record %+v, want key %q for header %q", rec, want, header)
	}
	if got := outgoing(t, ctx)[header]; !cmp.Equal(got, []string{want}) {
		t.Errorf("wire has %q, want %q alone", got, want)
	}
}

// Row A-04: an interceptor inside a client that has resolved the key leaves it and its record alone.
func TestA04ResolvingTwiceChangesNothing(t *testing.T) {
	calls := 0
	counting := interceptors.FuncKey(func(context.Context, string, any) (string, bool, error) {
		calls++
		return "k", true, nil
	})
	for _, tt := range []struct {
		name string
		key  *interceptors.Key
		ctx  context.Context
	}{
		{"typed", newKey(t, header), interceptors.WithKeyString(context.Background(), "k")},
		{"by hand", newKey(t, header), metadata.AppendToOutgoingContext(context.Background(), header, "k")},
		{"source", newKey(t, header, interceptors.KeyFrom(counting)), context.Background()},
		{"none", newKey(t, header, interceptors.KeyOptional()), context.Background()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first, err := tt.key.Begin(tt.ctx, nil, unaryMethod, nil)
			if err != nil {
				t.Fatal(err)
			}
			joined := inner(t, tt.key, first)
			if joined != first {
				t.Errorf("the interceptor made a new context for a call already resolved")
			}
			again, err := tt.key.Outgoing(first, unaryMethod, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(outgoing(t, first), outgoing(t, again)); diff != "" {
				t.Errorf("second Outgoing changed the metadata:\n%s", diff)
			}
			if callinfo.From(again) == callinfo.From(first) {
				t.Errorf("two calls share one record, so one would report the other's waiting")
			}
			if callinfo.From(again).Key != callinfo.From(first).Key {
				t.Errorf("second Outgoing changed the key")
			}
		})
	}
}

// inner runs the unary interceptor and returns the context that it passes on.
func inner(t *testing.T, k *interceptors.Key, ctx context.Context) (passed context.Context) {
	t.Helper()
	err := k.Unary()(ctx, unaryMethod, &pb.SimpleRequest{}, &pb.SimpleResponse{}, nil,
		func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			passed = ctx
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return passed
}

// Row A-04: a context that one call has resolved and another one uses again.
func TestA04ReusedContextAsksAgain(t *testing.T) {
	k := newKey(t, header, interceptors.KeyFrom(interceptors.FieldKey("payload.body")), interceptors.KeyOptional())
	request := func(key string) *pb.SimpleRequest {
		return &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(key)}}
	}
	first, err := k.Outgoing(context.Background(), unaryMethod, request("one"))
	if err != nil {
		t.Fatal(err)
	}
	assertKey(t, first, "one")

	t.Run("another request's key", func(t *testing.T) {
		ctx, err := k.Outgoing(first, unaryMethod, request("two"))
		if err != nil {
			t.Fatal(err)
		}
		assertKey(t, ctx, "two")
	})
	t.Run("another request without key", func(t *testing.T) {
		ctx, err := k.Outgoing(first, unaryMethod, &pb.SimpleRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if got, rec := outgoing(t, ctx)[header], callinfo.From(ctx); got != nil || rec.HasKey {
			t.Errorf("the first request's key went along: wire %q, record has key: %v", got, rec.HasKey)
		}
	})
	t.Run("a header put by hand since", func(t *testing.T) {
		ctx, err := k.Outgoing(metadata.NewOutgoingContext(first, metadata.Pairs(header, "hand")), unaryMethod, request("two"))
		if err != nil {
			t.Fatal(err)
		}
		assertKey(t, ctx, "hand")
	})
	t.Run("metadata replaced since", func(t *testing.T) {
		typed, err := k.Outgoing(interceptors.WithKeyString(context.Background(), "typed"), unaryMethod, request("two"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, err := k.Outgoing(metadata.NewOutgoingContext(typed, nil), unaryMethod, request("two"))
		if err != nil {
			t.Fatal(err)
		}
		assertKey(t, ctx, "typed")
	})
	t.Run("typed since", func(t *testing.T) {
		ctx, err := k.Outgoing(interceptors.WithKeyString(first, "typed"), unaryMethod, request("two"))
		if err != nil {
			t.Fatal(err)
		}
		assertKey(t, ctx, "typed")
	})
}

// Field case IM-05: an inbound key is not an outbound key.
func TestIM05InboundKeyStaysInbound(t *testing.T) {
	inbound := metadata.MD{header: {"inbound"}, "authorization": {"secret"}, "x-user": {"u"}}
	for _, tt := range []struct {
		name    string
		inbound metadata.MD
		opts    []interceptors.KeyOption
		want    []string
		code    codes.Code
	}{
		{name: "not by default", inbound: inbound, code: codes.InvalidArgument},
		{name: "not when optional", inbound: inbound, opts: []interceptors.KeyOption{interceptors.KeyOptional()}},
		{name: "forwarded when asked for", inbound: inbound, opts: []interceptors.KeyOption{interceptors.ForwardInboundKey()}, want: []string{"inbound"}},
		{name: "nothing to forward", opts: []interceptors.KeyOption{interceptors.ForwardInboundKey()}, code: codes.InvalidArgument},
		{name: "two to forward", inbound: metadata.MD{header: {"a", "b"}}, opts: []interceptors.KeyOption{interceptors.ForwardInboundKey()}, code: codes.InvalidArgument},
		{name: "sources first", inbound: inbound, opts: []interceptors.KeyOption{
			interceptors.ForwardInboundKey(),
			interceptors.KeyFrom(interceptors.FuncKey(func(context.Context, string, any) (string, bool, error) { return "own", true, nil })),
		}, want: []string{"own"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			back := newServer(t, nil)
			k := newKey(t, header, tt.opts...)
			c := dial(t, back.addr, interceptors.Chain(k.Pair())...)
			// A real handler's context, so that whatever grpc puts in it is there.
			var handlerErr error
			front := newServer(t, nil)
			front.onCall = func(ctx context.Context) {
				_, handlerErr = c.UnaryCall(ctx, &pb.SimpleRequest{})
			}
			if _, err := dial(t, front.addr).UnaryCall(metadata.NewOutgoingContext(testContext(t), tt.inbound), &pb.SimpleRequest{}); err != nil {
				t.Fatal(err)
			}
			if status.Code(handlerErr) != tt.code {
				t.Fatalf("call out of the handler: %v, want %v", handlerErr, tt.code)
			}
			for _, md := range back.seen() {
				if !cmp.Equal(md[header], tt.want) {
					t.Errorf("the next server saw keys %q, want %q", md[header], tt.want)
				}
				for _, name := range []string{"authorization", "x-user"} {
					if _, ok := md[name]; ok {
						t.Errorf("inbound header %q leaked out", name)
					}
				}
			}
		})
	}
}

// Field case PF-10: a present but empty key is a key; a 10 KB key travels.
func TestPF10EmptyAndLongKeysAreKeys(t *testing.T) {
	long := strings.Repeat("k", 10<<10)
	for _, tt := range []struct {
		name string
		ctx  func(context.Context) context.Context
		want string
	}{
		{"typed empty", func(ctx context.Context) context.Context { return interceptors.WithKeyString(ctx, "") }, ""},
		{"nil bytes", func(ctx context.Context) context.Context { return interceptors.WithKey(ctx, nil) }, ""},
		{"header by hand empty", func(ctx context.Context) context.Context { return metadata.AppendToOutgoingContext(ctx, header, "") }, ""},
		{"long", func(ctx context.Context) context.Context { return interceptors.WithKeyString(ctx, long) }, long},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, nil)
			c := dial(t, s.addr, interceptors.Chain(newKey(t, header).Pair())...)
			if _, err := c.UnaryCall(tt.ctx(testContext(t)), &pb.SimpleRequest{}); err != nil {
				t.Fatal(err)
			}
			if got := s.seen()[0][header]; !cmp.Equal(got, []string{tt.want}) {
				t.Errorf("server saw %d values", len(got))
			}
		})
	}
}

// Field case LL-07: arguments are not ours to change, nor theirs to change afterwards.
func TestLL07ArgumentsAreCopied(t *testing.T) {
	key := []byte("before")
	ctx := interceptors.WithKey(context.Background(), key)
	copy(key, "XXXXXX")

	says := func(s string) interceptors.KeySource {
		return interceptors.FuncKey(func(context.Context, string, any) (string, bool, error) { return s, true, nil })
	}
	sources := []interceptors.KeySource{says("first")}
	patterns := []string{unaryMethod}
	byMethod := map[string]interceptors.KeySource{unaryMethod: says("by method")}
	methods := interceptors.MethodKeys(byMethod)
	opts := []interceptors.KeyOption{interceptors.KeyFrom(sources...), interceptors.KeyOptionalFor(patterns...)}
	one := newKey(t, header, opts...)
	sources[0], patterns[0] = says("changed"), "malformed"
	two := newKey(t, header, opts...)
	opts[0] = nil
	delete(byMethod, unaryMethod)
	three := newKey(t, header, interceptors.KeyFrom(methods))

	for name, tt := range map[string]struct {
		k    *interceptors.Key
		ctx  context.Context
		want string
	}{
		"bytes":              {one, ctx, "before"},
		"options, first":     {one, context.Background(), "first"},
		"options, second":    {two, context.Background(), "first"},
		"map of methods":     {three, context.Background(), "by method"},
		"nil option is none": {newKey(t, header, nil), ctx, "before"},
	} {
		got, err := tt.k.Outgoing(tt.ctx, unaryMethod, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if rec := callinfo.From(got); rec.Key != tt.want {
			t.Errorf("%s: key %q, want %q", name, rec.Key, tt.want)
		}
	}
}
