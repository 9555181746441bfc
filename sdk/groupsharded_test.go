package sdk_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// regions are a group of two sharded targets, each a cluster with a sharding service
// of its own, and a plain one. The fixture's Cluster is east.
type regions struct {
	*fixture
	west  *sdktest.Cluster
	plain *sdktest.Backend
}

// startRegions makes a client of the targets east (servers e1 and e2), west (w1 and
// w2) and plain, in this order. In each cluster the first server owns the keys below
// "m", and the second the others.
func startRegions(t testing.TB, opts ...sdk.Option) *regions {
	t.Helper()
	r := &regions{
		fixture: &fixture{Cluster: sdktest.NewCluster(t, "e1", "e2")},
		west:    sdktest.NewCluster(t, "w1", "w2"),
		plain:   startPlaces(t, "plain")["plain"],
	}
	r.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "e1"), sdktest.From("m", "e2")))
	r.west.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "w1"), sdktest.From("m", "w2")))
	r.client = dialGroups(t, r.topology(), slices.Concat([]sdk.Option{
		sdk.WithDialProfile("east", sdk.WithResolvers(r.Resolver()), quickService(r.Cluster), sdk.WithSharding(testSharding())),
		sdk.WithDialProfile("west", sdk.WithResolvers(r.west.Resolver()), quickService(r.west), sdk.WithSharding(testSharding())),
		quickStream(),
	}, opts)...)
	r.echo = sdktest.NewEcho(r.client)
	for target, c := range map[string]*sdktest.Cluster{"east": r.Cluster, "west": r.west} {
		eventually(t, "the assignment of "+target, func() bool {
			return r.target(t, target).Router.Generation == c.Sharding().Generation(testTarget)
		})
	}
	return r
}

func (r *regions) topology() sdk.Topology {
	return sdk.Topology{
		Targets: []sdk.TargetConfig{
			{Name: "east", URI: r.Target(), Profile: "east"},
			{Name: "west", URI: r.west.Target(), Profile: "west"},
			{Name: "plain", URI: "dns:///" + r.plain.Addr()},
		},
		Groups: []sdk.GroupConfig{group("default", "east", "west", "plain")},
	}
}

// target is what Status says of a target.
func (r *regions) target(t testing.TB, name string) sdk.TargetStatus {
	t.Helper()
	for _, target := range r.client.Status().Targets {
		if target.Name == name {
			return target
		}
	}
	t.Fatalf("the client has no target %q", name)
	return sdk.TargetStatus{}
}

// kill kills all servers of a cluster.
func kill(c *sdktest.Cluster) {
	for _, b := range c.Backends() {
		b.Kill()
	}
}

func restart(t testing.TB, c *sdktest.Cluster) {
	t.Helper()
	for _, b := range c.Backends() {
		if err := b.Restart(); err != nil {
			t.Fatal(err)
		}
	}
}

// warm waits until RPCs reach both owners of the current target: one of the two is
// enough for a target to be up. None may reach anybody else.
func (r *regions) warm(t testing.TB, low, high string) {
	t.Helper()
	for key, owner := range map[string]string{"anna": low, "zoe": high} {
		eventually(t, "a key reaches "+owner, func() bool {
			got, err := r.call(key, 5*time.Second)
			if err == nil && got != owner {
				t.Fatalf("a key reached %s, its owner is %s", got, owner)
			}
			return err == nil
		})
	}
}

// moved waits until the group is at a target.
func (r *regions) moved(t testing.TB, target string) {
	t.Helper()
	eventually(t, "the group is at "+target, func() bool {
		// Sharded targets connect to whom keys lead to: without RPCs nothing is known.
		_, _ = r.call("anna", time.Second)
		_, _ = r.call("zoe", time.Second)
		return r.client.Group("").Current() == target
	})
}

// pinned has the group at a target for the rest of the test.
func (r *regions) pinned(t testing.TB, target string) {
	t.Helper()
	if err := r.client.Group("").Pin(target, time.Hour); err != nil {
		t.Fatal(err)
	}
}

// Keys reach their owners in the target that is current, whichever it is, and each
// target's assignment is the newest also while RPCs go to another.
func TestGroupOfShardedTargets(t *testing.T) {
	t.Parallel()
	r := startRegions(t)
	r.warm(t, "e1", "e2")

	// West is a standby, and yet it has the new assignment, and says so.
	generation := r.west.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "w2"), sdktest.From("m", "w1")))
	eventually(t, "the ack of a standby", func() bool { return accepted(r.west, generation) })
	eventually(t, "the standby's picks have it", func() bool { return r.target(t, "west").Router.Generation == generation })
	if got := r.client.Group("").Current(); got != "east" {
		t.Fatalf("the group is at %q", got)
	}
	if n := r.west.Backend("w1").Count() + r.west.Backend("w2").Count(); n != 0 {
		t.Errorf("the standby served %d RPCs", n)
	}

	kill(r.Cluster)
	r.moved(t, "west")
	r.warm(t, "w2", "w1")

	// East is gone, but its sharding service is not.
	generation = r.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "e2"), sdktest.From("m", "e1")))
	eventually(t, "the ack of a target that is down", func() bool { return accepted(r.Cluster, generation) })
	kill(r.west)
	r.moved(t, "plain")
	if got := r.who(t, "anna"); got != "plain" {
		t.Errorf("an RPC reached %q, want the plain target", got)
	}

	restart(t, r.Cluster)
	r.moved(t, "east")
	r.warm(t, "e2", "e1")
	g := r.client.Status().Groups[0]
	if g.Switches[failover.Lost] < 2 || g.Switches[failover.Recovered] == 0 || g.Reason != failover.Recovered {
		t.Errorf("switches %v, the last for %v", g.Switches, g.Reason)
	}
}

