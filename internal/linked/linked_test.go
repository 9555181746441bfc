// Package linked_test is a binary that links what may stand beside Slicewire:
// grpc-go's own policy under the name that gRFC A119 gives both.
package linked_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	lb "google.golang.org/grpc/balancer"
	_ "google.golang.org/grpc/balancer/autosharding" // registers autosharding_experimental too
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// others is somebody's policy under the shared name. It is registered after ours,
// which the order of package initialisation does not do for grpc-go's here.
type others struct{ lb.Builder }

func (others) Name() string { return balancer.AutoshardingName }

func (others) Build(lb.ClientConn, lb.BuildOptions) lb.Balancer {
	panic("a channel of the SDK uses another package's policy")
}

func init() { lb.Register(others{}) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestBesideGrpcGo: whichever package registers the shared name last, the SDK's
// channels use ours, also when a service config names the shared one.
func TestBesideGrpcGo(t *testing.T) {
	if shared := lb.Get(balancer.AutoshardingName); shared != (others{}) {
		t.Fatalf("%s is %T in this binary, so it shows nothing", balancer.AutoshardingName, shared)
	}
	for _, serviceConfig := range []string{
		`{}`,
		`{"loadBalancingConfig":[{"autosharding_experimental":{"channelFactoryKey":"main","slicingTarget":"users","sliceKeyHeaderName":"x-user"}}]}`,
	} {
		c := sdktest.NewCluster(t, "a", "b")
		c.Sharding().Assign("users", sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
		client, err := sdk.Dial(c.Target(),
			sdk.WithTransportCredentials(insecure.NewCredentials()),
			sdk.WithResolvers(c.Resolver()),
			sdk.WithServiceConfig(serviceConfig),
			sdk.WithShardingService("main", c.Sharding().Addr(), grpc.WithTransportCredentials(insecure.NewCredentials())),
			sdk.WithSharding(sdk.Sharding{ServiceKey: "main", Target: "users", KeyHeader: "x-user"}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		for key, want := range map[string]string{"alice": "a", "zoe": "b"} {
			if got, err := sdktest.NewEcho(client).Who(interceptors.WithKeyString(ctx, key), ""); err != nil || got != want {
				t.Errorf("%s: key %q reached %q, %v; want %q", serviceConfig, key, got, err, want)
			}
		}
		cancel()
		_ = client.Close()
	}
}
