package sdktest_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/sdk/sdktest"
)

// A deployment of three backends: say who owns what, and dial.
func ExampleStartCluster() {
	cluster, err := sdktest.StartCluster("h1", "h2", "h3")
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	cluster.Sharding().Assign("users", sdktest.Ranges(
		sdktest.From("", "h1"),
		sdktest.From("h", "h2"),
		sdktest.From("p", "h3", "h1"),
	))
	fmt.Println(cluster.Sharding().Owners("users", "karl"))

	conn, err := grpc.NewClient(cluster.Target(),
		grpc.WithResolvers(cluster.Resolver()),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	name, err := sdktest.NewEcho(conn).Who(context.Background(), "hello")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("answered by", name)
	fmt.Println("h1 heard", cluster.Backend("h1").Calls()[0].Text)
	// Output:
	// [h2]
	// answered by h1
	// h1 heard hello
}

// An assignment changes while clients watch it; each change is a generation.
func ExampleShardingService() {
	service, err := sdktest.StartSharding()
	if err != nil {
		log.Fatal(err)
	}
	defer service.Close()

	fmt.Println("generation", service.Assign("users", sdktest.Ranges(
		sdktest.From("", "h1"),
		sdktest.From("m", "h2"),
	)))
	generation, err := service.Split("users", "t")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("generation", generation)
	generation, err = service.Move("users", "zoe", "h3")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("generation", generation)
	for _, key := range []string{"anna", "nils", "zoe"} {
		fmt.Println(key, service.Owners("users", key))
	}
	// Output:
	// generation 1
	// generation 2
	// generation 3
	// anna [h1]
	// nils [h2]
	// zoe [h3]
}

// Faults are switched while everything runs.
func ExampleShardingService_Heal() {
	service, err := sdktest.StartSharding()
	if err != nil {
		log.Fatal(err)
	}
	defer service.Close()

	service.Delay(200 * time.Millisecond)             // slow
	service.Refuse(codes.PermissionDenied, "not you") // unwilling
	service.Corrupt(sdktest.CorruptOverlap)           // wrong
	service.Heal()                                    // well again

	service.Stop() // gone: dials are refused
	if err := service.Restart(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(service.Streams())
	// Output: {0 0}
}

// A backend that fails one call, and remembers what it was asked.
func ExampleBackend() {
	backend, err := sdktest.StartBackend("h1")
	if err != nil {
		log.Fatal(err)
	}
	defer backend.Close()
	conn, err := grpc.NewClient(backend.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	echo := sdktest.NewEcho(conn)
	ctx := metadata.AppendToOutgoingContext(context.Background(), "shard-key", "karl")

	backend.FailNext(1, codes.Unavailable)
	for range 2 {
		_, err := echo.Who(ctx, "")
		fmt.Println(status.Code(err))
	}
	fmt.Println(backend.Count(), "calls, keys", backend.Keys("shard-key"))
	fmt.Println(backend.Connections().Accepted, "connection")
	// Output:
	// Unavailable
	// OK
	// 2 calls, keys [karl karl]
	// 1 connection
}

// A gate between client and backend fails as a network does.
func ExampleGate() {
	backend, err := sdktest.StartBackend("h1")
	if err != nil {
		log.Fatal(err)
	}
	defer backend.Close()
	gate, err := sdktest.StartGate(backend.Addr())
	if err != nil {
		log.Fatal(err)
	}
	defer gate.Close()
	conn, err := grpc.NewClient(gate.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	echo := sdktest.NewEcho(conn)

	gate.Pause()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = echo.Who(ctx, "")
	fmt.Println(status.Code(err))
	gate.Resume()
	name, err := echo.Who(context.Background(), "", grpc.WaitForReady(true))
	fmt.Println(name, err)
	// Output:
	// DeadlineExceeded
	// h1 <nil>
}
