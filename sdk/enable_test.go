package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// startAllKinds is a sharded client with selectors of every kind, where every
// endpoint owns all keys. It returns the selectors' names.
func startAllKinds(t testing.TB, names []string, opts ...sdk.Option) (*fixture, []string) {
	t.Helper()
	kinds := []string{sdk.DefaultSelector}
	for name, p := range map[string]selection.Policy{
		"rr": selection.RoundRobin(), "p2c": selection.P2C(), "custom": pinTo("e1"),
		"ketama": selection.Ketama(selection.KetamaOptions{}), "weighted": selection.Weighted(nil),
		"order": selection.CustomBuilt("order", inOrder{}, true), "sliced-rr": selection.Sliced(selection.RoundRobin()),
	} {
		opts = append(opts, sdk.WithSelector(name, p))
		kinds = append(kinds, name)
	}
	f := start(t, testSharding(), names, opts...)
	f.assigned(t, sdktest.From("", names...))
	f.whoAll(t)
	return f, kinds
}

// share sends n RPCs by each selector and counts those that an endpoint got.
func (f *fixture) share(t testing.TB, selectors []string, n int, endpoint string) map[string]int {
	t.Helper()
	got := make(map[string]int)
	for _, s := range selectors {
		for i := range n {
			if f.whoBy(t, s, fmt.Sprint("key-", i)) == endpoint {
				got[s]++
			}
		}
	}
	return got
}

// TestP20DisabledByHand: a disabled endpoint gets no pick in any selector from the
// next one on, keeps its connection, and stays disabled when it leaves the
// membership and comes back.
func TestP20DisabledByHand(t *testing.T) {
	t.Parallel()
	f, kinds := startAllKinds(t, []string{"e1", "e2", "e3"}, quick())
	f.client.SetEnabled("e1", false, "maintenance")
	f.Backend("e1").Forget()
	if got := f.share(t, kinds, 40, "e1"); len(got) != 0 {
		t.Errorf("the disabled endpoint got %v", got)
	}
	f.oneConnectionEach(t)
	if live := f.Backend("e1").Connections().Live; live != 1 {
		t.Errorf("the disabled endpoint has %d connections, want 1", live)
	}
	if d := f.endpoint(t, "e1").Disabled; d == nil || d.Reason != "maintenance" || d.Since.IsZero() {
		t.Errorf("Status says %+v", d)
	}

	tr := f.flow(t, 2, time.Millisecond, "a", "b", "c")
	for range 3 {
		for _, list := range [][]string{{"e2", "e3"}, {"e1", "e2", "e3"}} {
			if err := f.Resolve(list...); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the membership", func() bool { return len(f.client.Status().Endpoints) == len(list) })
			if got := f.share(t, kinds, 10, "e1"); len(got) != 0 {
				t.Errorf("the disabled endpoint got %v after the resolver said %v", got, list)
			}
		}
	}
	tr.mustBeClean(t)
	if n := f.Backend("e1").Count(); n != 0 {
		t.Errorf("the disabled endpoint got %d calls", n)
	}
	if f.endpoint(t, "e1").Disabled == nil {
		t.Error("Status says that it is enabled")
	}

	f.client.SetEnabled("e1", true, "")
	if d := f.endpoint(t, "e1").Disabled; d != nil {
		t.Errorf("Status says %+v", d)
	}
	f.client.SetEnabled("e1", true, "") // changes nothing
	eventually(t, "e1 gets calls in all selectors", func() bool {
		return len(f.share(t, kinds, 40, "e1")) == len(kinds)
	})
	for _, name := range []string{"e2", "e3"} {
		if n := f.Backend(name).Connections().Accepted; n != 1 {
			t.Errorf("%s accepted %d connections", name, n)
		}
	}
}

// TestP20DisabledBefore: what is disabled before it is there gets no pick when it
// comes, nor before the first call.
func TestP20DisabledBefore(t *testing.T) {
	t.Parallel()
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.RoundRobin())
	if err := f.Resolve("e1", "e2"); err != nil {
		t.Fatal(err)
	}
	f.client.SetEnabled("e3", false, "not yet")
	f.client.SetEnabled("e1", false, "not yet")
	for range 30 {
		if got := f.whoBy(t, "", ""); got != "e2" {
			t.Fatalf("an RPC reached %s", got)
		}
	}
	if err := f.Resolve("e1", "e2", "e3"); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		if got := f.whoBy(t, "", ""); got != "e2" {
			t.Fatalf("an RPC reached %s", got)
		}
	}
	f.client.SetEnabled("e3", true, "")
	eventually(t, "e3 gets calls", func() bool { return f.whoBy(t, "", "") == "e3" })
}

// TestP20AllDisabled: with everything disabled an RPC fails and says so, by any
// policy. One that waits for ready goes on when something is enabled.
func TestP20AllDisabled(t *testing.T) {
	t.Parallel()
	names := []string{"e1", "e2", "e3"}
	f, kinds := startAllKinds(t, names)
	for _, name := range names {
		f.client.SetEnabled(name, false, "the end")
	}
	for _, s := range kinds {
		eventually(t, "selector "+s+" fails", func() bool {
			_, err := f.echo.Who(interceptors.WithKeyString(bySelector(t, time.Second, s), "k"), "")
			if err == nil {
				t.Fatalf("selector %s: an RPC was sent", s)
			}
			return status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "disabled by hand: the end")
		})
	}
	answers := make(chan error, len(kinds))
	for _, s := range kinds {
		go func() {
			name, err := f.echo.Who(interceptors.WithKeyString(bySelector(t, 10*time.Second, s), "k"), "", patient)
			if err != nil || name != "e2" {
				err = fmt.Errorf("selector %s: %q, %w", s, name, err)
			}
			answers <- err
		}()
	}
	f.client.SetEnabled("e2", true, "")
	for range kinds {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	f.oneConnectionEach(t)
}

