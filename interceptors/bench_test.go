package interceptors_test

import (
	"context"
	"testing"

	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/slicewire/slicewire/interceptors"
)

func outgoingCases(t testing.TB) map[string]func() error {
	plain := newKey(t, header)
	field := newKey(t, header, interceptors.KeyFrom(interceptors.FieldKey("payload.body")))
	typed := interceptors.WithKeyString(context.Background(), "key-1")
	busy := metadata.AppendToOutgoingContext(typed, "authorization", "b", "x-trace", "t", "x-a", "a", "x-b", "b")
	hand := metadata.AppendToOutgoingContext(context.Background(), header, "key-1", "x-trace", "t")
	req := &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte("key-1")}}
	resolved, err := plain.Outgoing(typed, unaryMethod, req)
	if err != nil {
		t.Fatal(err)
	}
	call := func(k *interceptors.Key, ctx context.Context) func() error {
		return func() error { _, err := k.Outgoing(ctx, unaryMethod, req); return err }
	}
	return map[string]func() error{
		"typed":              call(plain, typed),
		"typed+metadata":     call(plain, busy),
		"by hand":            call(plain, hand),
		"field":              call(field, context.Background()),
		"resolved before":    call(plain, resolved),
		"source after typed": call(field, typed),
	}
}

func BenchmarkOutgoing(b *testing.B) {
	for name, f := range outgoingCases(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Row A-04: the cost of a key, held here so that it does not creep up.
func TestA04OutgoingAllocations(t *testing.T) {
	want := map[string]float64{"typed": 6, "typed+metadata": 6, "field": 7}
	for name, f := range outgoingCases(t) {
		limit, ok := want[name]
		if !ok {
			continue
		}
		if got := testing.AllocsPerRun(200, func() { _ = f() }); got > limit {
			t.Errorf("%s: %v allocations, want at most %v", name, got, limit)
		}
	}
}
