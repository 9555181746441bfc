package sdk_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// endpointAt is an endpoint of one name at the port of another backend.
func (f *fixture) endpointAt(name, backend string) resolver.Endpoint {
	return sdktest.Endpoint(name, f.Backend(backend).Addr())
}

// TestAssignmentAheadOfTheResolver_EC02 also holds A-01: endpoints come from the
// name resolver alone, so a host that only the assignment names is never
// dialled; when the resolver adds it, its slice moves with no new assignment.
func TestAssignmentAheadOfTheResolver_EC02(t *testing.T) {
	for name, fallback := range map[string]bool{"fallback on": true, "fallback off": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, testSharding(func(sh *sdk.Sharding) { sh.Fallback = fallback }), []string{"e1", "e2", "e3"})
			if _, err := f.Start("e9"); err != nil {
				t.Fatal(err)
			}
			f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "e1"), sdktest.From("m", "e9")))
			f.who(t, "a")
			for range 20 {
				got, err := f.call("z", 5*time.Second)
				switch {
				case fallback && (err != nil || got == "e9"):
					t.Fatalf("reached %q, %v; want any of e1 to e3", got, err)
				case !fallback && (status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "resolver knows none")):
					t.Fatalf("reached %q, %v; want UNAVAILABLE that says the resolver does not know the owner", got, err)
				}
			}
			if n := f.Backend("e9").Connections().Accepted; n != 0 {
				t.Fatalf("%d connections to a host that the resolver does not know", n)
			}
			if n := f.client.Status().UnknownOwners; n != 1 {
				t.Errorf("%d unknown owners in the status, want 1", n)
			}
			if err := f.Resolve("e1", "e2", "e3", "e9"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "slice on e9", func() bool { got, _ := f.call("z", 5*time.Second); return got == "e9" })
			if n := len(f.Sharding().Acks()); n != 1 {
				t.Errorf("%d acks, want 1: the slice moves without a new assignment", n)
			}
		})
	}
}

// TestKeysFollowHostnames_A02: an update swaps the ports of two endpoints.
func TestKeysFollowHostnames_A02(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"h1", "h2"})
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "h1"), sdktest.From("m", "h2")))
	if a, z := f.who(t, "a"), f.who(t, "z"); a != "h1" || z != "h2" {
		t.Fatalf("reached %q and %q", a, z)
	}
	f.SetEndpoints(f.endpointAt("h1", "h2"), f.endpointAt("h2", "h1"))
	eventually(t, "the swap", func() bool { return f.who(t, "a") == "h2" && f.who(t, "z") == "h1" })

	// Without hostnames the first address is the name.
	byAddress := f.Backend("h1").Addr()
	f.SetEndpoints(
		resolver.Endpoint{Addresses: []resolver.Address{{Addr: byAddress}}},
		resolver.Endpoint{Addresses: []resolver.Address{{Addr: f.Backend("h2").Addr()}}})
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", byAddress)))
	eventually(t, "owner by address", func() bool { got, _ := f.call("z", time.Second); return got == "h1" })
}

// TestDuplicateHostnames_EC04 also holds A-03.
func TestDuplicateHostnames_EC04(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"h1", "h1b", "h2"})
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "h1"), sdktest.From("m", "h2")))
	first, second, other := f.endpointAt("h1", "h1"), f.endpointAt("h1", "h1b"), f.endpointAt("h2", "h2")
	f.SetEndpoints(first, second, other)
	expect := func() {
		t.Helper()
		for range 10 {
			if a, z := f.who(t, "a"), f.who(t, "z"); a != "h1" || z != "h2" {
				t.Fatalf("reached %q and %q, want h1 and h2", a, z)
			}
		}
		if n := f.connections(); n != 2 {
			t.Fatalf("%d connections, want one to h1 and one to h2", n)
		}
	}
	expect()
	if n := len(f.client.Status().Endpoints); n != 2 {
		t.Errorf("%d endpoints, want 2", n)
	}
	f.SetEndpoints(first, other, sdktest.Endpoint("h3", "127.0.0.1:1"))
	eventually(t, "the update", func() bool { return len(f.client.Status().Endpoints) == 3 })
	expect()
}

