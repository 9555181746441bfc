package interceptors_test

import (
	"context"
	"strings"
	"testing"

	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// Whatever key, header and metadata it gets, Outgoing does not panic, and its
// context has exactly one value of the header, which is the key that routes, or
// it fails with an error that tells nothing of the key.
func FuzzOutgoing(f *testing.F) {
	f.Add("x-shard-key", "key-1", "x-other", "o", uint8(0))
	f.Add("X-Key-Bin", "\x00\xff", "X-KEY-bin", "by hand", uint8(1))
	f.Add("x-shard-key", "", "x-shard-key", "", uint8(2))
	f.Add("x-shard-key", " space", "X-Shard-Key", "twice", uint8(3))
	f.Add("grpc-key", "k", "", "\n", uint8(4))
	f.Fuzz(func(t *testing.T, name, key, otherName, otherValue string, how uint8) {
		field := interceptors.KeyFrom(interceptors.FieldKey("payload.body"))
		k, err := interceptors.NewKey(name, field, interceptors.ForwardInboundKey())
		if err != nil {
			return
		}
		ctx := metadata.NewOutgoingContext(context.Background(), metadata.MD{otherName: {otherValue}})
		ctx = metadata.AppendToOutgoingContext(ctx, "x-kept", "kept")
		var req *pb.SimpleRequest
		switch how % 5 {
		case 0:
			ctx = interceptors.WithKeyString(ctx, key)
		case 1:
			ctx = interceptors.WithKey(ctx, []byte(key))
		case 2:
			ctx = metadata.AppendToOutgoingContext(ctx, name, key)
		case 3:
			req = &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(key)}}
		case 4:
			ctx = metadata.NewIncomingContext(ctx, metadata.MD{name: {key}})
		}
		before, _ := metadata.FromOutgoingContext(ctx)
		first, err := k.Outgoing(ctx, unaryMethod, req)
		if after, _ := metadata.FromOutgoingContext(ctx); len(before) != len(after) || len(before[k.Header()]) != len(after[k.Header()]) {
			t.Fatalf("the parent's metadata changed")
		}
		if err != nil {
			// The texts hold the names of header, method and field; a key that is
			// part of those proves nothing.
			known := k.Header() + unaryMethod + errorText(k)
			if len(key) > 3 && !strings.Contains(known, key) && strings.Contains(err.Error(), key) {
				t.Fatalf("error %q holds the key %q", err, key)
			}
			return
		}
		second, err := k.Outgoing(first, unaryMethod, req)
		if err != nil {
			t.Fatalf("a second Outgoing failed: %v", err)
		}
		for _, ctx := range []context.Context{first, second} {
			rec := callinfo.From(ctx)
			onWire := metadata.ValueFromOutgoingContext(ctx, k.Header())
			if rec == nil || !rec.HasKey || rec.Header != k.Header() || len(onWire) != 1 || onWire[0] != rec.Key {
				t.Fatalf("record %+v, wire %q; want one value, the same", rec, onWire)
			}
			if how%5 < 2 && rec.Key != key {
				t.Fatalf("key %q, want %q", rec.Key, key)
			}
			// "\u212a" and the like equal the name by folding, not by lower case.
			md, _ := metadata.FromOutgoingContext(ctx)
			if len(md["x-kept"]) == 0 || md["x-kept"][len(md["x-kept"])-1] != "kept" {
				t.Fatalf("other metadata was lost: %q", md)
			}
		}
	})
}

// errorText is what Outgoing says with no key in play.
func errorText(k *interceptors.Key) string {
	var text strings.Builder
	for _, ctx := range []context.Context{
		context.Background(),
		interceptors.WithKeyString(context.Background(), "\x00"),
		interceptors.WithKeyString(context.Background(), " "),
		metadata.AppendToOutgoingContext(context.Background(), k.Header(), "", k.Header(), ""),
	} {
		for _, req := range []any{nil, &pb.SimpleRequest{}} {
			if _, err := k.Outgoing(ctx, unaryMethod, req); err != nil {
				text.WriteString(err.Error())
			}
		}
	}
	return text.String()
}