func accepted(c *sdktest.Cluster, generation int64) bool {
	return slices.ContainsFunc(c.Sharding().Acks(), func(a sdktest.Ack) bool { return a.Generation == generation && a.Accepted })
}

// IDLE is not down: a sharded target that connects to whom keys lead to, and so to
// nobody without RPCs, keeps its place before a plain one that is READY.
func TestGroupIdleIsNotDown(t *testing.T) {
	t.Parallel()
	r := startRegions(t)
	top := r.topology()
	top.Targets[0].MinReady = -1
	if _, err := r.client.UpdateTopology(top); err != nil {
		t.Fatal(err)
	}
	g := r.client.Group("")
	r.pinned(t, "plain")
	if got := r.who(t, "anna"); got != "plain" { // connects it
		t.Fatalf("pinned to the plain target, an RPC reached %q", got)
	}
	if err := g.Unpin(); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(300 * time.Millisecond); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if got := g.Current(); got != "east" {
			t.Fatalf("the group is at %q; east is %v", got, r.target(t, "east").State)
		}
	}
	if state := r.target(t, "plain").State; state != connectivity.Ready {
		t.Errorf("the plain target is %v, want READY", state)
	}
	r.warm(t, "e1", "e2")
	// One server of two is not the target.
	r.Backend("e1").Kill()
	for range 20 {
		_, _ = r.call("anna", time.Second)
		if got := r.who(t, "zoe"); got != "e2" {
			t.Fatalf("with e1 dead a key of e2 reached %q", got)
		}
	}
	if got := g.Current(); got != "east" {
		t.Errorf("one of two servers died, and the group went to %q", got)
	}
}

// A call without a key is refused by a sharded target, with its name, and not by a
// plain one.
func TestGroupMissingKeyNamesTheTarget(t *testing.T) {
	t.Parallel()
	r := startRegions(t)
	for _, target := range []string{"east", "west"} {
		r.pinned(t, target)
		_, err := r.echo.Who(within(t, 5*time.Second), "")
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), fmt.Sprintf("%q", target)) || !errors.Is(err, interceptors.ErrMissingKey) {
			t.Errorf("at %s: %v", target, err)
		}
	}
	r.pinned(t, "plain")
	if got, err := r.echo.Who(within(t, 5*time.Second), ""); err != nil || got != "plain" {
		t.Errorf("at plain: %q, %v", got, err)
	}
	if n := len(r.Backend("e1").Keys(testHeader)) + len(r.west.Backend("w1").Keys(testHeader)); n != 0 {
		t.Errorf("%d RPCs without a key were sent", n)
	}
}

// The key comes from where the client's options say, in each sharded target, and
// goes on the wire under that target's header.
func TestGroupKeySources(t *testing.T) {
	t.Parallel()
	other := testSharding(func(sh *sdk.Sharding) { sh.KeyHeader = "x-other" })
	r := &regions{fixture: &fixture{Cluster: sdktest.NewCluster(t, "e1")}, west: sdktest.NewCluster(t, "w1"), plain: startPlaces(t, "plain")["plain"]}
	r.AssignEven(testTarget)
	r.west.AssignEven(testTarget)
	r.client = dialGroups(t, r.topology(),
		sdk.WithKeyOptions(interceptors.KeyFrom(interceptors.FieldKey("value"))),
		sdk.WithDialProfile("east", sdk.WithResolvers(r.Resolver()), quickService(r.Cluster), sdk.WithSharding(testSharding())),
		sdk.WithDialProfile("west", sdk.WithResolvers(r.west.Resolver()), quickService(r.west), sdk.WithSharding(other)))
	echo := sdktest.NewEcho(r.client)
	for target, at := range map[string]struct {
		server *sdktest.Backend
		header string
	}{"east": {r.Backend("e1"), testHeader}, "west": {r.west.Backend("w1"), "x-other"}} {
		r.pinned(t, target)
		if got, err := echo.Who(within(t, 5*time.Second), "from-the-request"); err != nil || got != at.server.Name() {
			t.Fatalf("at %s: %q, %v", target, got, err)
		}
		if keys := at.server.Keys(at.header); !slices.Equal(keys, []string{"from-the-request"}) {
			t.Errorf("at %s the header %s held %q", target, at.header, keys)
		}
	}
}

