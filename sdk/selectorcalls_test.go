package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// A call that names a selector which is not there goes by the default one, or
// fails where that was asked for.
func TestUnknownSelector(t *testing.T) {
	t.Parallel()
	for refused, opts := range map[bool][]sdk.Option{false: nil, true: {sdk.WithUnknownSelectorsRefused()}} {
		t.Run(fmt.Sprint("refused ", refused), func(t *testing.T) {
			t.Parallel()
			var log logBook
			f := startPlain(t, []string{"e1", "e2"}, pinTo("e1"), append(opts, log.option())...)
			f.whoBy(t, "", "")
			f.allConnected(t)
			for range 10 {
				name, err := f.echo.Who(bySelector(t, 10*time.Second, "nobody"), "", patient)
				switch {
				case !refused && (err != nil || name != "e1"):
					t.Errorf("answered by %q, %v; want the default selector's e1", name, err)
				case refused && (status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), `"nobody"`)):
					t.Errorf("%v, want UNAVAILABLE that names the selector", err)
				}
			}
			if n := f.client.Status().UnknownSelectors; n != 10 {
				t.Errorf("%d unknown selectors counted, want 10", n)
			}
			if n := strings.Count(log.String(), "unknown selector"); n < 1 || n > 2 {
				t.Errorf("%d lines were logged", n)
			}
			f.whoBy(t, "", "")
		})
	}
}

// Selectors come and go under load: no call fails, and nobody connects again.
func TestSelectorsAddedAndRemovedUnderLoad(t *testing.T) {
	t.Parallel()
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.P2C())
	f.whoBy(t, "", "")
	f.allConnected(t)
	tr := f.flow(t, 2, time.Millisecond, "")
	byName := make(chan error, 1)
	halt := make(chan struct{})
	go func() {
		for {
			select {
			case <-halt:
				byName <- nil
				return
			default:
			}
			if _, err := f.echo.Who(bySelector(t, 10*time.Second, "extra"), ""); err != nil {
				byName <- err
				return
			}
		}
	}()
	for i := range 60 {
		if _, err := f.client.AddSelector("extra", swaps[i%len(swaps)]); err != nil {
			t.Fatal(err)
		}
		if _, err := f.client.AddSelector("extra", selection.P2C()); !errors.Is(err, balancer.ErrSelectorExists) {
			t.Errorf("the second of that name: %v", err)
		}
		for range 5 {
			f.whoBy(t, "extra", "")
		}
		if err := f.client.RemoveSelector("extra"); err != nil {
			t.Fatal(err)
		}
		if f.client.Selector("extra") != nil {
			t.Error("the selector is still there")
		}
	}
	close(halt)
	if err := <-byName; err != nil {
		t.Errorf("a call that names the selector failed: %v", err)
	}
	tr.mustBeClean(t)
	f.oneConnectionEach(t)
	f.nothingPending(t)
	if err := f.client.RemoveSelector("extra"); !errors.Is(err, balancer.ErrNoSelector) {
		t.Errorf("removed twice: %v", err)
	}
	if err := f.client.RemoveSelector(sdk.DefaultSelector); err == nil {
		t.Error("the default selector was removed")
	}
	picks := uint64(0)
	for _, b := range f.Backends() {
		picks += uint64(b.Count())
	}
	if n := f.client.Status().Picks.Ready; n != picks {
		t.Errorf("Status counts %d picks, the servers %d calls", n, picks)
	}
	_ = f.client.Close()
	if _, err := f.client.AddSelector("late", selection.P2C()); !errors.Is(err, sdk.ErrClosed) {
		t.Errorf("on a closed client: %v", err)
	}
}

// Several selectors that follow the assignment differ in who they take within a
// slice.
func TestNamedSlicedSelectors(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"e1", "e2", "e3"},
		sdk.WithSelector("rr", selection.Sliced(selection.RoundRobin())),
		sdk.WithSelector("pin", selection.Sliced(pinTo("e2"))),
		sdk.WithSelector("least", selection.Sliced(selection.LeastPending())))
	f.assigned(t, sdktest.From("", "e1", "e2"), sdktest.From("m", "e3"))
	f.whoAll(t)
	for _, selector := range []string{sdk.DefaultSelector, "rr", "pin", "least"} {
		got := make(map[string]int)
		for range 100 {
			got[f.whoBy(t, selector, "abc")]++
			if name := f.whoBy(t, selector, "xyz"); name != "e3" {
				t.Fatalf("selector %s: a key of e3 reached %s", selector, name)
			}
		}
		if got["e3"] != 0 {
			t.Errorf("selector %s: a key of e1 and e2 reached e3", selector)
		}
		switch {
		case selector == "rr" && got["e1"] != 50:
			t.Errorf("round robin in the slice gave %v", got)
		case selector == "pin" && got["e2"] != 100:
			t.Errorf("the pin to e2 gave %v", got)
		case selector != "pin" && (got["e1"] < 20 || got["e2"] < 20):
			t.Errorf("selector %s gave %v", selector, got)
		}
	}
	// The assignment is followed by all.
	f.assigned(t, sdktest.From("", "e3"), sdktest.From("m", "e1"))
	for _, selector := range []string{sdk.DefaultSelector, "rr", "pin", "least"} {
		if got := f.whoBy(t, selector, "abc"); got != "e3" {
			t.Errorf("selector %s: after the move the key reached %s", selector, got)
		}
	}
	if _, err := f.echo.Who(bySelector(t, 10*time.Second, "rr"), ""); err == nil {
		t.Error("a sliced selector routed a call without a key")
	}
}

