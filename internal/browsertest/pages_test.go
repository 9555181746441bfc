package browsertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// eventually polls until ok says so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// call sends one RPC and returns the server that answered, "" if none did.
func call(client *sdk.Client, key string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	who, _ := sdktest.NewEcho(client).Who(interceptors.WithKeyString(ctx, key), "")
	return who
}

// TestKeyAndSlices: an operator looks up a key, sees its owner, and pages through the
// slices; the names of endpoints and selectors are hostile. The key is in no URL.
func TestKeyAndSlices(t *testing.T) {
	names := []string{"a" + evil, "b" + evil}
	c := sdktest.NewCluster(t, names...)
	const slices = 3000
	var a sdktest.Assignment
	for i := range slices {
		s := sdktest.From(fmt.Sprintf("%04d", i), names[i%2])
		if i == 0 {
			s.Start = ""
		}
		a.Slices = append(a.Slices, s)
	}
	c.Sharding().Assign("users", a)
	client, err := sdk.Dial(c.Target(), sdk.WithTransportCredentials(insecure.NewCredentials()), sdk.WithResolvers(c.Resolver()),
		sdk.WithShardingService("main", c.Sharding().Addr(), grpc.WithTransportCredentials(insecure.NewCredentials())),
		sdk.WithSharding(sdk.Sharding{ServiceKey: "main", Target: "users", KeyHeader: "x-user"}),
		sdk.WithSelector("spread"+evil, selection.RoundRobin()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	const key = "1234-zq-marker"
	eventually(t, "an RPC", func() bool { return call(client, key) == names[0] })

	b := open(t, client)
	b.visit("")
	b.wants("main", "Groups", "READY")
	b.picture("overview")

	b.follow(`nav a[href="key"]`)
	b.enter(`input[name="key"]`, key)
	b.follow("form button")
	b.wants("h2", "It goes to", "alert(")
	b.wants("#why", "READY owner of the key's slice")
	b.wants("main", "number 1234", "Owners of the slice: 1", `"1234"`, `"1235"`)
	b.picture("key")

	b.follow(`dd a[href^="slices"]`)
	b.wants("main", "3000 slices", "1234 to 1284")
	b.visit("slices")
	b.wants("tbody tr:first-child", "0", "alert(")
	b.follow(`a[rel="next"]`)
	b.wants("tbody tr:first-child", "50", `"0050"`)
	b.follow(`a[rel="next"]`)
	b.wants("tbody tr:first-child", "100", `"0100"`)
	b.follow(`a[rel="prev"]`)
	b.wants("tbody tr:first-child", "50", `"0050"`)
	b.enter(`input[name="start"]`, key)
	b.follow("form button")
	b.wants("tr.current", "1234")
	b.picture("slices")

	for _, name := range []string{"endpoints", "selectors", "stream", "config", "events"} {
		b.visit(name)
		b.picture(name)
	}
	for _, name := range []string{"", "endpoints", "selectors", "slices", "key", "stream", "config", "events"} {
		b.visit(name + "?format=json")
	}
	if all := b.requests(); strings.Contains(all, "zq-marker") || strings.Contains(all, "from http") {
		t.Errorf("a key, or where somebody came from, is in what the server was asked: %s", all)
	}
}

// TestFailover: an operator sees a group go to another target, since when and why,
// also once the client is closed; the names of groups and targets are hostile.
func TestFailover(t *testing.T) {
	near, far := "near"+evil, "far"+evil
	top := sdk.Topology{Groups: []sdk.GroupConfig{{Name: "read" + evil, Targets: []string{near, far}}}}
	servers := make(map[string]*sdktest.Backend)
	for _, name := range []string{near, far} {
		s, err := sdktest.StartBackend(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		servers[name] = s
		top.Targets = append(top.Targets, sdk.TargetConfig{Name: name, URI: "dns:///" + s.Addr()})
	}
	client, err := sdk.Dial("", sdk.WithTransportCredentials(insecure.NewCredentials()), sdk.WithTopology(top))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	eventually(t, "an RPC at the near target", func() bool { return call(client, "k") == near })

	b := open(t, client)
	const current = "tbody tr td strong"
	b.visit("")
	b.wants(current, near)
	b.picture("group-before")
	servers[near].Kill()
	eventually(t, "the other target on the page", func() bool {
		call(client, "k")
		b.visit("")
		return b.text(current) == far
	})
	b.picture("group-after")
	eventually(t, "the event on the page", func() bool {
		b.visit("events")
		return strings.Contains(b.text("main"), "a group of targets switched")
	})
	b.wants("tr.trouble", "from="+near, "to="+far)
	b.picture("group-events")
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	b.visit("")
	b.wants(".warning", "The client is closed")
	b.wants(current, far)
	b.picture("closed")
}
