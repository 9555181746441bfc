package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// soon fails the test if what takes longer than d.
func soon(t testing.TB, d time.Duration, what string, do func()) {
	t.Helper()
	began := time.Now()
	do()
	if took := time.Since(began); took > d {
		t.Errorf("%s took %v, want less than %v", what, took, d)
	}
}

// mustBeClosed checks that everything on f's client says that it is closed.
func (f *fixture) mustBeClosed(t testing.TB) {
	t.Helper()
	soon(t, time.Second, "use after Close", func() {
		_, invoke := f.echo.Who(withKey(t, 5*time.Second, "k"), "", grpc.WaitForReady(true))
		_, stream := f.echo.Watch(withKey(t, 5*time.Second, "k"), "")
		_, ready := f.client.WaitReady(within(t, 5*time.Second))
		_, keyless := f.echo.Who(context.Background(), "")
		for name, err := range map[string]error{"RPC": invoke, "stream": stream, "WaitReady": ready, "RPC without key": keyless} {
			if !errors.Is(err, sdk.ErrClosed) || status.Code(err) != codes.Canceled {
				t.Errorf("%s after Close: %v", name, err)
			}
		}
		if err := f.client.Close(); err != nil {
			t.Errorf("Close again: %v", err)
		}
		if err := f.client.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown again: %v", err)
		}
		_ = f.client.Status()
	})
}

func TestCloseTwiceEarlyAndUseAfter_LL02_A35(t *testing.T) {
	t.Parallel()
	stages := map[string]func(t *testing.T, f *fixture){
		"at once": func(*testing.T, *fixture) {},
		"while connecting": func(t *testing.T, f *fixture) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_, _ = f.client.WaitReady(ctx)
		},
		"the service does not answer": func(t *testing.T, f *fixture) {
			if err := f.Sharding().BlackHole(); err != nil {
				t.Fatal(err)
			}
			_, _ = f.client.WaitReady(within(t, 50*time.Millisecond))
		},
		"the port is refused": func(t *testing.T, f *fixture) {
			f.Sharding().Stop()
			_, _ = f.client.WaitReady(within(t, 50*time.Millisecond))
		},
		"in a stream":   func(t *testing.T, f *fixture) { f.openStream(t) },
		"after traffic": func(t *testing.T, f *fixture) { f.AssignEven(testTarget); _ = f.who(t, "k") },
		"in backoff": func(t *testing.T, f *fixture) {
			f.Sharding().Refuse(codes.Unavailable, "no")
			_, _ = f.client.WaitReady(within(t, 50*time.Millisecond))
		},
	}
	for name, stage := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := make(chan balancer.Reassignment, 100)
			f := start(t, testSharding(), []string{"a", "b"}, sdk.WithReassignedFunc(func(r balancer.Reassignment) { calls <- r }))
			stage(t, f)
			soon(t, 2*time.Second, "Close", func() {
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() {
						if err := f.client.Close(); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
			})
			f.mustBeClosed(t)
			// Nothing is opened and no callback fires any more.
			_ = f.Sharding().Restart()
			accepted := f.Sharding().Connections().Accepted
			f.AssignEven(testTarget)
			f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "b")))
			time.Sleep(50 * time.Millisecond)
			if n := f.Sharding().Connections().Accepted; n != accepted || f.Sharding().Streams().Live != 0 {
				t.Errorf("after Close: %d connections more, %d streams", n-accepted, f.Sharding().Streams().Live)
			}
			if len(calls) > 0 {
				t.Errorf("after Close the callback said %+v", <-calls)
			}
		})
	}
}

