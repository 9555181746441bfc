package sdk_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// A client that finds keys in its requests, retries, and logs every attempt.
func ExampleDial() {
	cluster, err := sdktest.StartCluster("h1", "h2")
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	cluster.Sharding().Assign("users", sdktest.Ranges(sdktest.From("", "h1"), sdktest.From("m", "h2")))

	withoutTimes := &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.LevelKey || a.Key == slog.MessageKey || a.Key == "grpc.method" || a.Key == "grpc.code" {
			return a
		}
		return slog.Attr{}
	}}
	logger := slog.New(slog.NewTextHandler(os.Stdout, withoutTimes))
	// The first pair is outermost: inside Retry, Logging sees each attempt.
	chain := interceptors.Chain(
		interceptors.Retry(interceptors.RetryBackoff(time.Millisecond, time.Second)),
		interceptors.Logging(logger),
	)
	client, err := sdk.Dial(cluster.Target(),
		sdk.WithResolvers(cluster.Resolver()), // not needed with dns:///host:port
		sdk.WithTransportCredentials(insecure.NewCredentials()),
		sdk.WithShardingService("sharder", cluster.Sharding().Addr(), grpc.WithTransportCredentials(insecure.NewCredentials())),
		sdk.WithSharding(sdk.Sharding{ServiceKey: "sharder", Target: "users", KeyHeader: "x-user"}),
		sdk.WithKeyOptions(interceptors.KeyFrom(interceptors.FieldKey("value"))),
		sdk.WithDialOptions(chain...),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cluster.Backend("h2").FailNext(1, codes.Unavailable)
	echo := sdktest.NewEcho(client) // your stub
	name, err := echo.Who(ctx, "zoe")
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println("zoe is at", name)
	// Output:
	// level=WARN msg="finished call" grpc.method=Who grpc.code=Unavailable
	// level=DEBUG msg="finished call" grpc.method=Who grpc.code=OK
	// zoe is at h2
}

// Whoever keeps something for each server hears when keys change hands.
func ExampleWithReassignedFunc() {
	cluster, err := sdktest.StartCluster("h1", "h2")
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	cluster.Sharding().Assign("users", sdktest.Ranges(sdktest.From("", "h1"), sdktest.From("m", "h1")))

	changes := make(chan balancer.Reassignment, 8)
	client, err := sdk.Dial(cluster.Target(),
		sdk.WithResolvers(cluster.Resolver()),
		sdk.WithTransportCredentials(insecure.NewCredentials()),
		sdk.WithShardingService("sharder", cluster.Sharding().Addr(), grpc.WithTransportCredentials(insecure.NewCredentials())),
		sdk.WithSharding(sdk.Sharding{ServiceKey: "sharder", Target: "users", KeyHeader: "x-user"}),
		sdk.WithReassignedFunc(func(r balancer.Reassignment) { changes <- r }),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := client.WaitReady(ctx); err != nil {
		log.Print(err)
		return
	}
	if _, err := cluster.Sharding().Move("users", "zoe", "h2"); err != nil {
		log.Print(err)
		return
	}
	select {
	case change := <-changes:
		for _, m := range change.Moved {
			// Bounds are keys; print them only if yours are no personal data.
			fmt.Printf("generation %d: %q and up moved from %v to %v\n", change.Generation, m.Start, m.From, m.To)
		}
	case <-ctx.Done():
		log.Print("no key changed hands")
	}
	// Output:
	// generation 2: "m" and up moved from [h1] to [h2]
}

// A server reports itself ready once its client can route.
func ExampleClient_WaitReady() {
	cluster, err := sdktest.StartCluster("h1")
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	client, err := sdk.Dial(cluster.Target(),
		sdk.WithResolvers(cluster.Resolver()),
		sdk.WithTransportCredentials(insecure.NewCredentials()),
		sdk.WithShardingService("sharder", cluster.Sharding().Addr(), grpc.WithTransportCredentials(insecure.NewCredentials())),
		sdk.WithSharding(sdk.Sharding{ServiceKey: "sharder", Target: "users", KeyHeader: "x-user"}),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	soon, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = client.WaitReady(soon)
	fmt.Println("ready before there is an assignment:", err == nil)

	cluster.AssignEven("users")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	how, err := client.WaitReady(ctx)
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println("ready:", how)
	// Output:
	// ready before there is an assignment: false
	// ready: assigned
}
