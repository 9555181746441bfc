package sdk_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// slowRing builds when it is let, and then prefers the last member by name.
type slowRing struct {
	builds atomic.Int32
	let    chan struct{} // one for each build
}

func (r *slowRing) Build(ctx context.Context, m selection.Membership) (selection.Order, error) {
	r.builds.Add(1)
	select {
	case <-r.let:
		return lastFirst(len(m.Members)), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type lastFirst int

func (n lastFirst) Next(_ selection.Call, c selection.Cursor) (int, selection.Cursor) {
	return int(n) - 1 - int(c.A), selection.Cursor{A: c.A + 1}
}

// TestP08RemovedEndpointServesOlderData: while a selector's data is from before
// the endpoint left, its picks reach the endpoint; once newer data is in force the
// connection is closed. It also holds P-07, what that data sees of the endpoint's
// state, P-09, that a build holds up nobody, and P-18.
func TestP08RemovedEndpointServesOlderData(t *testing.T) {
	ring := &slowRing{let: make(chan struct{}, 8)}
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.P2C(),
		sdk.WithSelector("ring", selection.CustomBuilt("slow ring", ring, true)))
	ring.let <- struct{}{}
	if got := f.whoBy(t, "ring", ""); got != "e3" {
		t.Fatalf("the ring leads to %s, want e3", got)
	}
	for range 50 { // the same endpoints in another order are nothing new
		if err := f.Resolve("e3", "e1", "e2"); err != nil {
			t.Fatal(err)
		}
		if err := f.Resolve("e1", "e2", "e3"); err != nil {
			t.Fatal(err)
		}
	}
	f.whoBy(t, "", "")
	if n, g := ring.builds.Load(), f.client.Status().Membership; n != 1 || g != 1 {
		t.Errorf("P-18: %d builds and membership %d, want one of each", n, g)
	}

	if err := f.Resolve("e1", "e2"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new membership", func() bool { return f.client.Status().Membership == 2 })
	eventually(t, "the build", func() bool { return ring.builds.Load() == 2 })
	for range 20 {
		if got := f.whoBy(t, "ring", ""); got != "e3" {
			t.Fatalf("P-07: older data leads to %s, want e3", got)
		}
		if got := f.whoBy(t, "", ""); got == "e3" {
			t.Fatal("a policy that chooses among READY endpoints chose one that has left")
		}
	}
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := f.client.WaitConverged(short, 2); err == nil {
		t.Error("P-16: converged although a build is held up")
	}
	f.client.SetEnabled("e3", false, "test")
	if got := f.whoBy(t, "ring", ""); got != "e2" {
		t.Errorf("P-07: disabled e3 is passed over, got %s, want e2", got)
	}
	f.client.SetEnabled("e3", true, "test")
	if n := f.Backend("e3").Connections().Live; n != 1 {
		t.Errorf("e3 has %d connections while older data leads to it, want 1", n)
	}

	ring.let <- struct{}{}
	if err := f.client.WaitConverged(within(t, 10*time.Second), 2); err != nil {
		t.Fatal(err)
	}
	if got := f.whoBy(t, "ring", ""); got != "e2" {
		t.Errorf("newer data leads to %s, want e2", got)
	}
	if err := f.Backend("e3").WaitLive(within(t, 10*time.Second), 0); err != nil {
		t.Error(err)
	}
	if n := f.Backend("e3").Connections().Accepted; n != 1 {
		t.Errorf("e3 accepted %d connections, want 1", n)
	}
}

// TestP06SwapIsAtomic: two policies that pin different endpoints, swapped in a
// tight loop: each RPC goes to one of the two, never to the third.
func TestP06SwapIsAtomic(t *testing.T) {
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.Custom("pin-e1", pin{"e1"}))
	f.whoBy(t, "", "")
	f.allConnected(t)
	tr := f.flow(t, 4, time.Millisecond, "")
	s := f.client.Selector(sdk.DefaultSelector)
	for i := range 1000 {
		name := []string{"e1", "e2"}[i%2]
		if _, err := s.Publish(selection.Custom("pin-"+name, pin{name}), balancer.FromCode); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			f.whoBy(t, "", "")
		}
	}
	if answers := tr.mustBeClean(t); answers["e3"] > 0 {
		t.Errorf("answers from %v, want none of e3", answers)
	}
	f.oneConnectionEach(t)
}