// Close waits for RPCs in flight, refuses new ones meanwhile, and gives up in time.
func TestCloseDrains_LL02_A35(t *testing.T) {
	t.Parallel()
	// inFlight starts a unary call and a stream that stay in flight.
	inFlight := func(t *testing.T, f *fixture) (answers chan error) {
		f.assigned(t, sdktest.From("", "a"))
		_ = f.who(t, "k")
		stream, err := f.echo.Talk(withKey(t, 20*time.Second, "k"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Ask("hello"); err != nil {
			t.Fatal(err)
		}
		f.Backend("a").Hold()
		answers = make(chan error, 2)
		go func() {
			_, err := f.echo.Who(withKey(t, 20*time.Second, "k"), "")
			answers <- err
			if err == nil {
				_, err = stream.Ask("still there")
			}
			if err == nil {
				_ = stream.CloseSend()
				if _, err = stream.Recv(); errors.Is(err, io.EOF) {
					err = nil
				}
			}
			answers <- err
		}()
		if err := f.Backend("a").WaitInFlight(within(t, 5*time.Second), 2); err != nil {
			t.Fatal(err)
		}
		return answers
	}
	t.Run("RPCs end in time", func(t *testing.T) {
		t.Parallel()
		f := start(t, testSharding(), []string{"a"})
		answers := inFlight(t, f)
		closed := make(chan struct{})
		go func() { _ = f.client.Close(); close(closed) }()
		eventually(t, "new RPCs are refused", func() bool {
			ctx, cancel := context.WithTimeout(interceptors.WithKeyString(context.Background(), "k"), time.Millisecond)
			defer cancel()
			_, err := f.echo.Who(ctx, "")
			return errors.Is(err, sdk.ErrClosed)
		})
		select {
		case <-closed:
			t.Fatal("Close returned with RPCs in flight")
		case <-time.After(100 * time.Millisecond):
		}
		f.Backend("a").Release()
		for range 2 {
			if err := <-answers; err != nil {
				t.Errorf("an RPC in flight failed: %v", err)
			}
		}
		soon(t, 2*time.Second, "Close after the last RPC", func() { <-closed })
		f.mustBeClosed(t)
	})
	for name, option := range map[string]sdk.Option{
		"drain timeout": sdk.WithDrainTimeout(200 * time.Millisecond), "no drain": sdk.WithDrainTimeout(0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, testSharding(), []string{"a"}, option)
			answers := inFlight(t, f)
			defer f.Backend("a").Release()
			soon(t, 2*time.Second, "Close", func() { _ = f.client.Close() })
			if err := <-answers; status.Code(err) != codes.Canceled {
				t.Errorf("an RPC that Close cut: %v", err)
			}
		})
	}
	t.Run("Shutdown", func(t *testing.T) {
		t.Parallel()
		f := start(t, testSharding(), []string{"a"})
		_ = inFlight(t, f)
		defer f.Backend("a").Release()
		soon(t, 2*time.Second, "Shutdown", func() {
			if err := f.client.Shutdown(within(t, 100*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Shutdown with RPCs in flight: %v", err)
			}
		})
		f.mustBeClosed(t)
		g := start(t, testSharding(), []string{"a"})
		g.AssignEven(testTarget)
		_ = g.who(t, "k")
		if err := g.client.Shutdown(within(t, 5*time.Second)); err != nil {
			t.Errorf("Shutdown with none in flight: %v", err)
		}
	})
	// A Shutdown that has no patience ends the wait of a Close that has.
	t.Run("Shutdown hastens Close", func(t *testing.T) {
		t.Parallel()
		f := start(t, testSharding(), []string{"a"})
		_ = inFlight(t, f)
		defer f.Backend("a").Release()
		closed := make(chan struct{})
		go func() { _ = f.client.Close(); close(closed) }()
		eventually(t, "closing", func() bool {
			_, err := f.client.WaitReady(within(t, time.Second))
			return errors.Is(err, sdk.ErrClosed)
		})
		soon(t, 2*time.Second, "Shutdown", func() {
			if err := f.client.Shutdown(within(t, 50*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Shutdown: %v", err)
			}
			<-closed
		})
	})
	// Queued RPCs are in flight too: Close does not wait for them for ever, and
	// they learn that it is over.
	t.Run("queued RPCs", func(t *testing.T) {
		t.Parallel()
		f := start(t, testSharding(), []string{"a"}, sdk.WithDrainTimeout(100*time.Millisecond))
		f.openStream(t)
		answer := make(chan error, 1)
		go func() {
			_, err := f.echo.Who(withKey(t, 20*time.Second, "k"), "", grpc.WaitForReady(true))
			answer <- err
		}()
		eventually(t, "a queued pick", func() bool { return f.client.Status().Picks.Queued > 0 })
		soon(t, 2*time.Second, "Close", func() { _ = f.client.Close() })
		if err := <-answer; status.Code(err) != codes.Canceled {
			t.Errorf("a queued RPC: %v", err)
		}
	})
	t.Run("WaitReady", func(t *testing.T) {
		t.Parallel()
		f := start(t, testSharding(), []string{"a"})
		f.openStream(t)
		answer := make(chan error, 1)
		go func() {
			_, err := f.client.WaitReady(within(t, 20*time.Second))
			answer <- err
		}()
		time.Sleep(20 * time.Millisecond)
		soon(t, 500*time.Millisecond, "WaitReady during Close", func() {
			_ = f.client.Close()
			if err := <-answer; !errors.Is(err, sdk.ErrClosed) {
				t.Errorf("WaitReady during Close: %v", err)
			}
		})
	})
}

// A stream that its caller abandons by cancelling does not hold up Close.
func TestAbandonedStreamsDoNotHoldUpClose_LL02(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"a"})
	f.assigned(t, sdktest.From("", "a"))
	for i := range 10 {
		ctx, cancel := context.WithCancel(withKey(t, 20*time.Second, "k"))
		s, err := f.echo.Watch(ctx, "")
		if err == nil && i%2 == 0 {
			_, err = s.Recv()
		}
		if err != nil {
			t.Error(err)
		}
		cancel()
	}
	soon(t, 2*time.Second, "Close", func() { _ = f.client.Close() })
}