// TestEmptyEndpointList_EC03 also holds A-29.
func TestEmptyEndpointList_EC03(t *testing.T) {
	t.Run("A119", func(t *testing.T) {
		t.Parallel()
		f := start(t, testSharding(withFallback), []string{"a"})
		f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a")))
		f.who(t, "k")
		polls := f.Resolver().ResolveNows()
		if err := f.Resolve(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "no endpoints", func() bool { return len(f.client.Status().Endpoints) == 0 })
		eventually(t, "TRANSIENT_FAILURE", func() bool { return f.client.Status().State == connectivity.TransientFailure })
		if n := f.client.Status().EmptyUpdates; n != 1 {
			t.Errorf("%d empty updates, want 1", n)
		}
		// A call that waits for ready is released by the list's return.
		queued := make(chan error, 1)
		go func() {
			_, err := f.call("k", 10*time.Second, patient)
			queued <- err
		}()
		for range 100 {
			began := time.Now()
			_, err := f.call("k", 5*time.Second)
			if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "resolver gave no endpoints") || !strings.Contains(err.Error(), f.Target()) {
				t.Fatalf("got %v, want UNAVAILABLE that says the resolver gave no endpoints", err)
			}
			if d := time.Since(began); d > time.Second {
				t.Fatalf("failed after %v, want at once", d)
			}
		}
		if n := f.Resolver().ResolveNows() - polls; n > 2 {
			t.Errorf("the resolver was asked %d times again", n)
		}
		if err := f.Resolve("a"); err != nil {
			t.Fatal(err)
		}
		if err := <-queued; err != nil {
			t.Errorf("the call that waited for ready: %v", err)
		}
		if got := f.who(t, "k"); got != "a" {
			t.Errorf("reached %q", got)
		}
	})
	t.Run("keep last", func(t *testing.T) {
		t.Parallel()
		f := start(t, testSharding(), []string{"a", "b"}, sdk.WithKeepLastEndpoints())
		f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
		f.who(t, "k")
		tr := f.flow(t, 2, time.Millisecond, "k", "z")
		if err := f.Resolve(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the empty update is counted", func() bool { return f.client.Status().EmptyUpdates == 1 })
		n := tr.total()
		eventually(t, "more calls", func() bool { return tr.total() > n+200 })
		tr.mustBeClean(t)
		if n := f.connections(); n != 2 {
			t.Errorf("%d connections, want 2: nothing reconnects", n)
		}
		if n := len(f.client.Status().Endpoints); n != 2 {
			t.Errorf("%d endpoints in the status, want the 2 that were kept", n)
		}
		if err := f.Resolve("b"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the next list counts", func() bool { return len(f.client.Status().Endpoints) == 1 })
	})
}

// TestSameNameNewAddress_EC05: an endpoint moves to a new port again and again
// under load, with calls in flight.
func TestSameNameNewAddress_EC05(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"h1", "h2"})
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "h1")))
	f.who(t, "k")
	h1 := f.Backend("h1")
	h1.SlowCalls(5 * time.Millisecond) // so that calls are in flight at each move
	tr := f.flow(t, 4, time.Millisecond, "k")
	for i := range 50 {
		if err := h1.Move(); err != nil {
			t.Fatal(err)
		}
		if err := f.Resolve("h1", "h2"); err != nil {
			t.Fatal(err)
		}
		if err := h1.WaitConnections(within(t, 10*time.Second), i+2); err != nil {
			t.Fatal(err)
		}
	}
	n := tr.total()
	eventually(t, "calls go on", func() bool { return tr.total() > n+20 })
	if answers := tr.mustBeClean(t); len(answers) != 1 {
		t.Errorf("answers from %v, want h1 alone", answers)
	}
	if c := h1.Connections(); c.Strays != 0 || c.Accepted != 51 {
		t.Errorf("%+v; want 51 accepted, one for each port, and no stray", c)
	}
	eventually(t, "READY at the end", func() bool { return f.client.Status().State == connectivity.Ready })
	if err := h1.WaitLive(within(t, 5*time.Second), 1); err != nil {
		t.Errorf("old connections stay open: %v", err)
	}
}

