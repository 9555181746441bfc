package sdk_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// startPlain makes a cluster and a client without sharding, whose default selector has
// policy p.
func startPlain(t testing.TB, names []string, p selection.Policy, opts ...sdk.Option) *fixture {
	t.Helper()
	c := sdktest.NewCluster(t, names...)
	client, err := sdk.Dial(c.Target(), slices.Concat([]sdk.Option{
		sdk.WithTransportCredentials(insecure.NewCredentials()),
		sdk.WithResolvers(c.Resolver()),
		sdk.WithSelector(sdk.DefaultSelector, p),
	}, opts)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &fixture{Cluster: c, client: client, echo: sdktest.NewEcho(client)}
}

// whoBy sends one RPC by a selector and returns the name of the server.
func (f *fixture) whoBy(t testing.TB, selector, key string) string {
	t.Helper()
	ctx := interceptors.WithSelector(within(t, 10*time.Second), selector)
	if key != "" {
		ctx = interceptors.WithKeyString(ctx, key)
	}
	name, err := f.echo.Who(ctx, "")
	if err != nil {
		t.Fatalf("RPC by selector %q failed: %v", selector, err)
	}
	return name
}

// allConnected waits until every backend has a connection.
func (f *fixture) allConnected(t testing.TB) {
	t.Helper()
	for _, b := range f.Backends() {
		if err := b.WaitConnections(within(t, 10*time.Second), 1); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all READY", func() bool {
		for _, e := range f.client.Status().Endpoints {
			if e.State.String() != "READY" {
				return false
			}
		}
		return true
	})
}

// oneConnectionEach fails if a server has accepted more than one.
func (f *fixture) oneConnectionEach(t testing.TB) {
	t.Helper()
	for _, b := range f.Backends() {
		if n := b.Connections().Accepted; n != 1 {
			t.Errorf("%s has accepted %d connections, want exactly 1", b.Name(), n)
		}
	}
}

// TestP01SelectorsShareConnections: selectors rr, hash and sliced serve over one
// connection for each endpoint.
func TestP01SelectorsShareConnections(t *testing.T) {
	f := start(t, testSharding(), []string{"e1", "e2", "e3"},
		sdk.WithSelector("rr", selection.RoundRobin()),
		sdk.WithSelector("hash", selection.Ketama(selection.KetamaOptions{})),
		sdk.WithSelectorsByMethod(map[string]string{"/" + sdktest.EchoService + "/*": "rr"}))
	f.AssignEven(testTarget)
	if st := f.client.Status(); len(st.Endpoints) != 0 {
		t.Errorf("S-14: %d endpoints before the first RPC", len(st.Endpoints))
	}
	byHash := map[string]string{}
	for i := range 60 {
		key := fmt.Sprint("user-", i)
		byHash[key] = f.whoBy(t, "hash", key)
		f.whoBy(t, sdk.DefaultSelector, key)
		f.whoBy(t, "rr", "")
	}
	f.allConnected(t)
	got := map[string]int{}
	for range 90 {
		name, err := f.echo.Who(within(t, 10*time.Second), "") // by its method
		if err != nil {
			t.Fatal(err)
		}
		got[name]++
	}
	for _, name := range []string{"e1", "e2", "e3"} {
		if got[name] != 30 {
			t.Errorf("round robin gave %v, want 30 each", got)
		}
	}
	for key, name := range byHash {
		if again := f.whoBy(t, "hash", key); again != name {
			t.Errorf("a key moved from %s to %s", name, again)
		}
	}
	f.oneConnectionEach(t)
	if s := f.client.Selector("hash"); s == nil || s.Policy().String() != "ketama" {
		t.Errorf("selector hash is %+v", s)
	}
}

// TestS01Transitions: each ordered pair of policies under load; no RPC fails, each
// server has one connection, and the next picks follow the new policy. It also
// holds P-33: what is in flight is counted over all of them, and 0 at the end.
func TestS01Transitions(t *testing.T) {
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.P2C())
	f.whoBy(t, "", "")
	f.allConnected(t)
	pinned := func(name string) selection.Policy { return selection.Custom("pin-"+name, pin{name}) }
	policies := []selection.Policy{
		selection.P2C(), selection.Random(), selection.RoundRobin(), selection.LeastPending(),
		selection.Weighted(nil), selection.Ketama(selection.KetamaOptions{}), pinned("e1"), pinned("e2"),
	}
	tr := f.flow(t, 4, time.Millisecond, "")
	s := f.client.Selector(sdk.DefaultSelector)
	for i, from := range policies {
		for j, to := range policies {
			if i == j {
				continue
			}
			for _, p := range []selection.Policy{from, to} {
				pub, err := s.Publish(p, balancer.FromCode)
				if err != nil {
					t.Fatal(err)
				}
				if err := pub.Wait(within(t, 10*time.Second)); err != nil {
					t.Fatal(err)
				}
			}
			if want, ok := to.String(), to.Kind() == selection.KindCustom; ok {
				for range 5 {
					if got := f.whoBy(t, "", ""); "pin-"+got != want {
						t.Errorf("%v to %v: an RPC went to %s", from, to, got)
					}
				}
			}
		}
	}
	tr.mustBeClean(t)
	f.oneConnectionEach(t)
	eventually(t, "nothing in flight", func() bool {
		for _, e := range f.client.Status().Endpoints {
			if e.Pending != 0 {
				return false
			}
		}
		return true
	})
}

// pin chooses one endpoint by name.
type pin struct{ name string }

func (p pin) Select(in selection.Input) int {
	for i := range in.Len() {
		if in.Member(i).Name() == p.name && !in.Excluded(i) {
			return i
		}
	}
	return selection.NoOpinion
}

// selectorCtx is a context for one RPC by a selector.
func selectorCtx(t testing.TB, name string) context.Context {
	t.Helper()
	return interceptors.WithSelector(within(t, 10*time.Second), name)
}
