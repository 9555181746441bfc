package sdk_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// A standby that was never used takes over within the recovery timeout and one
// connect.
func TestG06StandbyNeverUsed(t *testing.T) {
	t.Parallel()
	const recovery = 200 * time.Millisecond
	p := startPlaces(t, "main", "fallback")
	client := dialGroups(t, p.topology(timed(failover.Options{Recovery: recovery}, "default", "main", "fallback")),
		reconnect(10*time.Millisecond, time.Second))
	served(t, client, "default", "main")
	takesOver(t, client, p, recovery)
}

// The user's idle timeout puts channels to sleep, and takes nobody out of the group:
// the primary serves again when asked, and the standby takes over as if nothing had
// been (rows G-06, G-39).
func TestG06G39StandbyAfterIdleTimeout(t *testing.T) {
	t.Parallel()
	const recovery = 200 * time.Millisecond
	p := startPlaces(t, "main", "fallback")
	var resolvers []*sdktest.Resolver
	top := sdk.Topology{Groups: []sdk.GroupConfig{timed(failover.Options{Recovery: recovery}, "default", "main", "fallback")}}
	opts := []sdk.Option{
		reconnect(10*time.Millisecond, time.Second), sdk.WithDialOptions(grpc.WithIdleTimeout(time.Second)),
	}
	for _, name := range []string{"main", "fallback"} {
		r := sdktest.NewResolver(name)
		r.SetEndpoints(sdktest.Endpoint(name, p[name].Addr()))
		resolvers = append(resolvers, r)
		top.Targets = append(top.Targets, sdk.TargetConfig{Name: name, URI: name + ":///x"})
		opts = append(opts, sdk.WithResolvers(r))
	}
	client := dialGroups(t, top, opts...)
	served(t, client, "default", "main")
	book := watchGroup(t, client, "default")
	eventually(t, "a channel that went to sleep and was woken", func() bool { return resolvers[0].Builds() >= 2 })
	t.Logf("channels began to resolve %d and %d times", resolvers[0].Builds(), resolvers[1].Builds())
	if list := book.switches(); len(list) > 0 {
		t.Errorf("sleep is no failure, and there were switches: %v", list)
	}
	served(t, client, "default", "main")
	takesOver(t, client, p, recovery)
}

// takesOver kills main, and waits for fallback.
func takesOver(t *testing.T, client *sdk.Client, p places, recovery time.Duration) {
	t.Helper()
	if n := p["fallback"].Count(); n > 0 {
		t.Errorf("the standby had %d RPCs already", n)
	}
	book := watchGroup(t, client, "default")
	l := startLoad(t, client, "default", 1, 2*time.Millisecond, time.Second)
	killed := time.Now()
	p["main"].Kill()
	served(t, client, "default", "fallback")
	l.end()
	for _, a := range l.answers {
		if a.from != "fallback" {
			continue
		}
		if after := a.begun.Add(a.took).Sub(killed); after > recovery+100*time.Millisecond+l.lateness() {
			t.Errorf("the first answer of the standby came after %v, want %v and one connect (late by at most %v here)", after, recovery, l.lateness())
		}
		break
	}
	if list := book.after(t, 1); len(list) != 1 {
		t.Errorf("switches %v, want one", list)
	}
}

