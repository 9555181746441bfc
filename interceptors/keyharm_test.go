package interceptors_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/slicewire/slicewire/interceptors"
)

// Field case IM-01: adding the key harms nobody's metadata.
func TestIM01ConcurrentCallsKeepTheirOwnMetadata(t *testing.T) {
	s := newServer(t, nil)
	c := dial(t, s.addr, interceptors.Chain(newKey(t, header).Pair())...)

	before := metadata.MD{"x-trace": {"t1", "t2"}, "x-blob-bin": {"\x00\xff"}}
	parent := metadata.NewOutgoingContext(testContext(t), before)
	parent = metadata.AppendToOutgoingContext(parent, "x-added", "a", header, "parent")
	want := outgoing(t, parent)

	const n = 100
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			ctx := interceptors.WithKeyString(parent, fmt.Sprintf("key-%d", i))
			ctx = metadata.AppendToOutgoingContext(ctx, "x-id", fmt.Sprintf("key-%d", i))
			if _, err := c.UnaryCall(ctx, &pb.SimpleRequest{}); err != nil {
				t.Errorf("unary: %v", err)
			}
			if _, err := output(ctx, c); err != nil {
				t.Errorf("stream: %v", err)
			}
			if err := duplex(ctx, c); err != nil {
				t.Errorf("duplex: %v", err)
			}
		})
	}
	wg.Wait()

	perKey := make(map[string]int)
	for _, md := range s.seen() {
		if got := md.Get(header); len(got) != 1 || !cmp.Equal(got, md.Get("x-id")) {
			t.Fatalf("server saw keys %q for the call with id %q, want that one alone", got, md.Get("x-id"))
		}
		perKey[md.Get(header)[0]]++
		for name, values := range map[string][]string{"x-trace": {"t1", "t2"}, "x-blob-bin": {"\x00\xff"}, "x-added": {"a"}} {
			if diff := cmp.Diff(values, md.Get(name)); diff != "" {
				t.Fatalf("metadata %q (-want +got):\n%s", name, diff)
			}
		}
	}
	for i := range n {
		if got := perKey[fmt.Sprintf("key-%d", i)]; got != 3 {
			t.Errorf("key %d reached the server in %d calls, want 3", i, got)
		}
	}
	if diff := cmp.Diff(want, outgoing(t, parent)); diff != "" {
		t.Errorf("parent changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(metadata.MD{"x-trace": {"t1", "t2"}, "x-blob-bin": {"\x00\xff"}}, before); diff != "" {
		t.Errorf("caller's map changed (-want +got):\n%s", diff)
	}
}

// Field case TE-10: nobody asks a new stream for its context, and an abandoned
// one leaves nothing behind (goleak in TestMain).
func TestTE10StreamIsLeftAlone(t *testing.T) {
	s := newServer(t, nil)
	chain := interceptors.Chain(newKey(t, header).Pair(), interceptors.Logging(discardLogger()), interceptors.Retry(), interceptors.Timeout(time.Second))
	watch := grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := streamer(ctx, desc, cc, method, opts...)
		return contextWatch{stream, t}, err
	})
	c := dial(t, s.addr, append(chain, watch)...)
	ctx, cancel := context.WithCancel(interceptors.WithKeyString(testContext(t), "k"))
	for range 20 {
		if _, err := c.FullDuplexCall(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
}

type contextWatch struct {
	grpc.ClientStream
	t *testing.T
}

func (w contextWatch) Context() context.Context {
	w.t.Error("Context was called on a new stream")
	return w.ClientStream.Context()
}
