package sdk_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// places are backends by the name of the target that each of them is.
type places map[string]*sdktest.Backend

func startPlaces(t testing.TB, names ...string) places {
	t.Helper()
	p := make(places)
	for _, name := range names {
		b, err := sdktest.StartBackend(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		p[name] = b
	}
	return p
}

// topology declares the backends as targets, with their names.
func (p places) topology(groups ...sdk.GroupConfig) sdk.Topology {
	top := sdk.Topology{Groups: groups}
	for name, b := range p {
		top.Targets = append(top.Targets, sdk.TargetConfig{Name: name, URI: "dns:///" + b.Addr()})
	}
	slices.SortFunc(top.Targets, func(a, b sdk.TargetConfig) int { return compare(a.Name, b.Name) })
	return top
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// quickReconnect has channels try again often.
var quickReconnect = sdk.WithDialOptions(grpc.WithConnectParams(grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond},
	MinConnectTimeout: 2 * time.Second,
}))

// dialGroups makes a client with groups.
func dialGroups(t testing.TB, top sdk.Topology, opts ...sdk.Option) *sdk.Client {
	t.Helper()
	client, err := sdk.Dial("", slices.Concat([]sdk.Option{
		sdk.WithTransportCredentials(insecure.NewCredentials()), quickReconnect, sdk.WithTopology(top),
	}, opts)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// group is a group whose targets are left as soon as they fail.
func group(name string, targets ...string) sdk.GroupConfig {
	return sdk.GroupConfig{Name: name, Targets: targets, Failover: atOnce}
}

var atOnce = failover.Options{Recovery: -1, MinUptime: -1, InitialGrace: -1}

// in sends one RPC of a group and returns the server's name.
func in(ctx context.Context, client *sdk.Client, group string) (string, error) {
	return sdktest.NewEcho(client).Who(interceptors.WithGroup(ctx, group), "")
}

// The seed's example: three pools, and the right server whichever are dead.
func TestG01SeedExample(t *testing.T) {
	p := startPlaces(t, "main", "fallback", "ro")
	client := dialGroups(t, p.topology(group("default", "main", "fallback"), group("read", "ro", "fallback", "main")))
	if n := len(client.Status().Targets); n != 3 {
		t.Fatalf("%d pools, want 3", n)
	}
	names := []string{"main", "fallback", "ro"}
	for alive := 7; alive >= 0; alive-- {
		up := func(name string) bool { return alive>>slices.Index(names, name)&1 == 1 }
		t.Run(fmt.Sprintf("main %v fallback %v ro %v", up("main"), up("fallback"), up("ro")), func(t *testing.T) {
			for _, name := range names {
				if up(name) {
					if err := p[name].Restart(); err != nil {
						t.Fatal(err)
					}
				} else {
					p[name].Kill()
				}
			}
			for name, order := range map[string][]string{"default": {"main", "fallback"}, "read": {"ro", "fallback", "main"}} {
				i := slices.IndexFunc(order, up)
				if i < 0 {
					if _, err := in(within(t, time.Second), client, name); err == nil {
						t.Errorf("group %q: an RPC succeeded with every target dead", name)
					}
					continue
				}
				eventually(t, fmt.Sprintf("group %q at %q", name, order[i]), func() bool {
					got, err := in(within(t, time.Second), client, name)
					return err == nil && got == order[i]
				})
				if got := client.Group(name).Current(); got != order[i] {
					t.Errorf("group %q: current target %q, want %q", name, got, order[i])
				}
			}
		})
	}
	if n := len(client.Status().Targets); n != 3 {
		t.Errorf("%d pools at the end, want 3", n)
	}
}