// shardedFirst is a client whose default group has a sharded target before a plain
// one.
func shardedFirst(t *testing.T, c *sdktest.Cluster, plain *sdktest.Backend, minReady int, o failover.Options) *sdk.Client {
	t.Helper()
	client, err := sdk.Dial("", sdk.WithTransportCredentials(insecure.NewCredentials()), quickReconnect,
		sdk.WithDialProfile("sharded", sdk.WithResolvers(c.Resolver()), quickService(c), sdk.WithSharding(testSharding())),
		sdk.WithTopology(sdk.Topology{
			Targets: []sdk.TargetConfig{
				{Name: "sharded", URI: c.Target(), Profile: "sharded", MinReady: minReady},
				{Name: "plain", URI: plain.Addr()},
			},
			Groups: []sdk.GroupConfig{timed(o, "default", "sharded", "plain")},
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// A sharded target makes connections as RPCs want them. Nothing being connected, it
// is idle and not down: the first RPC goes there, to the owner of its key.
func TestIdleIsNotDown(t *testing.T) {
	t.Parallel()
	c := sdktest.NewCluster(t, "e1", "e2")
	c.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "e1"), sdktest.From("m", "e2")))
	plain := startPlaces(t, "plain")["plain"]
	client := shardedFirst(t, c, plain, -1, failover.Options{Recovery: -1})
	if _, err := client.WaitReady(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an idle primary", func() bool { return targetState(client, "default", "sharded").State == failover.Idle })
	for _, b := range c.Backends() {
		if n := b.Connections().Accepted; n > 0 {
			t.Errorf("%q has %d connections before the first RPC", b.Name(), n)
		}
	}
	for key, want := range map[string]string{"alice": "e1", "zoe": "e2"} {
		name, err := sdktest.NewEcho(client).Who(interceptors.WithKeyString(within(t, 10*time.Second), key), "")
		if err != nil || name != want {
			t.Errorf("key %q: answered by %q, %v; want %q", key, name, err, want)
		}
	}
	if s := client.Status().Groups[0]; s.Current != "sharded" || len(s.Switches) > 0 || plain.Count() > 0 {
		t.Errorf("current target %q, switches %v, %d RPCs at the other", s.Current, s.Switches, plain.Count())
	}
}

// A sharded primary whose assignment comes late is left for the plain target after
// its grace, and taken back once it can be used, though no RPC goes there to find
// that out, and whether or not an endpoint is kept connected.
func TestG34ShardedPrimaryComesLate(t *testing.T) {
	t.Parallel()
	for name, minReady := range map[string]int{"MinReady 1": 0, "MinReady none": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sdktest.NewCluster(t, "e1", "e2")
			c.SetEndpoints()
			plain := startPlaces(t, "plain")["plain"]
			client := shardedFirst(t, c, plain, minReady, failover.Options{Recovery: 100 * time.Millisecond})
			who := func() string {
				name, err := sdktest.NewEcho(client).Who(interceptors.WithKeyString(within(t, time.Second), "alice"), "")
				if err != nil {
					return ""
				}
				return name
			}
			eventually(t, "plain", func() bool { return who() == "plain" })
			c.Sharding().AssignEven(testTarget, "e1", "e2")
			if err := c.Resolve("e1", "e2"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "sharded", func() bool { return who() == "e1" })
		})
	}
}

// Nobody connects to a target that is down while an operator has it out. Then it is
// tried, and serves; and once no other target is in its group, RPCs alone connect it.
func TestG34NotConnectedForNobody(t *testing.T) {
	t.Parallel()
	c := sdktest.NewCluster(t, "e1", "e2")
	c.SetEndpoints()
	plain := startPlaces(t, "plain")["plain"]
	client := shardedFirst(t, c, plain, -1, failover.Options{Recovery: 100 * time.Millisecond})
	c.Sharding().AssignEven(testTarget, "e1", "e2")
	e1 := c.Backend("e1")
	is := func(state connectivity.State, endpoints int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d endpoints, %v", endpoints, state), func() bool {
			s := client.Status().Targets[0]
			return s.State == state && len(s.Router.Endpoints) == endpoints
		})
	}
	resolve := func(names ...string) {
		t.Helper()
		if err := c.Resolve(names...); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "plain", func() bool { return client.Group("").Current() == "plain" })
	if err := client.SetTargetEnabled("sharded", false, "a test"); err != nil {
		t.Fatal(err)
	}
	resolve("e1")
	is(connectivity.Idle, 1)
	if n := e1.Connections().Accepted; n != 0 {
		t.Errorf("%d connections to a target that is disabled", n)
	}
	e1.Kill()
	if err := client.SetTargetEnabled("sharded", true, ""); err != nil {
		t.Fatal(err)
	}
	is(connectivity.TransientFailure, 1)

	top := client.Topology()
	top.Groups[0].Targets = []string{"sharded"}
	if _, err := client.UpdateTopology(top); err != nil {
		t.Fatal(err)
	}
	if err := e1.Restart(); err != nil {
		t.Fatal(err)
	}
	is(connectivity.Ready, 1) // by itself, for it has failed
	if err := e1.GoAway(); err != nil {
		t.Fatal(err)
	}
	is(connectivity.Idle, 1)
	resolve("e1", "e2")
	is(connectivity.Idle, 2)
	if n := c.Backend("e2").Connections().Accepted; n != 0 {
		t.Errorf("%d connections that no RPC wants", n)
	}
	name, err := sdktest.NewEcho(client).Who(interceptors.WithKeyString(within(t, 10*time.Second), "alice"), "")
	if err != nil || name != "e1" {
		t.Errorf("answered by %q, %v", name, err)
	}
}

