package interceptors_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/internal/callinfo"
)

func newSelectors(t testing.TB, byPattern map[string]string) *interceptors.Selectors {
	t.Helper()
	s, err := interceptors.NewSelectors(byPattern)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// selectorOf names the selector that a context asks for; "" is the default.
func selectorOf(ctx context.Context) string {
	rec := callinfo.From(ctx)
	if rec == nil || rec.Selector == callinfo.Selector("") {
		return ""
	}
	return rec.Selector.Value()
}

// passing runs one call through pairs, outermost first, and returns the context
// that reaches the channel.
func passing(t testing.TB, ctx context.Context, cc *grpc.ClientConn, method string, stream bool, pairs ...interceptors.Pair) (passed context.Context) {
	t.Helper()
	unary := func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		passed = ctx
		return nil
	}
	streamer := func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
		passed = ctx
		return nil, nil
	}
	for i := len(pairs) - 1; i >= 0; i-- {
		p, nextUnary, nextStream := pairs[i], unary, streamer
		unary = func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
			return p.Unary(ctx, method, req, reply, cc, nextUnary, opts...)
		}
		streamer = func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return p.Stream(ctx, desc, cc, method, nextStream, opts...)
		}
	}
	var err error
	if stream {
		_, err = streamer(ctx, &grpc.StreamDesc{ClientStreams: true}, cc, method)
	} else {
		err = unary(ctx, method, &pb.SimpleRequest{}, &pb.SimpleResponse{}, cc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return passed
}

func TestWithSelectorGoesWithWithKey(t *testing.T) {
	const key, name = "k", "reads"
	withKey := func(ctx context.Context) context.Context { return interceptors.WithKey(ctx, []byte(key)) }
	withKeyString := func(ctx context.Context) context.Context { return interceptors.WithKeyString(ctx, key) }
	selects := func(name string) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context { return interceptors.WithSelector(ctx, name) }
	}
	type steps = []func(context.Context) context.Context
	k := newKey(t, header)
	cc := &grpc.ClientConn{}
	for _, tt := range []struct {
		name  string
		steps steps
		want  string
	}{
		{"selector first", steps{selects(name), withKey}, name},
		{"key first", steps{withKey, selects(name)}, name},
		{"key as a string, selector first", steps{selects(name), withKeyString}, name},
		{"key as a string, key first", steps{withKeyString, selects(name)}, name},
		{"the last one counts", steps{selects("old"), withKey, selects(name)}, name},
		{"back to the default", steps{selects(name), withKey, selects("")}, ""},
		{"back to the default by its name", steps{selects(name), withKey, selects("default")}, ""},
		{"never asked", steps{withKey}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parent := context.Background()
			ctx := parent
			for _, step := range tt.steps {
				before, asked := ctx, selectorOf(ctx)
				ctx = step(ctx)
				if selectorOf(before) != asked {
					t.Errorf("the caller's context changed from %q to %q", asked, selectorOf(before))
				}
			}
			if rec := callinfo.From(ctx); rec.Key != key || rec.Header != "" {
				t.Errorf("record %+v, want key %q on no wire yet", rec, key)
			}
			outgoing, err := k.Outgoing(ctx, unaryMethod, nil)
			if err != nil {
				t.Fatal(err)
			}
			begun, err := k.Begin(ctx, cc, unaryMethod, nil)
			if err != nil {
				t.Fatal(err)
			}
			again, err := k.Begin(begun, cc, unaryMethod, nil)
			if err != nil {
				t.Fatal(err)
			}
			seen := make(map[*callinfo.Call]string)
			for name, got := range map[string]context.Context{
				"asked":                 ctx,
				"Outgoing":              outgoing,
				"Begin":                 begun,
				"Begin on Begin":        again,
				"Unary":                 passing(t, ctx, cc, unaryMethod, false, k.Pair()),
				"Stream":                passing(t, ctx, cc, duplexMethod, true, k.Pair()),
				"Unary a second time":   passing(t, ctx, cc, unaryMethod, false, k.Pair()),
				"Retry outside, Unary":  passing(t, ctx, cc, unaryMethod, false, interceptors.Retry(), k.Pair()),
				"Retry inside, Stream":  passing(t, ctx, cc, duplexMethod, true, k.Pair(), interceptors.Retry()),
				"Unary on Outgoing":     passing(t, outgoing, cc, unaryMethod, false, k.Pair()),
				"Unary on another call": passing(t, begun, cc, outputMethod, false, k.Pair()),
			} {
				if selectorOf(got) != tt.want {
					t.Errorf("%s: selector %q, want %q", name, selectorOf(got), tt.want)
				}
				if other, shared := seen[callinfo.From(got)]; shared {
					t.Errorf("%s and %s share one record", name, other)
				}
				seen[callinfo.From(got)] = name
			}
		})
	}
}

