package sdk_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
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
		"empty sharding":                  {"dns:///x:1", []sdk.Option{plain, sdk.WithSharding(sdk.Sharding{})}, []string{"ServiceKey is empty", "Target is empty", "KeyHeader"}},
		"reserved header":                 {"dns:///x:1", []sdk.Option{plain, service, sharding(func(s *sdk.Sharding) { s.KeyHeader = "Grpc-Key" })}, []string{`"Grpc-Key"`, "reserved"}},
		"empty header":                    {"dns:///x:1", []sdk.Option{plain, service, sharding(func(s *sdk.Sharding) { s.KeyHeader = "" })}, []string{"header name is empty"}},
		"malformed header":                {"dns:///x:1", []sdk.Option{plain, service, sharding(func(s *sdk.Sharding) { s.KeyHeader = "x key" })}, []string{`"x key"`, "byte 1"}},
		"header of retries":               {"dns:///x:1", []sdk.Option{plain, service, sharding(func(s *sdk.Sharding) { s.KeyHeader = "x-retry-attempt" })}, []string{"x-retry-attempt"}},
		"negative timeout":                {"dns:///x:1", []sdk.Option{plain, service, sharding(func(s *sdk.Sharding) { s.InitialTimeout = -time.Second })}, []string{"InitialTimeout", "-1s"}},
		"negative drain":                  {"dns:///x:1", []sdk.Option{plain, sdk.WithDrainTimeout(-1)}, []string{"WithDrainTimeout"}},
		"negative stream":                 {"dns:///x:1", []sdk.Option{plain, sdk.WithShardingStream(sdk.ShardingStream{MaxMessageBytes: -1})}, []string{"WithShardingStream"}},
		"bad key source":                  {"dns:///x:1", []sdk.Option{plain, sdk.WithKey(interceptors.KeyFrom(nil))}, []string{"WithKey", "source is nil"}},
		"service config":                  {"dns:///x:1", []sdk.Option{plain, service, sdk.WithSharding(testSharding()), sdk.WithServiceConfig("{")}, []string{"WithServiceConfig", "JSON"}},
		"method config":                   {"dns:///x:1", []sdk.Option{plain, service, sdk.WithSharding(testSharding()), sdk.WithServiceConfig(`{"methodConfig": 7}`)}, []string{"service config"}},
		"service config without sharding": {"dns:///x:1", []sdk.Option{plain, service, sdk.WithServiceConfig(`{"methodConfig": []}`)}, []string{"WithServiceConfig", "sdk.WithSharding was not used"}},
		"everything at once": {"consul:///x", []sdk.Option{
			sdk.WithShardingService("bare", "127.0.0.1:1"),
			sharding(func(s *sdk.Sharding) { s.Target, s.KeyHeader, s.InitialTimeout = "", "x key", -1 }),
			sdk.WithDrainTimeout(-1), sdk.WithKey(interceptors.KeyFrom(nil)), sdk.WithServiceConfig("{"),
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