// WaitReady waits for the assignment of the target that is current, and follows the
// group to another.
func TestGroupWaitReadyFollows(t *testing.T) {
	t.Parallel()
	r := startRegions(t)
	r.Sharding().Stop()
	top := r.topology()
	top.Targets = append(top.Targets, sdk.TargetConfig{Name: "silent", URI: r.Target(), Profile: "silent"})
	top.Groups[0].Targets = []string{"silent", "west"}
	client := dialGroups(t, top, quickStream(),
		sdk.WithDialProfile("silent", sdk.WithResolvers(r.Resolver()), quickService(r.Cluster), sdk.WithSharding(testSharding())),
		sdk.WithDialProfile("east", sdk.WithResolvers(r.Resolver()), quickService(r.Cluster), sdk.WithSharding(testSharding())),
		sdk.WithDialProfile("west", sdk.WithResolvers(r.west.Resolver()), quickService(r.west), sdk.WithSharding(testSharding())))
	if _, err := client.WaitReady(within(t, 50*time.Millisecond)); err == nil || !strings.Contains(err.Error(), `"silent"`) {
		t.Errorf("without an assignment: %v, want an error that names the target", err)
	}
	type answer struct {
		ready balancer.Readiness
		err   error
	}
	waited := make(chan answer, 1)
	go func() {
		ready, err := client.WaitReady(within(t, 10*time.Second))
		waited <- answer{ready, err}
	}()
	if err := client.Group("").Pin("west", time.Hour); err != nil {
		t.Fatal(err)
	}
	if a := <-waited; a.err != nil || !a.ready.Assigned || a.ready.Fallback {
		t.Errorf("after the group moved: %v, %v", a.ready, a.err)
	}
	if s := client.Status(); s.Generation == 0 || s.Groups[0].Current != "west" {
		t.Errorf("status %v", s)
	}
}

// Who is told of reassigned ranges is told of those of every target, by its profile
// of which one.
func TestGroupReassigned(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	told := make(map[string][]balancer.Reassignment)
	record := func(target string) sdk.Option {
		return sdk.WithReassignedFunc(func(e balancer.Reassignment) {
			mu.Lock()
			defer mu.Unlock()
			told[target] = append(told[target], e)
		})
	}
	east, west := sdktest.NewCluster(t, "e1", "e2"), sdktest.NewCluster(t, "w1", "w2")
	r := &regions{fixture: &fixture{Cluster: east}, west: west, plain: startPlaces(t, "plain")["plain"]}
	east.AssignEven(testTarget)
	west.AssignEven(testTarget)
	r.client = dialGroups(t, r.topology(), quickStream(),
		sdk.WithDialProfile("east", sdk.WithResolvers(east.Resolver()), quickService(east), sdk.WithSharding(testSharding()), record("east")),
		sdk.WithDialProfile("west", sdk.WithResolvers(west.Resolver()), quickService(west), sdk.WithSharding(testSharding()), record("west")))
	for target, c := range map[string]*sdktest.Cluster{"east": east, "west": west} {
		eventually(t, "the assignment of "+target, func() bool { return r.target(t, target).Router.Generation > 0 })
		name := c.Backends()[0].Name()
		generation, err := c.Sharding().MoveRange(testTarget, "", "", name)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the event of "+target, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.ContainsFunc(told[target], func(e balancer.Reassignment) bool { return e.Generation == generation && len(e.Moved) > 0 })
		})
	}
}

// How keys route in a standby may change as well: it follows, and acks, before any
// RPC goes there, over the connections that it has.
func TestGroupStandbyFollowsSharding(t *testing.T) {
	t.Parallel()
	r := startRegions(t)
	r.warm(t, "e1", "e2")
	r.pinned(t, "plain")
	generation := r.Sharding().Assign("other", sdktest.Ranges(sdktest.From("", "e2"), sdktest.From("m", "e1")))
	top := r.topology()
	sh := testSharding(func(sh *sdk.Sharding) { sh.Target = "other" })
	top.Targets[0].Sharding = &sh
	change, err := r.client.UpdateTopology(top)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(change.Targets.Changed, []string{"east"}) || len(change.Targets.Added)+len(change.Targets.Removed) > 0 {
		t.Errorf("the change is %+v", change)
	}
	eventually(t, "the ack of the standby", func() bool {
		return slices.ContainsFunc(r.Sharding().Acks(), func(a sdktest.Ack) bool {
			return a.Target == "other" && a.Generation == generation && a.Accepted
		})
	})
	eventually(t, "the standby's picks have it", func() bool {
		s := r.target(t, "east").Router
		return s.Config.SlicingTarget == "other" && s.Generation == generation
	})
	r.pinned(t, "east")
	r.warm(t, "e2", "e1")
	for _, b := range r.Backends() {
		if n := b.Connections().Accepted; n != 1 {
			t.Errorf("%s accepted %d connections", b.Name(), n)
		}
	}
}
