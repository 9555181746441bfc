package sdk_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// TestShardingThatIsTurnedOff_AP11_A21: a config without sharding ends the stream to
// the sharding service and releases its channel. With sharding again the last good
// assignment is in force at once, also while the service is down, and a new one
// follows. No RPC fails on the way.
func TestShardingThatIsTurnedOff_AP11_A21(t *testing.T) {
	t.Parallel()
	c := sdktest.NewCluster(t, "a", "b")
	c.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
	p := &factory{services: map[string]*sdktest.ShardingService{"main": c.Sharding()}, problems: make(chan string, 100)}
	sharded := shardingConfig(balancer.Name, "main", testTarget, testHeader)
	plainly := fmt.Sprintf(`{"loadBalancingConfig": [{%q: {"sharding": false, "sliceKeyHeaderName": %q}}]}`, balancer.Name, testHeader)
	c.Resolver().SetServiceConfig(sharded)
	client, err := sdk.Dial(c.Target(), plain, sdk.WithResolvers(c.Resolver()), quickStream(), sdk.WithClientConnProvider(p.provide))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	f := &fixture{Cluster: c, client: client, echo: sdktest.NewEcho(client)}
	owners := func(alice, zoe string) {
		t.Helper()
		for key, want := range map[string]string{"alice": alice, "zoe": zoe} {
			if got := f.who(t, key); got != want {
				t.Errorf("%q went to %s, want %s", key, got, want)
			}
		}
	}
	owners("a", "b")
	tr := f.flow(t, 3, time.Millisecond, "alice", "zoe")

	off := func() {
		t.Helper()
		f.Resolver().SetServiceConfig(plainly)
		if err := c.Sharding().WaitLive(within(t, 10*time.Second), 0); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the channel to be released", func() bool { return p.live.Load() == 0 })
		s := f.client.Status()
		if s.Generation != 0 || s.Assignment.StreamConnected || s.Assignment.StaleFor != 0 || s.Readiness.Assigned || !s.Readiness.Connected {
			t.Errorf("without sharding: %v; %+v", s, s.Assignment)
		}
		reached := make(map[string]bool)
		eventually(t, "both servers by one key", func() bool { reached[f.who(t, "alice")] = true; return len(reached) == 2 })
	}
	on := func() {
		t.Helper()
		f.Resolver().SetServiceConfig(sharded)
		eventually(t, "the config", func() bool { return f.client.Status().Config.Sharded() })
	}

	off()
	c.Sharding().Stop()
	on()
	for range 20 {
		owners("a", "b")
	}
	if s := f.client.Status(); !s.Readiness.Assigned || s.Generation == 0 || s.Assignment.StaleFor == 0 {
		t.Errorf("with the sharding service down: %v; %+v", s, s.Assignment)
	}
	if err := c.Sharding().Restart(); err != nil {
		t.Fatal(err)
	}
	f.reaches(t, c.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "b"), sdktest.From("m", "a"))))
	owners("b", "a")

	for range 5 {
		off()
		on()
		owners("b", "a")
	}
	tr.mustBeClean(t)
	for _, first := range c.Sharding().FirstMessages() {
		if first.LatestGeneration != 0 || first.ClientUUID != f.client.Status().Assignment.ClientUUID {
			t.Errorf("the sharding service was told %+v", first)
		}
	}
	_ = client.Close()
	if n := p.live.Load(); n != 0 {
		t.Errorf("%d channels are left", n)
	}
	close(p.problems)
	for problem := range p.problems {
		t.Error(problem)
	}
	if v := c.Sharding().Violations(); len(v) > 0 {
		t.Error(strings.Join(v, "; "))
	}
}
