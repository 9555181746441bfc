// Sharded is the smallest real program: it sends one RPC to the server that owns
// a key, and prints which server answered and what.
//
//	sharded -target dns:///profiles.example.com:443 \
//	        -sharder dns:///sharder.example.com:443 \
//	        -sharding-target profiles -header x-profile-id -key user-4711
//
// When nobody serves the key it goes to any server; -fallback=false makes it fail
// instead.
//
// The RPC is gRPC's own health check, so that it works against any server that
// registers it; put your stub in its place. The sharding service has to name
// servers as the name resolver does: by the hostname attribute, or, with dns, by
// IP address and port.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
)

var (
	target         = flag.String("target", "", "servers to dial, as in dns:///host:port (required)")
	sharder        = flag.String("sharder", "", "sharding service to dial, as in dns:///host:port (required)")
	shardingTarget = flag.String("sharding-target", "", "what the sharding service is asked to shard (required)")
	header         = flag.String("header", "x-key", "request header that carries the key")
	key            = flag.String("key", "", "the key (required); -key= is the empty key")
	fallback       = flag.Bool("fallback", true, "go to any server when nobody serves the key")
	plaintext      = flag.Bool("insecure", false, "plaintext instead of TLS")
	timeout        = flag.Duration("timeout", 10*time.Second, "how long to wait")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if *target == "" || *sharder == "" || *shardingTarget == "" {
		return errors.New("-target, -sharder and -sharding-target are required; see -help")
	}
	// Empty is a key like any other, so a forgotten one must not look like it.
	named := false
	flag.Visit(func(f *flag.Flag) { named = named || f.Name == "key" })
	if !named {
		return errors.New("-key is required; for the empty key write -key=")
	}
	creds := credentials.NewTLS(nil) // the system's roots
	if *plaintext {
		creds = insecure.NewCredentials()
	}
	client, err := sdk.Dial(*target,
		sdk.WithTransportCredentials(creds),
		sdk.WithShardingService("sharder", *sharder, grpc.WithTransportCredentials(creds)),
		sdk.WithSharding(sdk.Sharding{
			ServiceKey: "sharder",
			Target:     *shardingTarget,
			KeyHeader:  *header,
			Fallback:   *fallback,
		}))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()

	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	var server peer.Peer
	reply, err := healthpb.NewHealthClient(client).Check(
		interceptors.WithKeyString(ctx, *key), &healthpb.HealthCheckRequest{}, grpc.Peer(&server))
	if err != nil {
		return err
	}
	fmt.Printf("%v says %v\n", server.Addr, reply.GetStatus())
	return nil
}
