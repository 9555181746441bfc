package balancer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPlainGRPC is the user of grpc-go who imports this package for its side
// effect and sets the provider in their resolver; no other part of the SDK.
func TestPlainGRPC(t *testing.T) {
	for _, name := range []string{balancer.AutoshardingName, balancer.Name} {
		t.Run(name, func(t *testing.T) {
			c := sdktest.NewCluster(t, "a", "b")
			c.Sharding().Assign("users", sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
			r := manual.NewBuilderWithScheme("plain")
			r.InitialState(balancer.SetClientConnProvider(resolver.State{Endpoints: c.Endpoints()},
				func(key string) (grpc.ClientConnInterface, func(), error) {
					if key != "main" {
						return nil, nil, fmt.Errorf("unknown key %q", key)
					}
					cc, err := grpc.NewClient(c.Sharding().Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
					if err != nil {
						return nil, nil, err
					}
					return cc, func() { _ = cc.Close() }, nil
				}))
			cc, err := grpc.NewClient("plain:///users",
				grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithResolvers(r),
				grpc.WithDefaultServiceConfig(fmt.Sprintf(`{"loadBalancingConfig":[{%q:{
					"channelFactoryKey":"main","slicingTarget":"users","sliceKeyHeaderName":"x-user"}}]}`, name)))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cc.Close() }()
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			for key, want := range map[string]string{"alice": "a", "zoe": "b"} {
				got, err := sdktest.NewEcho(cc).Who(metadata.AppendToOutgoingContext(ctx, "x-user", key), "")
				if err != nil || got != want {
					t.Errorf("%q reached %q, %v; want %q", key, got, err, want)
				}
			}
		})
	}
}