// One set of options, and one endpoint list, for two clients, changed by the
// caller afterwards.
func TestArgumentsAreNotOursToChange_LL07(t *testing.T) {
	t.Parallel()
	c := sdktest.NewCluster(t, "a", "b")
	c.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
	c.Sharding().Assign("orders", sdktest.Ranges(sdktest.From("", "b")))
	state := resolver.State{Endpoints: c.Endpoints()}
	builder := &sharedResolver{state: state}
	sh := testSharding()
	serviceOptions := []grpc.DialOption{plaintext}
	dialOptions := []grpc.DialOption{grpc.WithUserAgent("first")}
	resolvers := []resolver.Builder{builder}
	options := []sdk.Option{
		plain,
		sdk.WithResolvers(resolvers...),
		sdk.WithShardingService("main", c.Sharding().Addr(), serviceOptions...),
		sdk.WithDialOptions(dialOptions...),
		sdk.WithSharding(sh),
		quickStream(),
	}
	before := slices.Clone(options)
	var clients []*fixture
	for range 2 {
		client, err := sdk.Dial("shared:///x", options...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		clients = append(clients, &fixture{Cluster: c, client: client, echo: sdktest.NewEcho(client)})
	}
	_ = clients[0].who(t, "zoe") // one is connected, the other is not yet
	// What the caller does with what is theirs.
	sh.Target, sh.KeyHeader = "orders", "x-changed"
	serviceOptions[0] = grpc.WithTransportCredentials(nil)
	dialOptions[0] = grpc.WithUserAgent("second")
	resolvers[0] = nil
	for i := range options {
		if fmt.Sprintf("%p", options[i]) != fmt.Sprintf("%p", before[i]) {
			t.Errorf("Dial changed option %d", i)
		}
		options[i] = nil
	}
	for i, f := range clients {
		for key, want := range map[string]string{"alice": "a", "zoe": "b"} {
			if got := f.who(t, key); got != want {
				t.Errorf("client %d: %q reached %q, want %q", i, key, got, want)
			}
		}
		if s := f.client.Status(); s.Config.SlicingTarget != testTarget || s.Config.KeyHeader != testHeader {
			t.Errorf("client %d routes by %+v", i, s.Config)
		}
	}
	if calls := c.Backend("a").Calls(); len(calls) == 0 || calls[0].Metadata.Get("user-agent")[0][:5] != "first" {
		t.Error("the user agent is not the one that was given")
	}
	for i, e := range builder.state.Endpoints {
		if e.Addresses[0].Addr != c.Endpoints()[i].Addresses[0].Addr {
			t.Errorf("endpoint %d of the caller's list was changed", i)
		}
	}
}

// sharedResolver gives its very own slices to every channel, and scribbles over
// a copy's worth of them as soon as it may.
type sharedResolver struct{ state resolver.State }

func (r *sharedResolver) Scheme() string { return "shared" }

func (r *sharedResolver) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	s := r.state
	s.Endpoints = slices.Clone(s.Endpoints)
	for i := range s.Endpoints {
		s.Endpoints[i].Addresses = slices.Clone(s.Endpoints[i].Addresses)
	}
	err := cc.UpdateState(s)
	for i := range s.Endpoints {
		s.Endpoints[i].Addresses[0].Addr = "127.0.0.1:1"
		s.Endpoints[i] = resolver.Endpoint{}
	}
	return r, err
}

func (r *sharedResolver) ResolveNow(resolver.ResolveNowOptions) {}
func (r *sharedResolver) Close()                                {}
