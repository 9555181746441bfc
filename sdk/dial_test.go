package sdk_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// Dial says everything that is wrong, and what to write instead.
func TestDialErrors_IM04(t *testing.T) {
	t.Parallel()
	service := sdk.WithShardingService("main", "127.0.0.1:1", plaintext)
	sharding := func(change func(*sdk.Sharding)) sdk.Option { return sdk.WithSharding(testSharding(change)) }
	tests := map[string]struct {
		target  string
		options []sdk.Option
		texts   []string
	}{
		"no credentials":                  {"dns:///x:1", []sdk.Option{service, sdk.WithSharding(testSharding())}, []string{"sdk.WithTransportCredentials(", "insecure.NewCredentials()"}},
		"service, no credentials":         {"dns:///x:1", []sdk.Option{plain, sdk.WithShardingService("main", "127.0.0.1:1")}, []string{`"main"`, `"127.0.0.1:1"`, "sdk.WithShardingService", "insecure.NewCredentials()"}},
		"service, no target":              {"dns:///x:1", []sdk.Option{plain, sdk.WithShardingService("main", "", plaintext)}, []string{"WithShardingService", `"main"`}},
		"service, no key":                 {"dns:///x:1", []sdk.Option{plain, sdk.WithShardingService("", "127.0.0.1:1", plaintext)}, []string{"WithShardingService"}},
		"empty target":                    {"", []sdk.Option{plain}, []string{"target is empty"}},
		"unknown scheme":                  {"consul://host/x", []sdk.Option{plain}, []string{`"consul"`, "sdk.WithResolvers"}},
		"unknown scheme, no host":         {"consul:///x", []sdk.Option{plain}, []string{`"consul"`, "sdk.WithResolvers"}},
		"no URL":                          {"%zz", []sdk.Option{plain}, []string{`"%zz"`}},
		"undeclared key":                  {"dns:///x:1", []sdk.Option{plain, service, sharding(func(s *sdk.Sharding) { s.ServiceKey = "other" })}, []string{`"other"`, "declared are main", `sdk.WithShardingService("other"`}},
		"nothing declared":                {"dns:///x:1", []sdk.Option{plain, sdk.WithSharding(testSharding())}, []string{`"main"`, "none is declared", "sdk.WithClientConnProvider"}},
		"service, unknown scheme":         {"dns:///x:1", []sdk.Option{plain, sdk.WithShardingService("main", "dsn:///x:1", plaintext)}, []string{"WithShardingService", `"main"`, `"dsn:///x:1"`, `scheme "dsn"`, "grpc.WithResolvers"}},
		"service, two slashes":            {"dns:///x:1", []sdk.Option{plain, sdk.WithShardingService("main", "dns://x:1", plaintext)}, []string{"WithShardingService", `"main"`, "did you mean dns:///x:1?"}},
		"service, declared twice":         {"dns:///x:1", []sdk.Option{plain, service, service}, []string{"WithShardingService", `"main"`, "twice"}},
		"two slashes":                     {"dns://profiles.example.com:443", []sdk.Option{plain}, []string{"did you mean dns:///profiles.example.com:443?"}},
		"two slashes and one":             {"dns://profiles.example.com:443/", []sdk.Option{plain}, []string{"did you mean dns:///profiles.example.com:443?"}},
		"no host":                         {"dns:///", []sdk.Option{plain}, []string{"no host", "dns:///host:port"}},
		"nil resolver":                    {"dns:///x:1", []sdk.Option{plain, sdk.WithResolvers(sdktest.NewResolver("good"), nil)}, []string{"WithResolvers: resolver 2 is nil"}},
		"nil dial option":                 {"dns:///x:1", []sdk.Option{plain, sdk.WithDialOptions(nil)}, []string{"WithDialOptions: dial option 1 is nil"}},
		"nil option of a service":         {"dns:///x:1", []sdk.Option{plain, sdk.WithShardingService("main", "127.0.0.1:1", plaintext, nil)}, []string{`WithShardingService: key "main": dial option 2 is nil`}},
		"credentials as header":           {"dns:///x:1", []sdk.Option{plain, service, sharding(func(s *sdk.Sharding) { s.KeyHeader = "Authorization" })}, []string{`"Authorization"`, "carries credentials"}},
		"no name before -bin":             {"dns:///x:1", []sdk.Option{plain, service, sharding(func(s *sdk.Sharding) { s.KeyHeader = "-bin" })}, []string{`"-bin"`, "nothing before"}},
		"another policy":                  {"dns:///x:1", []sdk.Option{plain, service, sdk.WithSharding(testSharding()), sdk.WithServiceConfig(`{"LoadBalancingConfig": [{"round_robin": {}}]}`)}, []string{"WithServiceConfig", "round_robin", "WithSharding"}},
		"another policy, old":             {"dns:///x:1", []sdk.Option{plain, service, sdk.WithSharding(testSharding()), sdk.WithServiceConfig(`{"loadBalancingPolicy": "pick_first"}`)}, []string{"WithServiceConfig", "pick_first", "WithSharding"}},
		"empty sharding":                  {"dns:///x:1", []sdk.Option{plain, sdk.WithSharding(sdk.Sharding{})}, []string{"ServiceKey is empty", "Target is empty", "KeyHeader"}},
		"reserved header":                 {"dns:///x:1", []sdk.Option{plain, service, sharding(func(s *sdk.Sharding) { s.KeyHeader = "Grpc-Key" })}, []string{`"Grpc-Key"`, "reserved"}},
		"empty header":                    {"dns:///x:1", []sdk.Option{plain, service, sharding(func(s *sdk.Sharding) { s.KeyHeader = "" })}, []string{"header name is empty"}},
		"malformed header":                {"dns:///x:1", []sdk.Option{plain, service, sharding(func(s *sdk.Sharding) { s.KeyHeader = "x key" })}, []string{`"x key"`, "byte 2 of its 5"}},
		"header of retries":               {"dns:///x:1", []sdk.Option{plain, service, sharding(func(s *sdk.Sharding) { s.KeyHeader = "x-retry-attempt" })}, []string{"x-retry-attempt"}},
		"negative timeout":                {"dns:///x:1", []sdk.Option{plain, service, sharding(func(s *sdk.Sharding) { s.InitialTimeout = -time.Second })}, []string{"InitialTimeout", "-1s"}},
		"negative drain":                  {"dns:///x:1", []sdk.Option{plain, sdk.WithDrainTimeout(-1)}, []string{"WithDrainTimeout"}},
		"negative stream":                 {"dns:///x:1", []sdk.Option{plain, sdk.WithShardingStream(sdk.ShardingStream{MaxMessageBytes: -1})}, []string{"WithShardingStream"}},
		"bad key source":                  {"dns:///x:1", []sdk.Option{plain, sdk.WithKeyOptions(interceptors.KeyFrom(nil))}, []string{"WithKeyOptions", "source is nil"}},
		"service config":                  {"dns:///x:1", []sdk.Option{plain, service, sdk.WithSharding(testSharding()), sdk.WithServiceConfig("{")}, []string{"WithServiceConfig", "JSON"}},
		"method config":                   {"dns:///x:1", []sdk.Option{plain, service, sdk.WithSharding(testSharding()), sdk.WithServiceConfig(`{"methodConfig": 7}`)}, []string{"service config"}},
		"service config without sharding": {"dns:///x:1", []sdk.Option{plain, service, sdk.WithServiceConfig(`{"methodConfig": []}`)}, []string{"WithServiceConfig", "neither sdk.WithSharding nor sdk.WithSelector was used"}},
		"everything at once": {"consul:///x", []sdk.Option{
			sdk.WithShardingService("bare", "127.0.0.1:1"),
			sharding(func(s *sdk.Sharding) { s.Target, s.KeyHeader, s.InitialTimeout = "", "x key", -1 }),
			sdk.WithDrainTimeout(-1), sdk.WithKeyOptions(interceptors.KeyFrom(nil)), sdk.WithServiceConfig("{"),
			sdk.WithShardingStream(sdk.ShardingStream{MinGap: -1}),
		}, []string{`"consul"`, "sdk.WithTransportCredentials(", `"bare"`, "Target is empty", `"x key"`, "InitialTimeout", "WithDrainTimeout", "source is nil", "WithServiceConfig", "WithShardingStream", `key "main"`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := sdk.Dial(tt.target, tt.options...)
			if err == nil {
				_ = client.Close()
				t.Fatal("Dial found nothing wrong")
			}
			if client != nil {
				t.Error("Dial returned a client beside the error")
			}
			for _, text := range append(tt.texts, "slicewire: cannot dial") {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("the error lacks %q: %v", text, err)
				}
			}
			if n := strings.Count(err.Error(), fmt.Sprintf("%q", tt.target)); n > 1 {
				t.Errorf("the error says the target %d times: %v", n, err)
			}
		})
	}
}

