package sdk_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// How keys route is followed by a target that is there, over the connections that
// are there: first not at all, then by slice, then by slice under another header.
func TestUpdateSharding(t *testing.T) {
	c := sdktest.NewCluster(t, "e1", "e2")
	c.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "e1"), sdktest.From("m", "e2")))
	target := func(sh *sdk.Sharding) sdk.Topology {
		return sdk.Topology{
			Targets: []sdk.TargetConfig{{Name: "users", URI: c.Target(), Sharding: sh}},
			Groups:  []sdk.GroupConfig{{Name: "all", Targets: []string{"users"}}},
		}
	}
	client, err := sdk.Dial("",
		sdk.WithTransportCredentials(insecure.NewCredentials()), sdk.WithResolvers(c.Resolver()), quickService(c),
		sdk.WithTopology(target(nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	echo := sdktest.NewEcho(client)
	key := func(k string) string {
		name, err := echo.Who(interceptors.WithKeyString(within(t, 5*time.Second), k), "")
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, b := range c.Backends() { // by load: both are used
		eventually(t, "a call on "+b.Name(), func() bool { key("a"); return b.Count() > 0 })
	}
	for _, header := range []string{testHeader, "x-other"} {
		change, err := client.UpdateTopology(target(&sdk.Sharding{ServiceKey: "main", Target: testTarget, KeyHeader: header}))
		if err != nil {
			t.Fatal(err)
		}
		if len(change.Targets.Changed) != 1 || len(change.Targets.Added) != 0 {
			t.Errorf("change %+v, want one changed target", change)
		}
		eventually(t, "routing by key with header "+header, func() bool {
			s := client.Status()
			return s.Config.KeyHeader == header && s.Generation > 0
		})
		for range 20 {
			if low, high := key("a"), key("z"); low != "e1" || high != "e2" {
				t.Fatalf("keys reached %s and %s, want their owners", low, high)
			}
		}
	}
	if _, err := client.UpdateTopology(target(nil)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no header", func() bool { return client.Status().Config.Unsharded })
	key("a")
	for _, b := range c.Backends() {
		if n := b.Connections().Accepted; n != 1 {
			t.Errorf("%s accepted %d connections, want 1", b.Name(), n)
		}
	}
}