func TestSelectorsByMethod(t *testing.T) {
	table := newSelectors(t, map[string]string{
		"*":                             "all",
		"/grpc.testing.TestService/*":   "reads",
		unaryMethod:                     "writes",
		"/grpc.testing.Admin/*":         "default",
		"/grpc.testing.Other/UnaryCall": "",
	})
	some := newSelectors(t, map[string]string{unaryMethod: "writes"})
	bare := context.Background()
	cc := &grpc.ClientConn{}
	for _, tt := range []struct {
		name   string
		s      *interceptors.Selectors
		ctx    context.Context
		method string
		want   string
	}{
		{"the method", table, bare, unaryMethod, "writes"},
		{"its service", table, bare, duplexMethod, "reads"},
		{"any other", table, bare, "/x.Y/Z", "all"},
		{"back to the default by its name", table, bare, "/grpc.testing.Admin/Drop", ""},
		{"back to the default by no name", table, bare, "/grpc.testing.Other/UnaryCall", ""},
		{"no pattern names it", some, bare, duplexMethod, ""},
		{"a name in the context wins", table, interceptors.WithSelector(bare, "mine"), unaryMethod, "mine"},
		{"also the default's", table, interceptors.WithSelector(bare, ""), unaryMethod, ""},
		{"also where a key was asked since", table, interceptors.WithKeyString(interceptors.WithSelector(bare, "default"), "k"), unaryMethod, ""},
		{"a key alone does not", table, interceptors.WithKeyString(bare, "k"), unaryMethod, "writes"},
		{"what another method chose is forgotten", table, table.Outgoing(bare, unaryMethod), duplexMethod, "reads"},
		{"and where no pattern names this one", some, some.Outgoing(bare, unaryMethod), duplexMethod, ""},
		{"what another call's method chose", some, passing(t, bare, cc, unaryMethod, false, some.Pair()), duplexMethod, ""},
		{"nil", nil, bare, unaryMethod, ""},
		{"nil, asked", nil, interceptors.WithSelector(bare, "mine"), unaryMethod, "mine"},
		{"nil, another's choice", nil, table.Outgoing(bare, unaryMethod), unaryMethod, ""},
		{"zero value", &interceptors.Selectors{}, bare, unaryMethod, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := selectorOf(tt.ctx)
			for name, got := range map[string]context.Context{
				"Outgoing": tt.s.Outgoing(tt.ctx, tt.method),
				"Begin":    tt.s.Begin(tt.ctx, cc, tt.method),
				"Unary":    passing(t, tt.ctx, cc, tt.method, false, tt.s.Pair()),
				"Stream":   passing(t, tt.ctx, cc, tt.method, true, tt.s.Pair()),
				"twice":    passing(t, tt.ctx, cc, tt.method, true, tt.s.Pair(), tt.s.Pair()),
			} {
				if selectorOf(got) != tt.want {
					t.Errorf("%s: selector %q, want %q", name, selectorOf(got), tt.want)
				}
				rec := callinfo.From(got)
				if want := name != "Outgoing"; rec.Is(cc, tt.method) != want {
					t.Errorf("%s: the record is this one call's: %v", name, !want)
				}
				if was := callinfo.From(tt.ctx); was != nil && rec != nil && (rec.Key != was.Key || rec.HasKey != was.HasKey) {
					t.Errorf("%s: key %q, was %q", name, rec.Key, was.Key)
				}
			}
			if selectorOf(tt.ctx) != before {
				t.Errorf("the caller's context changed")
			}
		})
	}
}

// Two Selectors on one call: the inner one's patterns win where they name the
// method, and what the caller asked for wins over both.
func TestSelectorsInsideAnother(t *testing.T) {
	cc := &grpc.ClientConn{}
	outer := newSelectors(t, map[string]string{"*": "outer"})
	inner := newSelectors(t, map[string]string{unaryMethod: "inner"})
	k := newKey(t, header, interceptors.KeyOptional())
	for _, between := range [][]interceptors.Pair{nil, {k.Pair()}, {interceptors.Retry()}, {k.Pair(), interceptors.Retry()}} {
		chain := append(append([]interceptors.Pair{outer.Pair()}, between...), inner.Pair(), k.Pair())
		for want, ctx := range map[string]context.Context{
			"inner": passing(t, context.Background(), cc, unaryMethod, false, chain...),
			"outer": passing(t, context.Background(), cc, outputMethod, false, chain...),
			"mine":  passing(t, interceptors.WithSelector(context.Background(), "mine"), cc, unaryMethod, false, chain...),
		} {
			if got := selectorOf(ctx); got != want {
				t.Errorf("%d between: selector %q, want %q", len(between), got, want)
			}
		}
	}
}

func TestNewSelectorsErrors(t *testing.T) {
	_, err := interceptors.NewSelectors(map[string]string{
		unaryMethod: "fine", "UnaryCall": "a", "/p.S/M*": "b", "*": "", "": "c",
	})
	if err == nil {
		t.Fatal("malformed patterns were taken")
	}
	for _, want := range []string{"interceptors.NewSelectors", `"UnaryCall"`, `"/p.S/M*"`, `pattern ""`, "allowed are"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %s", err, want)
		}
	}
	if strings.Contains(err.Error(), unaryMethod) {
		t.Errorf("error %q names a good pattern", err)
	}
}

// Field case LL-07: the map is the caller's to change afterwards.
func TestLL07SelectorsCopyTheirMap(t *testing.T) {
	byPattern := map[string]string{unaryMethod: "reads"}
	s := newSelectors(t, byPattern)
	byPattern[unaryMethod] = "changed"
	if got := selectorOf(s.Outgoing(context.Background(), unaryMethod)); got != "reads" {
		t.Errorf("selector %q, want the one given", got)
	}
}

// Nothing of a selector is sent.
func TestSelectorIsNotOnTheWire(t *testing.T) {
	s := newServer(t, nil)
	plain := dial(t, s.addr)
	chosen := dial(t, s.addr, interceptors.Chain(newSelectors(t, map[string]string{"*": "reads"}).Pair())...)
	for _, call := range []func(pb.TestServiceClient) error{
		func(c pb.TestServiceClient) error {
			_, err := c.UnaryCall(testContext(t), &pb.SimpleRequest{})
			return err
		},
		func(c pb.TestServiceClient) error { return duplex(testContext(t), c) },
	} {
		for _, c := range []pb.TestServiceClient{plain, chosen} {
			if err := call(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	seen := s.seen()
	for i := 0; i < len(seen); i += 2 {
		if diff := cmp.Diff(seen[i], seen[i+1]); diff != "" {
			t.Errorf("metadata without and with a selector:\n%s", diff)
		}
	}
}