// TestP20ToggledUnderLoad: endpoints are enabled and disabled all the time, one at
// a time; no RPC fails, and in the end it is as was said last.
func TestP20ToggledUnderLoad(t *testing.T) {
	t.Parallel()
	names := []string{"e1", "e2", "e3"}
	f, kinds := startAllKinds(t, names)
	halt := make(chan struct{})
	faults := make(chan error, len(kinds))
	for _, s := range kinds {
		go func() {
			for i := 0; ; i++ {
				select {
				case <-halt:
					faults <- nil
					return
				default:
				}
				ctx := interceptors.WithKeyString(bySelector(t, 10*time.Second, s), fmt.Sprint("key-", i))
				if _, err := f.echo.Who(ctx, ""); err != nil {
					faults <- fmt.Errorf("selector %s: %w", s, err)
					return
				}
			}
		}()
	}
	for i := range 300 {
		f.client.SetEnabled(names[i%2], false, "on and off")
		f.whoBy(t, kinds[i%len(kinds)], "k")
		f.client.SetEnabled(names[i%2], true, "on and off")
	}
	close(halt)
	for range kinds {
		if err := <-faults; err != nil {
			t.Error(err)
		}
	}
	for _, name := range names {
		if got := f.share(t, []string{"rr", "sliced-rr", "ketama", "weighted"}, 60, name); len(got) != 4 {
			t.Errorf("%s is enabled and got %v", name, got)
		}
	}
	f.oneConnectionEach(t)
	f.nothingPending(t)
}

// TestS21RetryAvoidsDisabled: a retry goes neither to the endpoint that the call
// has tried nor to a disabled one.
func TestS21RetryAvoidsDisabled(t *testing.T) {
	t.Parallel()
	f, kinds := startAllKinds(t, []string{"e1", "e2", "e3"}, sdk.WithServiceConfig("{"+retryConfig+"}"))
	f.client.SetEnabled("e2", false, "maintenance")
	f.Backend("e1").FailCalls(codes.Unavailable)
	if got := f.share(t, kinds, 20, "e3"); len(got) != len(kinds) {
		t.Errorf("e3 got %v", got)
	}
	if n := f.Backend("e2").Count(); n != 0 {
		t.Errorf("the disabled endpoint got %d attempts", n)
	}
	if n := f.Backend("e1").Count(); n == 0 {
		t.Error("nothing was retried")
	}
}

// TestS25Drain: a draining endpoint gets no new pick, and its streams finish.
func TestS25Drain(t *testing.T) {
	t.Parallel()
	f, kinds := startAllKinds(t, []string{"e1", "e2", "e3"})
	if _, err := f.client.AddSelector("e1", pinTo("e1")); err != nil {
		t.Fatal(err)
	}
	var streams []*sdktest.EchoStream
	for range 3 {
		s, err := f.echo.Talk(bySelector(t, 20*time.Second, "e1"))
		if err != nil {
			t.Fatal(err)
		}
		ask(t, s, "e1")
		streams = append(streams, s)
	}
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err := f.client.Drain(short, "e1", "upgrade")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "3 RPCs") {
		t.Errorf("a drain that does not wait long enough: %v", err)
	}
	drained := make(chan error, 1)
	go func() { drained <- f.client.Drain(within(t, 10*time.Second), "e1", "upgrade") }()
	if got := f.share(t, kinds, 20, "e1"); len(got) != 0 {
		t.Errorf("the draining endpoint got %v", got)
	}
	for i, s := range streams {
		ask(t, s, "e1")
		select {
		case err := <-drained:
			t.Fatalf("drained with %d streams open: %v", len(streams)-i, err)
		default:
		}
		if err := s.CloseSend(); err != nil {
			t.Error(err)
		}
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("a stream ended with %v", err)
		}
	}
	if err := <-drained; err != nil {
		t.Errorf("drained: %v", err)
	}
	if d := f.endpoint(t, "e1").Disabled; d == nil || d.Reason != "upgrade" {
		t.Errorf("Status says %+v", d)
	}
	f.client.SetEnabled("e1", true, "")
	eventually(t, "e1 gets calls", func() bool { return f.whoBy(t, "rr", "") == "e1" })
	f.oneConnectionEach(t)
}

// TestS25DrainOfOneThatLeaves: a drain goes on when the name resolver drops the
// endpoint in the middle of it.
func TestS25DrainOfOneThatLeaves(t *testing.T) {
	t.Parallel()
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.RoundRobin(), sdk.WithSelector("e1", pinTo("e1")))
	f.whoBy(t, "", "")
	f.allConnected(t)
	s, err := f.echo.Talk(bySelector(t, 20*time.Second, "e1"))
	if err != nil {
		t.Fatal(err)
	}
	ask(t, s, "e1")
	drained := make(chan error, 1)
	go func() { drained <- f.client.Drain(within(t, 10*time.Second), "e1", "upgrade") }()
	eventually(t, "disabled", func() bool { return f.endpoint(t, "e1").Disabled != nil })
	if err := f.Resolve("e2", "e3"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the membership", func() bool { return len(f.client.Status().Endpoints) == 2 })
	ask(t, s, "e1")
	if err := s.CloseSend(); err != nil {
		t.Error(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
	if err := <-drained; err != nil {
		t.Errorf("drained: %v", err)
	}
}
