package balancer_test

import (
	"context"
	"fmt"
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// A plain grpc-go channel that routes by key: a service config that names the
// policy, a resolver that carries the provider, and the key interceptors.
func Example() {
	cluster, err := sdktest.StartCluster("anna", "bert") // servers and a sharding service to talk to
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	cluster.Sharding().Assign("profiles", sdktest.Ranges(sdktest.From("", "anna"), sdktest.From("m", "bert")))

	provider := func(key string) (grpc.ClientConnInterface, func(), error) {
		if key != "sharder" {
			return nil, nil, fmt.Errorf("there is no sharding service %q", key)
		}
		cc, err := grpc.NewClient(cluster.Sharding().Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, nil, err
		}
		return cc, func() { _ = cc.Close() }, nil
	}
	names := manual.NewBuilderWithScheme("example") // your resolver
	names.InitialState(balancer.SetClientConnProvider(resolver.State{Endpoints: cluster.Endpoints()}, provider))

	key, err := interceptors.NewKey("x-profile-id")
	if err != nil {
		log.Fatal(err)
	}
	channel, err := grpc.NewClient("example:///profiles",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithResolvers(names),
		grpc.WithUnaryInterceptor(key.Unary()),
		grpc.WithStreamInterceptor(key.Stream()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"autosharding_experimental": {
			"channelFactoryKey": "sharder", "slicingTarget": "profiles", "sliceKeyHeaderName": "x-profile-id"
		}}]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = channel.Close() }()

	for _, id := range []string{"alice", "zoe"} {
		server, err := sdktest.NewEcho(channel).Who(interceptors.WithKeyString(context.Background(), id), "")
		fmt.Println(id, "->", server, err)
	}
	// Output:
	// alice -> anna <nil>
	// zoe -> bert <nil>
}