// The endpoints of a target that are connected without RPCs are as many as it says,
// one if it says nothing, and from the update on that says something else.
func TestG34MinReadyOfATarget(t *testing.T) {
	t.Parallel()
	c := sdktest.NewCluster(t, "e1", "e2", "e3")
	c.Sharding().AssignEven(testTarget, "e1", "e2", "e3")
	main := startPlaces(t, "main")["main"]
	top := func(minReady int, targets ...string) sdk.Topology {
		return sdk.Topology{
			Targets: []sdk.TargetConfig{
				{Name: "main", URI: main.Addr(), MinReady: -1},
				{Name: "standby", URI: c.Target(), Profile: "sharded", MinReady: minReady},
			},
			Groups: []sdk.GroupConfig{group("default", targets...)},
		}
	}
	client := dialGroups(t, top(-1, "main", "standby"),
		sdk.WithDialProfile("sharded", sdk.WithResolvers(c.Resolver()), quickService(c), sdk.WithSharding(testSharding()),
			sdk.WithConnections(balancer.Connections{Streams: 7})))
	standby := func() sdk.TargetStatus {
		for _, s := range client.Status().Targets {
			if s.Name == "standby" {
				return s
			}
		}
		t.Fatal("no standby")
		return sdk.TargetStatus{}
	}
	accepted := func() (n int) {
		for _, b := range c.Backends() {
			n += b.Connections().Accepted
		}
		return n
	}
	eventually(t, "the assignment", func() bool { return standby().Router.Generation > 0 })
	if n := accepted(); n != 0 {
		t.Errorf("%d connections, want none", n)
	}
	for _, step := range []struct {
		minReady, want int
		targets        []string
	}{
		{0, 0, []string{"standby"}}, // alone
		{0, 1, []string{"main", "standby"}},
		{2, 2, []string{"main", "standby"}},
		{3, 3, []string{"main", "standby"}},
		{-1, 3, []string{"main", "standby"}}, // none is closed for it
	} {
		if _, err := client.UpdateTopology(top(step.minReady, step.targets...)); err != nil {
			t.Fatal(err)
		}
		eventually(t, fmt.Sprintf("%d connections", step.want), func() bool {
			ready := 0
			for _, e := range standby().Router.Endpoints {
				if e.State == connectivity.Ready {
					ready++
				}
			}
			return ready == step.want
		})
		if n := accepted(); n != step.want {
			t.Errorf("MinReady %d: %d connections, want %d", step.minReady, n, step.want)
		}
	}
}

// One target that cannot be resolved at the start does not keep the other one from
// being used, whichever it is.
func TestG53OneSideBroken(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "good")
	failing := sdktest.NewResolver("failing")
	for _, bad := range []string{"broken:///x", "failing:///x"} {
		for _, order := range [][]string{{"bad", "good"}, {"good", "bad"}} {
			t.Run(fmt.Sprint(bad, order), func(t *testing.T) {
				t.Parallel()
				top := p.topology(timed(failover.Options{Recovery: 100 * time.Millisecond}, "default", order...))
				top.Targets = append(top.Targets, sdk.TargetConfig{Name: "bad", URI: bad})
				client := dialGroups(t, top, sdk.WithResolvers(brokenResolver{}, failing))
				failing.ReportError(errors.New("no such name"))
				served(t, client, "default", "good")
				if i := slices.Index(order, "good"); i == 0 && len(client.Status().Groups[0].Switches) > 0 {
					t.Errorf("switches %v", client.Status().Groups[0].Switches)
				}
				for range 20 {
					if a := one(client, "default", time.Second); a.err != nil || a.from != "good" {
						t.Fatalf("answered by %q, %v", a.from, a.err)
					}
				}
				for _, s := range client.Status().Targets {
					if s.Name == "bad" && s.State == connectivity.Ready {
						t.Error("the broken target is ready")
					}
				}
			})
		}
	}
}
