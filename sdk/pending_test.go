package sdk_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// endpoint is what the client's status says of an endpoint.
func (f *fixture) endpoint(t testing.TB, name string) balancer.EndpointStatus {
	t.Helper()
	for _, e := range f.client.Status().Endpoints {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("the client has no endpoint %q", name)
	return balancer.EndpointStatus{}
}

// nothingPending waits until no RPC is in flight.
func (f *fixture) nothingPending(t testing.TB) {
	t.Helper()
	eventually(t, "nothing in flight", func() bool {
		for _, e := range f.client.Status().Endpoints {
			if e.Pending != 0 {
				return false
			}
		}
		return true
	})
}

// bySelector is a context for a call by a selector.
func bySelector(t testing.TB, d time.Duration, selector string) context.Context {
	t.Helper()
	return interceptors.WithSelector(within(t, d), selector)
}

// TestSP05PendingIsReturnedOnce: the count of RPCs in flight is 0 after each way
// in which a call can end, and never negative on the way. It also holds S-18: the
// token of each attempt is reported exactly once.
func TestSP05PendingIsReturnedOnce(t *testing.T) {
	t.Parallel()
	tokens := newLedger()
	c := sdktest.NewCluster(t, "e1", "e2", "e3")
	for _, b := range c.Backends() {
		if err := b.BlackHole(); err != nil {
			t.Fatal(err)
		}
	}
	client, err := sdk.Dial(c.Target(), plain, sdk.WithResolvers(c.Resolver()), quick(),
		sdk.WithSelector(sdk.DefaultSelector, selection.LeastPending()), sdk.WithAdmission(tokens))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	f := &fixture{Cluster: c, client: client, echo: sdktest.NewEcho(client)}

	// Somebody looks all the time.
	halt := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-halt:
				return
			case <-time.After(100 * time.Microsecond):
			}
			for _, e := range client.Status().Endpoints {
				if e.Pending < 0 {
					t.Errorf("%s has %d RPCs in flight", e.Name, e.Pending)
					return
				}
			}
		}
	})
	defer looking.Wait()
	defer close(halt)

	sum := func() (n int) {
		for _, e := range client.Status().Endpoints {
			n += e.Pending
		}
		return n
	}
	wantCode := func(what string, err error, want codes.Code) {
		t.Helper()
		if status.Code(err) != want {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}

	// 1. Cancelled while queued: no endpoint is READY yet.
	ctx, cancel := context.WithCancel(within(t, 10*time.Second))
	ended := make(chan error, 1)
	go func() { _, err := f.echo.Who(ctx, ""); ended <- err }()
	eventually(t, "a queued RPC", func() bool { return client.Status().Picks.Queued > 0 })
	cancel()
	wantCode("cancelled while queued", <-ended, codes.Canceled)
	for _, b := range c.Backends() {
		if err := b.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	// 2. Success.
	if _, err := f.echo.Who(within(t, 10*time.Second), "", patient); err != nil {
		t.Fatal(err)
	}
	f.allConnected(t)
	f.nothingPending(t)

	// 3. Errors, of which some count against the endpoint and some do not.
	for _, code := range []codes.Code{codes.Unavailable, codes.NotFound, codes.Internal} {
		for _, b := range c.Backends() {
			b.FailCalls(code)
		}
		for range 5 {
			_, err := f.echo.Who(within(t, 10*time.Second), "")
			wantCode("an error", err, code)
		}
	}
	for _, b := range c.Backends() {
		b.Heal()
	}
	f.nothingPending(t)

	// 4. Cancelled in the middle of a stream, and 7. opened and abandoned.
	for _, listens := range []bool{true, false} {
		ctx, cancel := context.WithCancel(within(t, 10*time.Second))
		for range 6 {
			s, err := f.echo.Talk(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if listens {
				if _, err := s.Ask(""); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := sum(); n != 6 {
			t.Errorf("%d RPCs in flight with 6 open streams", n)
		}
		cancel()
		f.nothingPending(t)
	}

	// 5. The deadline.
	for _, b := range c.Backends() {
		b.Hold()
	}
	for range 3 {
		_, err := f.echo.Who(within(t, 30*time.Millisecond), "")
		wantCode("out of time", err, codes.DeadlineExceeded)
	}
	for _, b := range c.Backends() {
		b.Heal()
	}
	f.nothingPending(t)

	// 6. The server is killed between pick and send: before and after gRPC knows.
	for _, known := range []bool{true, false} {
		killed := make(chan string, 1)
		kill := func(name string) {
			c.Backend(name).Kill()
			if known {
				eventually(t, "the connection is gone", func() bool {
					return f.endpoint(t, name).State != connectivity.Ready
				})
			}
			killed <- name
		}
		tokens.during.Store(&kill)
		name, err := f.echo.Who(within(t, 10*time.Second), "")
		victim := <-killed
		// Once gRPC knows, it picks again. Before, the RPC may be on its way already.
		if err != nil && (known || status.Code(err) != codes.Unavailable) || name == victim {
			t.Errorf("%s was killed after it was picked: answered by %q, %v", victim, name, err)
		}
		if err := c.Backend(victim).Restart(); err != nil {
			t.Fatal(err)
		}
		f.nothingPending(t)
	}

	kinds := tokens.balanced(t)
	for _, kind := range []admission.Kind{admission.OK, admission.RemoteError, admission.Cancelled, admission.Deadline, admission.NotSent} {
		if kinds[kind] == 0 {
			t.Errorf("no attempt ended as %v; there were %v", kind, kinds)
		}
	}
	if n := kinds[0]; n > 0 {
		t.Errorf("%d attempts ended as nothing", n)
	}
}
