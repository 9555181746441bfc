package sdk_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// talk opens a stream with key that ends with the test.
func (f *fixture) talk(t testing.TB, key string) *sdktest.EchoStream {
	t.Helper()
	ctx, cancel := context.WithCancel(interceptors.WithKeyString(context.Background(), key))
	t.Cleanup(cancel)
	s, err := f.echo.Talk(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ask(t testing.TB, s *sdktest.EchoStream, want string) {
	t.Helper()
	if got, err := s.Ask("hello"); err != nil || got != want {
		t.Fatalf("the stream answered %q, %v; want %q", got, err, want)
	}
}

// TestLongStreamAndMovedSlice_IM06 also holds A-36: the open stream goes on where
// it is, a new one goes to the new owner, and an event names the range.
func TestLongStreamAndMovedSlice_IM06(t *testing.T) {
	t.Parallel()
	events := make(chan balancer.Reassignment, 10)
	f := start(t, testSharding(), []string{"a", "b"}, sdk.WithReassignedFunc(func(r balancer.Reassignment) { events <- r }))
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("g", "a"), sdktest.From("m", "b")))
	old := f.talk(t, "h")
	ask(t, old, "a")
	g, err := f.Sharding().Move(testTarget, "h", "b")
	if err != nil {
		t.Fatal(err)
	}
	var event balancer.Reassignment
	select {
	case event = <-events:
	case <-time.After(10 * time.Second):
		t.Fatal("no event")
	}
	if event.Generation != g || len(event.Moved) != 1 {
		t.Fatalf("event %+v, want generation %d with one range", event, g)
	}
	if m := event.Moved[0]; string(m.Start) != "g" || string(m.End) != "m" || !slices.Equal(m.From, []string{"a"}) || !slices.Equal(m.To, []string{"b"}) {
		t.Errorf("moved %q to %q from %v to %v; want g to m from a to b", m.Start, m.End, m.From, m.To)
	}
	// The event comes when picks already use the new owner.
	fresh := f.talk(t, "h")
	ask(t, fresh, "b")
	for range 10 {
		ask(t, old, "a")
	}
	// What does not change owners is no event; the range to the end has none.
	if _, err := f.Sharding().Split(testTarget, "c"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Sharding().Move(testTarget, "z", "a"); err != nil {
		t.Fatal(err)
	}
	select {
	case event = <-events:
	case <-time.After(10 * time.Second):
		t.Fatal("no event")
	}
	if m := event.Moved; len(m) != 1 || string(m[0].Start) != "m" || m[0].End != nil {
		t.Errorf("second event %+v, want m to the end alone", m)
	}
	ask(t, old, "a")
	ask(t, fresh, "b")
}

// TestInFlightOnRemovedEndpointFinishes: issue A. Streams and calls on an
// endpoint that the resolver drops, or that moves to another address, go on.
func TestInFlightOnRemovedEndpointFinishes(t *testing.T) {
	for name, update := range map[string]func(*fixture) error{
		"removed":      func(f *fixture) error { return f.Resolve("b") },
		"moved":        func(f *fixture) error { f.SetEndpoints(f.endpointAt("a", "b"), f.endpointAt("b", "b")); return nil },
		"list emptied": func(f *fixture) error { return f.Resolve() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, testSharding(withFallback), []string{"a", "b"})
			f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
			stream := f.talk(t, "k")
			ask(t, stream, "a")
			a := f.Backend("a")
			a.Hold()
			answer := make(chan string, 1)
			go func() {
				got, err := f.call("k", 20*time.Second)
				if err != nil {
					got = err.Error()
				}
				answer <- got
			}()
			if err := a.WaitInFlight(within(t, 5*time.Second), 2); err != nil {
				t.Fatal(err)
			}
			if err := update(f); err != nil {
				t.Fatal(err)
			}
			eventually(t, "new calls leave the endpoint", func() bool {
				got, err := f.call("k", 100*time.Millisecond)
				return got == "b" || name == "list emptied" && status.Code(err) == codes.Unavailable
			})
			for range 10 {
				ask(t, stream, "a")
			}
			a.Release()
			if got := <-answer; got != "a" {
				t.Errorf("the call in flight ended with %q", got)
			}
			if err := stream.CloseSend(); err != nil {
				t.Error(err)
			}
			if _, err := stream.Recv(); err == nil {
				t.Error("the stream said more than was asked")
			}
			if err := a.WaitLive(within(t, 5*time.Second), 0); err != nil {
				t.Errorf("the old connection stays open after its last call: %v", err)
			}
		})
	}
}

// Close waits for a stream that is on its second attempt, and for no longer than
// it lasts.
func TestCloseWaitsForARetriedStream(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(cancel context.CancelFunc, b *sdktest.Backend){
		"its context ends": func(cancel context.CancelFunc, _ *sdktest.Backend) { cancel() },
		"its server dies":  func(_ context.CancelFunc, b *sdktest.Backend) { b.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, testSharding(), []string{"a"}, sdk.WithDialOptions(interceptors.Chain(interceptors.Retry())...))
			f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a")))
			f.Backend("a").FailNext(1, codes.Unavailable)
			ctx, cancel := context.WithCancel(interceptors.WithKeyString(context.Background(), "k"))
			defer cancel()
			s, err := f.echo.Watch(ctx, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); err != nil {
				t.Fatal(err)
			}
			received := make(chan error, 1)
			go func() { // ends with the stream
				_, err := s.Recv()
				received <- err
			}()
			closed := make(chan struct{})
			go func() { // ends with Close
				defer close(closed)
				_ = f.client.Close()
			}()
			select {
			case err := <-received:
				t.Fatalf("the stream ended with %v while Close should wait for it", err)
			case <-closed:
				t.Fatal("Close did not wait for the stream")
			case <-time.After(200 * time.Millisecond):
			}
			end(cancel, f.Backend("a"))
			if err := <-received; err == nil {
				t.Error("the stream goes on")
			}
			select {
			case <-closed:
			case <-time.After(5 * time.Second):
				t.Error("Close waits on after the stream has ended")
			}
		})
	}
}

// A stream that panics before it begins is not in flight.
func TestCloseDoesNotWaitForAPanic(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"a"}, sdk.WithKeyOptions(interceptors.KeyFrom(interceptors.FuncKey(
		func(context.Context, string, any) (string, bool, error) { panic("a bug of the application") }))))
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a")))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = f.echo.Watch(within(t, 10*time.Second), "")
	}()
	if err := f.client.Shutdown(within(t, 5*time.Second)); err != nil {
		t.Errorf("Shutdown waits for a stream that never began: %v", err)
	}
}