// Targets as grpc.NewClient takes them, and credentials from any option.
func TestDialTargets(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"127.0.0.1:1", "localhost:1", "dns:///localhost:1", "passthrough:///x", "unix:/tmp/x", "host", "[::1]:1"} {
		client, err := sdk.Dial(target, sdk.WithDialOptions(plaintext), nil)
		if err != nil {
			t.Errorf("%q: %v", target, err)
			continue
		}
		soon(t, time.Second, "Close", func() { _ = client.Close() })
	}
}

// What Dial refuses in a sharding service's target is what gRPC cannot reach, and
// no more.
func TestDialServiceTargets(t *testing.T) {
	t.Parallel()
	for name, service := range map[string]sdk.Option{
		"resolver in its options": sdk.WithShardingService("main", "dsn:///x:1", plaintext, grpc.WithResolvers(sdktest.NewResolver("dsn"))),
		"name alone":              sdk.WithShardingService("main", "sharder", plaintext),
		"name and port":           sdk.WithShardingService("main", "sharder:443", plaintext),
		"address":                 sdk.WithShardingService("main", "[::1]:1", plaintext),
		"dns":                     sdk.WithShardingService("main", "dns:///sharder:443", plaintext),
		"dns server":              sdk.WithShardingService("main", "dns://8.8.8.8/sharder:443", plaintext),
		"socket":                  sdk.WithShardingService("main", "unix:///tmp/x", plaintext),
		"passthrough":             sdk.WithShardingService("main", "passthrough:///a://b", plaintext),
	} {
		client, err := sdk.Dial("dns:///x:1", plain, service, sdk.WithSharding(testSharding()),
			sdk.WithServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}, {"slicewire": {"channelFactoryKey": "main", "slicingTarget": "t", "sliceKeyHeaderName": "h"}}]}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = client.Close()
	}
}
