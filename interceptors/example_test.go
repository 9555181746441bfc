package interceptors_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/interceptors"
)

// show prints the key that a call would carry.
func show(k *interceptors.Key, ctx context.Context, method string, req any) {
	ctx, err := k.Outgoing(ctx, method, req)
	if err != nil {
		fmt.Println(status.Code(err))
		return
	}
	fmt.Printf("%s: %q\n", k.Header(), metadata.ValueFromOutgoingContext(ctx, k.Header()))
}

// The key of one call, from whoever makes it.
func ExampleWithKeyString() {
	key, err := interceptors.NewKey("x-shard-key")
	if err != nil {
		log.Fatal(err)
	}
	ctx := interceptors.WithKeyString(context.Background(), "tenant-42")
	show(key, ctx, "/shop.Orders/Get", nil)
	// Output: x-shard-key: ["tenant-42"]
}

// Keys with any bytes need a header whose name ends in "-bin".
func ExampleWithKey() {
	ctx := interceptors.WithKey(context.Background(), []byte{0x00, 0xff})
	for _, header := range []string{"x-shard-key-bin", "x-shard-key"} {
		key, err := interceptors.NewKey(header)
		if err != nil {
			log.Fatal(err)
		}
		show(key, ctx, "/shop.Orders/Get", nil)
	}
	// Output:
	// x-shard-key-bin: ["\x00\xff"]
	// InvalidArgument
}

// A channel of plain gRPC whose calls all need a key.
func ExampleNewKey() {
	key, err := interceptors.NewKey("x-shard-key", interceptors.KeyFrom(interceptors.FieldKey("payload.body")))
	if err != nil {
		log.Fatal(err)
	}
	cc, err := grpc.NewClient("localhost:1",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(key.Unary()),
		grpc.WithChainStreamInterceptor(key.Stream()))
	if err != nil {
		log.Fatal(err)
	}
	defer cc.Close() //nolint:errcheck // ends the example

	_, err = pb.NewTestServiceClient(cc).UnaryCall(context.Background(), &pb.SimpleRequest{})
	fmt.Println(status.Code(err), errors.Is(err, interceptors.ErrMissingKey))
	// Output: InvalidArgument true
}

// The key is a field of the request, inside another message.
func ExampleFieldKey() {
	key, err := interceptors.NewKey("x-shard-key", interceptors.KeyFrom(interceptors.FieldKey("payload.body")))
	if err != nil {
		log.Fatal(err)
	}
	req := &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte("tenant-42")}}
	show(key, context.Background(), "/shop.Orders/Get", req)
	// Output: x-shard-key: ["tenant-42"]
}

// A key that is composed and hashed, so that the header does not tell who it is.
func ExampleFuncKey() {
	hashed := interceptors.FuncKey(func(_ context.Context, _ string, req any) (string, bool, error) {
		r, ok := req.(*pb.SimpleRequest)
		if !ok {
			return "", false, nil
		}
		sum := sha256.Sum256(append(r.GetPayload().GetBody(), byte(r.GetResponseSize())))
		return string(sum[:4]), true, nil
	})
	key, err := interceptors.NewKey("x-shard-key-bin", interceptors.KeyFrom(hashed))
	if err != nil {
		log.Fatal(err)
	}
	req := &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte("tenant")}, ResponseSize: 42}
	show(key, context.Background(), "/shop.Orders/Get", req)
	// Output: x-shard-key-bin: ["B\x00g\xa2"]
}

