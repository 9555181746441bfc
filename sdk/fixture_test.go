package sdk_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// testTarget is what the tests ask the sharding service to shard.
	testTarget = "users"
	testHeader = "x-user"
)

// fixture is a client of a cluster of real servers on loopback.
type fixture struct {
	*sdktest.Cluster
	client *sdk.Client
	echo   sdktest.Echo
}

var plaintext = grpc.WithTransportCredentials(insecure.NewCredentials())

// testSharding is the sharding of the tests' clients.
func testSharding(change ...func(*sdk.Sharding)) sdk.Sharding {
	sh := sdk.Sharding{ServiceKey: "main", Target: testTarget, KeyHeader: testHeader}
	for _, c := range change {
		c(&sh)
	}
	return sh
}

func withFallback(sh *sdk.Sharding) { sh.Fallback = true }

func withTimeout(d time.Duration) func(*sdk.Sharding) {
	return func(sh *sdk.Sharding) { sh.InitialTimeout = d }
}

// clusterOptions connect a client to c.
func clusterOptions(c *sdktest.Cluster, sh sdk.Sharding) []sdk.Option {
	return []sdk.Option{
		sdk.WithTransportCredentials(insecure.NewCredentials()),
		sdk.WithResolvers(c.Resolver()),
		quickService(c),
		sdk.WithSharding(sh),
	}
}

// start makes a cluster of named backends and a client of it.
func start(t testing.TB, sh sdk.Sharding, names []string, opts ...sdk.Option) *fixture {
	t.Helper()
	c := sdktest.NewCluster(t, names...)
	return dial(t, c, sh, opts...)
}

func dial(t testing.TB, c *sdktest.Cluster, sh sdk.Sharding, opts ...sdk.Option) *fixture {
	t.Helper()
	client, err := sdk.Dial(c.Target(), slices.Concat(clusterOptions(c, sh), opts)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &fixture{Cluster: c, client: client, echo: sdktest.NewEcho(client)}
}

// who sends one RPC with key and returns the name of the server it reached.
func (f *fixture) who(t testing.TB, key string, opts ...grpc.CallOption) string {
	t.Helper()
	name, err := f.echo.Who(interceptors.WithKeyString(within(t, 10*time.Second), key), "", opts...)
	if err != nil {
		t.Fatalf("RPC failed: %v", err)
	}
	return name
}

// within is a context for one step of a test.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until ok says so.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