// TestResolverFailsAndComesBack_EC08 also holds P-19 and S-26.
func TestResolverFailsAndComesBack_EC08(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"a", "b"})
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a", "c")))
	f.who(t, "k")
	tr := f.flow(t, 2, time.Millisecond, "k")
	trouble := errors.New("the registry is away")
	var last uint64
	for range 40 {
		f.Resolver().ReportError(trouble)
		n := tr.total()
		eventually(t, "calls between errors", func() bool { return tr.total() > n+5 })
	}
	eventually(t, "errors are counted", func() bool { last = f.client.Status().ResolverErrors; return last >= 30 })
	if err := f.client.Status().LastResolverError; !errors.Is(err, trouble) {
		t.Errorf("last resolver error is %v", err)
	}
	if answers := tr.mustBeClean(t); len(answers) != 1 {
		t.Errorf("answers from %v, want a alone", answers)
	}
	if n := f.connections(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	if _, err := f.Start("c"); err != nil {
		t.Fatal(err)
	}
	if err := f.Resolve("b", "c"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new set", func() bool { return f.who(t, "k") == "c" })
}

// TestResolverFailsFirst_EC08: with nothing resolved yet, errors say so, and the
// first good list heals.
func TestResolverFailsFirst_EC08(t *testing.T) {
	t.Parallel()
	c := sdktest.NewCluster(t, "a")
	c.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a")))
	r := sdktest.NewResolver("late")
	client, err := sdk.Dial("late:///x", append(clusterOptions(c, testSharding()), sdk.WithResolvers(r))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	f := &fixture{Cluster: c, client: client, echo: sdktest.NewEcho(client)}
	// gRPC starts to resolve with the first call.
	queued := make(chan error, 1)
	go func() {
		_, err := f.call("k", 10*time.Second, patient)
		queued <- err
	}()
	eventually(t, "resolver built", func() bool { return r.Builds() == 1 })
	r.ReportError(errors.New("the registry is away"))
	eventually(t, "the error", func() bool {
		_, err := f.call("k", 5*time.Second)
		return status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "the registry is away")
	})
	r.SetEndpoints(c.Endpoints()...)
	if err := <-queued; err != nil {
		t.Errorf("the call that waited for ready: %v", err)
	}
}

// TestByteOrder_PF10
func TestByteOrder_PF10(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(func(sh *sdk.Sharding) { sh.KeyHeader = "x-user-bin" }), []string{"a", "b", "c"})
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b"), sdktest.From("\x80", "c")))
	for key, want := range map[string]string{
		"m": "b", "lzzz": "a", "": "a", "\x7f": "b", "\x80": "c", "\xff": "c", "m\x00": "b", "l\xff\xff": "a", "\x00": "a",
		strings.Repeat("k", 10<<10): "a", strings.Repeat("\xff", 10<<10): "c",
	} {
		if got := f.who(t, key); got != want {
			t.Errorf("key %.8q of %d bytes reached %q, want %q", key, len(key), got, want)
		}
	}
}

// TestEmptyHeaderIsAKey_PF10
func TestEmptyHeaderIsAKey_PF10(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"a", "b"})
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
	ctx := metadata.AppendToOutgoingContext(within(t, 10*time.Second), testHeader, "")
	if got, err := f.echo.Who(ctx, ""); err != nil || got != "a" {
		t.Errorf("reached %q, %v; want a", got, err)
	}
	if keys := f.Backend("a").Keys(testHeader); len(keys) != 1 || keys[0] != "" {
		t.Errorf("the server saw %q, want one empty value", keys)
	}
}

// keeper is a resolver that uses its list again, as a careless one does.
type keeper struct {
	cc   chan resolver.ClientConn
	once sync.Once
}

func (*keeper) Scheme() string { return "keeper" }

func (k *keeper) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	k.once.Do(func() { k.cc <- cc })
	return k, nil
}

func (*keeper) ResolveNow(resolver.ResolveNowOptions) {}
func (*keeper) Close()                                {}

// TestEndpointListIsCopied_LL07: what a resolver does to its list after the
// update changes nothing.
func TestEndpointListIsCopied_LL07(t *testing.T) {
	t.Parallel()
	k := &keeper{cc: make(chan resolver.ClientConn, 1)}
	c := sdktest.NewCluster(t, "a", "b")
	c.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
	client, err := sdk.Dial("keeper:///x", append(clusterOptions(c, testSharding()), sdk.WithResolvers(k), sdk.WithDialOptions(grpc.WithNoProxy()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	f := &fixture{Cluster: c, client: client, echo: sdktest.NewEcho(client)}
	go func() { _, _ = client.WaitReady(within(t, 10*time.Second)) }()
	cc := <-k.cc
	for range 50 {
		list := []resolver.Endpoint{f.endpointAt("a", "a"), f.endpointAt("b", "b")}
		if err := cc.UpdateState(resolver.State{Endpoints: list}); err != nil {
			t.Fatal(err)
		}
		list[0].Addresses[0].Addr = "127.0.0.1:1"
		list[0], list[1] = list[1], resolver.Endpoint{}
		if a, z := f.who(t, "a"), f.who(t, "z"); a != "a" || z != "b" {
			t.Fatalf("reached %q and %q", a, z)
		}
	}
}

// TestKeyHeaderChanges: issue A, A-01. The resolver's config names another header
// again and again; calls that began under the one before are routed all the same.
func TestKeyHeaderChanges_A01(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"a", "b"})
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
	f.who(t, "a")
	tr := f.flow(t, 8, time.Millisecond, "a", "z")
	for i := range 100 {
		header := []string{"x-tenant", testHeader}[i%2]
		f.Resolver().SetServiceConfig(`{"loadBalancingConfig":[{"autosharding_experimental":{
			"channelFactoryKey":"main","slicingTarget":"users","sliceKeyHeaderName":"` + header + `"}}]}`)
		n := tr.total()
		eventually(t, "calls under the new header", func() bool {
			return tr.total() > n+8 && f.client.Status().Config.KeyHeader == header
		})
	}
	tr.mustBeClean(t)
	if a, z := len(f.Backend("a").Keys("x-tenant")), len(f.Backend("b").Keys("x-tenant")); a == 0 || z == 0 {
		t.Errorf("%d and %d calls under the other header", a, z)
	}
}