// TestP17ReadyWhenBuilt: a client whose default selector builds is ready once
// picks have its first data.
func TestP17ReadyWhenBuilt(t *testing.T) {
	ring := &slowRing{let: make(chan struct{}, 1)}
	f := startPlain(t, []string{"e1", "e2"}, selection.CustomBuilt("slow ring", ring, true))
	short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := f.client.WaitReady(short); err == nil || !strings.Contains(err.Error(), "not built yet") {
		t.Errorf("got %v, want an error that says what is missing", err)
	}
	ring.let <- struct{}{}
	if _, err := f.client.WaitReady(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := f.whoBy(t, "", ""); got != "e2" {
		t.Errorf("the ring leads to %s, want e2", got)
	}
}

// TestP35AnyResolver: the membership comes from whatever resolver gRPC has.
func TestP35AnyResolver(t *testing.T) {
	c := sdktest.NewCluster(t, "e1")
	addr := c.Backend("e1").Addr()
	for _, target := range []string{"dns:///" + addr, addr, "passthrough:///" + addr, c.Target()} {
		client, err := sdk.Dial(target, sdk.WithTransportCredentials(insecure.NewCredentials()),
			sdk.WithResolvers(c.Resolver()), sdk.WithSelector(sdk.DefaultSelector, selection.P2C()))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := sdktest.NewEcho(client).Who(within(t, 10*time.Second), ""); err != nil || got != "e1" {
			t.Errorf("%s: %q, %v", target, got, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRetireTimeout: data that is never rebuilt keeps an endpoint that has left for
// so long and no longer. It also holds the options' errors.
func TestRetireTimeout(t *testing.T) {
	ring := &slowRing{let: make(chan struct{}, 1)}
	f := startPlain(t, []string{"e1", "e2"}, selection.CustomBuilt("slow ring", ring, true), sdk.WithRetireTimeout(50*time.Millisecond))
	ring.let <- struct{}{}
	if got := f.whoBy(t, "", ""); got != "e2" {
		t.Fatalf("the ring leads to %s, want e2", got)
	}
	if err := f.Resolve("e1"); err != nil { // the build of it is held
		t.Fatal(err)
	}
	if err := f.Backend("e2").WaitLive(within(t, 5*time.Second), 0); err != nil {
		t.Error(err)
	}
	if got := f.whoBy(t, "", ""); got != "e1" {
		t.Errorf("older data leads to %s, want e1, which it has too", got)
	}
	_, err := sdk.Dial("dns:///x:1", sdk.WithTransportCredentials(insecure.NewCredentials()),
		sdk.WithSelector(sdk.DefaultSelector, selection.P2C()), sdk.WithRetireTimeout(-time.Second))
	if err == nil || !strings.Contains(err.Error(), "WithRetireTimeout: -1s") {
		t.Errorf("got %v", err)
	}
}

// panicking is a policy that does.
type panicking struct{}

func (panicking) Select(selection.Input) int { panic("no") }

// TestBadResultsUseP2C_S06: with the option no RPC fails, and results are counted.
func TestBadResultsUseP2C_S06(t *testing.T) {
	f := startPlain(t, []string{"e1", "e2"}, selection.Custom("panicking", panicking{}), sdk.WithBadResultsUseP2C())
	f.whoBy(t, "", "")
	f.allConnected(t)
	for range 20 {
		f.whoBy(t, "", "")
	}
	if n := f.client.Status().Selectors[0].BadResults["panic"]; n < 20 {
		t.Errorf("%d panics were counted, want 20 and more", n)
	}
}