// Where the key lies depends on the method.
func ExampleMethodKeys() {
	global := interceptors.FuncKey(func(context.Context, string, any) (string, bool, error) { return "global", true, nil })
	key, err := interceptors.NewKey("x-shard-key",
		interceptors.KeyFrom(interceptors.MethodKeys(map[string]interceptors.KeySource{
			"/shop.Orders/*":      interceptors.FieldKey("payload.body"),
			"/shop.Orders/Totals": global,
		})),
		interceptors.KeyOptionalFor("/grpc.health.v1.Health/*"))
	if err != nil {
		log.Fatal(err)
	}
	req := &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte("tenant-42")}}
	show(key, context.Background(), "/shop.Orders/Get", req)
	show(key, context.Background(), "/shop.Orders/Totals", req)
	show(key, context.Background(), "/grpc.health.v1.Health/Check", req)
	show(key, context.Background(), "/shop.Stock/Get", req)
	// Output:
	// x-shard-key: ["tenant-42"]
	// x-shard-key: ["global"]
	// x-shard-key: []
	// InvalidArgument
}

// A server that passes the key of the request it serves on to the next one.
func ExampleForwardInboundKey() {
	handlerCtx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("x-shard-key", "tenant-42"))
	for _, opts := range [][]interceptors.KeyOption{nil, {interceptors.ForwardInboundKey()}} {
		key, err := interceptors.NewKey("x-shard-key", opts...)
		if err != nil {
			log.Fatal(err)
		}
		show(key, handlerCtx, "/shop.Orders/Get", nil)
	}
	// Output:
	// InvalidArgument
	// x-shard-key: ["tenant-42"]
}

// showSelector prints the selector that a call would ask for.
func showSelector(ctx context.Context, s *interceptors.Selectors, method string) {
	name := selectorOf(s.Outgoing(ctx, method))
	fmt.Printf("%s: %s\n", method, cmp.Or(name, "the default"))
}

// One call that is to be routed by the selector "hedged", with its key.
func ExampleWithSelector() {
	ctx := interceptors.WithKeyString(context.Background(), "tenant-42")
	ctx = interceptors.WithSelector(ctx, "hedged")
	showSelector(ctx, nil, "/shop.Orders/Get")
	// Output: /shop.Orders/Get: hedged
}

// Reads go by load, writes by key, on one channel.
func ExampleNewSelectors() {
	selectors, err := interceptors.NewSelectors(map[string]string{
		"/shop.Orders/Get":  "by-load",
		"/shop.Orders/List": "by-load",
		"/shop.Catalog/*":   "by-load",
		"/shop.Catalog/Put": "default",
	})
	if err != nil {
		log.Fatal(err)
	}
	key, err := interceptors.NewKey("x-shard-key")
	if err != nil {
		log.Fatal(err)
	}
	opts := interceptors.Chain(
		selectors.Pair(),
		key.Pair(),
		interceptors.Logging(slog.Default()),
		interceptors.Retry(),
	)
	cc, err := grpc.NewClient("localhost:1", append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	defer cc.Close() //nolint:errcheck // ends the example

	ctx := context.Background()
	showSelector(ctx, selectors, "/shop.Orders/Get")
	showSelector(ctx, selectors, "/shop.Orders/Put")
	showSelector(ctx, selectors, "/shop.Catalog/Search")
	showSelector(ctx, selectors, "/shop.Catalog/Put")
	// Output:
	// /shop.Orders/Get: by-load
	// /shop.Orders/Put: the default
	// /shop.Catalog/Search: by-load
	// /shop.Catalog/Put: the default
}

// Logging, retries and timeouts for a channel; retries only where a method may
// run twice.
func ExampleChain() {
	readOnly, err := interceptors.ForMethods("/shop.Orders/Get", "/shop.Catalog/*")
	if err != nil {
		log.Fatal(err)
	}
	opts := interceptors.Chain(
		interceptors.Logging(slog.Default()),
		interceptors.Retry(
			interceptors.RetryAttempts(4),
			interceptors.RetryCodes(codes.Unavailable, codes.Aborted),
			interceptors.RetryAttemptTimeout(time.Second),
		).Only(readOnly),
		interceptors.Timeout(5*time.Second),
	)
	cc, err := grpc.NewClient("localhost:1", append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	defer cc.Close() //nolint:errcheck // ends the example
}
