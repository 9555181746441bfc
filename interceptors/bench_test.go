package interceptors_test

import (
	"context"
	"strconv"
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

func selectorCases(t testing.TB) map[string]func() {
	bare := context.Background()
	asked := interceptors.WithSelector(bare, "reads") // holds the name, as a channel that declares it does
	s := newSelectors(t, map[string]string{unaryMethod: "reads"})
	var unheld int
	return map[string]func(){
		"WithSelector":                    func() { interceptors.WithSelector(bare, "reads") },
		"WithSelector default":            func() { interceptors.WithSelector(bare, "") },
		"WithSelector, a name nobody has": func() { unheld++; interceptors.WithSelector(bare, strconv.Itoa(unheld)) },
		"Outgoing by method":              func() { s.Outgoing(bare, unaryMethod) },
		"Outgoing asked for":              func() { s.Outgoing(asked, unaryMethod) },
		"Outgoing other method":           func() { s.Outgoing(bare, duplexMethod) },
		"Begin by method":                 func() { s.Begin(bare, nil, unaryMethod) },
		"Begin other method":              func() { s.Begin(bare, nil, duplexMethod) },
	}
}

func BenchmarkSelector(b *testing.B) {
	for name, f := range selectorCases(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}

// What a selector costs: a record and its context where one has to be made, no
// more. The key's are made all the same.
func TestSelectorAllocations(t *testing.T) {
	cases := selectorCases(t)
	for name, want := range map[string]float64{
		"WithSelector": 2, "WithSelector default": 2,
		"Outgoing by method": 2, "Outgoing asked for": 0, "Outgoing other method": 0,
		"Begin by method": 2, "Begin other method": 2,
	} {
		if got := testing.AllocsPerRun(200, cases[name]); got != want {
			t.Errorf("%s: %v allocations, want %v", name, got, want)
		}
	}
}