// Within a slice a policy has owners to choose from only if they connect: each
// call asks for one more.
func TestInSlicePolicyConnectsOwners(t *testing.T) {
	t.Parallel()
	names := []string{"e1", "e2", "e3"}
	f := start(t, testSharding(), names, sdk.WithSelector("rr", selection.Sliced(selection.RoundRobin())))
	f.assigned(t, sdktest.From("", names...))
	eventually(t, "all owners connected", func() bool {
		f.whoBy(t, "rr", "k")
		return f.connections() == len(names)
	})
	f.oneConnectionEach(t)
}

// Without sharding the key goes in the header that WithKeyHeader names, and the
// ring chooses by it.
func TestKeyHeaderAndKetama(t *testing.T) {
	t.Parallel()
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.Ketama(selection.KetamaOptions{}), sdk.WithKeyHeader("X-User"))
	f.whoAll(t)
	got := make(map[string]int)
	for i := range 60 {
		key := fmt.Sprint("user-", i)
		name := f.whoBy(t, "", key)
		got[name]++
		calls := f.Backend(name).Calls()
		if sent := calls[len(calls)-1].Metadata.Get("x-user"); len(sent) != 1 || sent[0] != key {
			t.Fatalf("the header holds %q, want the key", sent)
		}
		if again := f.whoBy(t, "", key); again != name {
			t.Errorf("a key went to %s, then to %s", name, again)
		}
	}
	if len(got) != 3 {
		t.Errorf("60 keys went to %v", got)
	}
	// Without a key any endpoint will do, and no header is sent.
	for _, b := range f.Backends() {
		b.Forget()
	}
	for range 30 {
		f.whoBy(t, "", "")
	}
	for _, b := range f.Backends() {
		if keys := b.Keys("x-user"); len(keys) != 0 {
			t.Errorf("%s got the keys %q", b.Name(), keys)
		}
	}
}

// On a client with sharding a selector that does not look at keys needs none, and
// sends one that was given.
func TestKeylessSelectorOfAShardedClient(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"e1", "e2"}, sdk.WithSelector("any", selection.P2C()))
	f.AssignEven(testTarget)
	f.whoBy(t, "any", "")
	for _, b := range f.Backends() {
		if keys := b.Keys(testHeader); len(keys) != 0 {
			t.Errorf("%s got the keys %q", b.Name(), keys)
		}
		b.Forget()
	}
	name := f.whoBy(t, "any", "k")
	if keys := f.Backend(name).Keys(testHeader); len(keys) != 1 || keys[0] != "k" {
		t.Errorf("the header holds %q", keys)
	}
	_, err := f.echo.Who(interceptors.WithSelector(within(t, 10*time.Second), sdk.DefaultSelector), "")
	if err == nil || !strings.Contains(err.Error(), "no sharding key") {
		t.Errorf("by slice and without a key: %v", err)
	}
}

// All selectors go on after the channel was idle, with what was published
// meanwhile.
func TestSelectorsAfterIdle(t *testing.T) {
	t.Parallel()
	f, kinds := startAllKinds(t, []string{"e1", "e2", "e3"}, idleAfter(300*time.Millisecond))
	for i := range 2 {
		for _, s := range kinds {
			f.whoBy(t, s, "k")
		}
		f.idles(t)
		f.publish(t, "rr", []selection.Policy{pinTo("e2"), selection.Ketama(selection.KetamaOptions{})}[i])
		f.publish(t, "ketama", []selection.Policy{selection.Weighted(nil), selection.P2C()}[i])
	}
	for _, s := range kinds {
		f.whoBy(t, s, "k")
	}
}

// stuck never builds anything.
type stuck struct{ started chan struct{} }

func (s stuck) Build(ctx context.Context, _ selection.Membership) (selection.Order, error) {
	select {
	case s.started <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A call that waits for a selector's data goes on when the selector is removed, or
// gets another policy. The error of one that runs out of time says what it waited
// for.
func TestCallsThatWaitForABuild(t *testing.T) {
	t.Parallel()
	// A gate of its own: the others' builds would wait for this one.
	f := startPlain(t, []string{"e1", "e2"}, pinTo("e1"), sdk.WithGate(balancer.NewGate()))
	f.whoBy(t, "", "")
	f.allConnected(t)
	builder := stuck{make(chan struct{}, 1)}
	for name, end := range map[string]func() error{
		"removed": func() error { return f.client.RemoveSelector("stuck") },
		"replaced": func() error {
			_, err := f.client.Selector("stuck").Publish(pinTo("e1"), balancer.FromCode)
			return err
		},
	} {
		if _, err := f.client.AddSelector("stuck", selection.CustomBuilt("stuck", builder, true)); err != nil {
			t.Fatal(err)
		}
		<-builder.started
		_, err := f.echo.Who(bySelector(t, 30*time.Millisecond, "stuck"), "")
		if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "data of its selector") {
			t.Errorf("%v, want DEADLINE_EXCEEDED that says what was waited for", err)
		}
		before := f.selectorStatus(t, "stuck").Picks.Queued
		answer := make(chan string, 1)
		go func() {
			name, err := f.echo.Who(bySelector(t, 10*time.Second, "stuck"), "")
			if err != nil {
				name = err.Error()
			}
			answer <- name
		}()
		eventually(t, "a queued RPC", func() bool { return f.selectorStatus(t, "stuck").Picks.Queued > before })
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if got := <-answer; got != "e1" {
			t.Errorf("%s: the call that waited was answered by %q", name, got)
		}
		if f.client.Selector("stuck") != nil {
			if err := f.client.RemoveSelector("stuck"); err != nil {
				t.Fatal(err)
			}
		}
	}
}
