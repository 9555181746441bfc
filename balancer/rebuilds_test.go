package balancer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// unsharded is a resolver update for a Router without a sharding service.
func unsharded(r *Router, addrs ...string) lb.ClientConnState {
	s := lb.ClientConnState{BalancerConfig: &Config{Unsharded: true}}
	for _, a := range addrs {
		s.ResolverState.Endpoints = append(s.ResolverState.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: a}}})
	}
	s.ResolverState = SetRouter(s.ResolverState, r)
	return s
}

// bench is a Router and its LB policy over a fakeConn, in a synctest bubble. Its
// selector "built" has a policy that builds when the test lets it.
type bench struct {
	t      *testing.T
	cc     *fakeConn
	router *Router
	policy *policy

	builds  atomic.Int64 // begun
	release chan error   // a build ends with what comes
	eager   atomic.Bool  // builds end by themselves
}

func newBench(t *testing.T, o RouterOptions, addrs ...string) *bench {
	t.Helper()
	o.Gate = NewGate()
	b := &bench{t: t, cc: newFakeConn(t), router: NewRouter(o), release: make(chan error)}
	t.Cleanup(b.router.Close)
	b.policy = newPolicy(b.cc, lb.BuildOptions{})
	t.Cleanup(b.policy.Close)
	if _, err := b.router.AddSelector("built", b.own(), FromCode); err != nil {
		t.Fatal(err)
	}
	b.resolve(addrs...)
	return b
}

// own is a policy that builds by b, another one at each call.
func (b *bench) own() selection.Policy {
	return selection.CustomBuilt("own", &heldBuilder{b}, false)
}

func (b *bench) resolve(addrs ...string) {
	b.t.Helper()
	if err := b.policy.UpdateClientConnState(unsharded(b.router, addrs...)); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

// finish ends the build that runs.
func (b *bench) finish(err error) {
	b.t.Helper()
	select {
	case b.release <- err:
	default:
		b.t.Fatal("no build runs")
	}
	synctest.Wait()
}

// reached is where many picks of a selector go, in order.
func (b *bench) reached(selector string) []string {
	b.t.Helper()
	var addrs []string
	for range 40 {
		res, err := b.policy.picker.Pick(selectorInfo(selector))
		if err != nil {
			b.t.Fatalf("a pick of %q: %v", selector, err)
		}
		res.Done(lb.DoneInfo{BytesSent: true, BytesReceived: true})
		if addr := res.SubConn.(*fakeSubConn).addr; !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	slices.Sort(addrs)
	return addrs
}

func (b *bench) want(selector string, addrs ...string) {
	b.t.Helper()
	if got := b.reached(selector); !slices.Equal(got, addrs) {
		b.t.Errorf("picks of %q reach %v, want %v", selector, got, addrs)
	}
}

// connect has all endpoints connected, by the first pick of a selector.
func (b *bench) connect() {
	for _, selector := range []string{"", "built"} {
		if res, err := b.policy.picker.Pick(selectorInfo(selector)); err == nil {
			res.Done(lb.DoneInfo{})
		}
		synctest.Wait()
	}
}

func selectorInfo(name string) lb.PickInfo {
	call := &callinfo.Call{}
	if name != "" {
		call.Selector = callinfo.Selector(name)
	}
	return lb.PickInfo{Ctx: callinfo.NewContext(context.Background(), call)}
}

// heldBuilder builds orders that go round all members.
type heldBuilder struct{ bench *bench }

func (h *heldBuilder) Build(ctx context.Context, m selection.Membership) (selection.Order, error) {
	h.bench.builds.Add(1)
	if !h.bench.eager.Load() {
		select {
		case err := <-h.bench.release:
			if err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &inTurn{members: uint64(len(m.Members))}, nil
}

// inTurn is an order that starts with one member after the other.
type inTurn struct {
	members uint64
	next    atomic.Uint64
}

func (o *inTurn) Next(_ selection.Call, c selection.Cursor) (int, selection.Cursor) {
	if c.B == o.members {
		return -1, c
	}
	if c.B == 0 {
		c.A = o.next.Add(1)
	}
	return int(c.A % o.members), selection.Cursor{A: c.A + 1, B: c.B + 1}
}

// TestP08RemovedEndpointStays: an endpoint that has left stays connected while a
// selector's data leads to it, and no longer. P-07: that data sees what happens to
// it: an operator's word at the next pick, and a connection that breaks.
func TestP08RemovedEndpointStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{RetireTimeout: time.Hour}, "a", "x", "y")
		b.finish(nil)
		b.connect()
		b.want("", "a", "x", "y")
		b.want("built", "a", "x", "y")

		b.resolve("a")
		b.want("", "a")
		b.want("built", "a", "x", "y")
		for _, addr := range []string{"x", "y"} {
			if n := b.cc.count(b.cc.opened, addr); n != 1 {
				t.Errorf("%q has left, older data leads to it, and it has %d SubConns, want 1", addr, n)
			}
		}
		b.router.SetEnabled("x", false, "a test")
		b.want("built", "a", "y")
		b.router.SetEnabled("x", true, "")
		b.want("built", "a", "x", "y")

		b.breaks("y")
		b.want("built", "a", "x")
		if n := b.cc.count(b.cc.dialled, "y"); n != 1 {
			t.Errorf("an endpoint that has left was dialled %d times, want the one before", n)
		}

		b.finish(nil) // the data without x and y
		b.want("built", "a")
		for _, addr := range []string{"x", "y"} {
			if n := b.cc.count(b.cc.opened, addr); n != 0 {
				t.Errorf("no data leads to %q any more, and it has %d SubConns", addr, n)
			}
		}
	})
}

// breaks has the connection to addr break.
func (b *bench) breaks(addr string) {
	b.t.Helper()
	for range 100 {
		res, err := b.policy.picker.Pick(selectorInfo("built"))
		if err != nil {
			b.t.Fatal(err)
		}
		res.Done(lb.DoneInfo{})
		if sc := res.SubConn.(*fakeSubConn); sc.addr == addr {
			sc.tell(connectivity.Idle)
			synctest.Wait()
			return
		}
	}
	b.t.Fatalf("no pick reaches %q", addr)
}

// TestP08RetireTimeout: a build that does not end holds an endpoint that has left
// for RetireTimeout, and then picks by older data pass it over.
func TestP08RetireTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{RetireTimeout: 3 * time.Second}, "a", "x")
		b.finish(nil)
		b.connect()
		b.resolve("a")
		time.Sleep(3*time.Second - time.Nanosecond)
		synctest.Wait()
		b.want("built", "a", "x")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := b.cc.count(b.cc.opened, "x"); n != 0 {
			t.Errorf("after RetireTimeout x has %d SubConns", n)
		}
		b.want("built", "a")
		b.finish(nil)
		b.want("built", "a")
	})
}

// TestP08ReturnsWhileRetiring: an endpoint that comes back while the old one of its
// name is kept is another one, and both are closed in their time.
func TestP08ReturnsWhileRetiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{RetireTimeout: time.Hour}, "a", "x")
		b.finish(nil)
		b.connect()
		b.resolve("a")
		b.resolve("a", "x")
		b.want("", "a", "x")
		b.want("built", "a", "x")
		if n := b.cc.count(b.cc.opened, "x"); n != 2 {
			t.Errorf("x has %d SubConns, want the old one and the new one", n)
		}
		b.router.SetEnabled("x", false, "a test") // both
		b.want("", "a")
		b.want("built", "a")
		b.router.SetEnabled("x", true, "")
		b.finish(nil) // the membership without x, which is no longer the newest
		b.finish(nil)
		b.want("built", "a", "x")
		if n := b.cc.count(b.cc.opened, "x"); n != 1 {
			t.Errorf("x has %d SubConns, want the new one", n)
		}
		b.policy.Close()
		if n := b.cc.count(b.cc.opened, "x") + b.cc.count(b.cc.opened, "a"); n != 0 {
			t.Errorf("%d SubConns are left", n)
		}
	})
}

// TestP08CloseWhileRetiring: endpoints that are kept end with the policy.
func TestP08CloseWhileRetiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{RetireTimeout: time.Hour}, "a", "x")
		b.finish(nil)
		b.connect()
		b.resolve("a")
		b.policy.Close()
		if n := b.cc.count(b.cc.opened, "x") + b.cc.count(b.cc.opened, "a"); n != 0 {
			t.Errorf("%d SubConns are left", n)
		}
	})
}

// TestP09PicksGoOnDuringABuild: an update returns at once, and until its data is
// built picks have the old one. A build that fails changes nothing but the status.
func TestP09PicksGoOnDuringABuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b")
		if _, err := b.policy.picker.Pick(selectorInfo("built")); err != lb.ErrNoSubConnAvailable { //nolint:errorlint // as gRPC compares it
			t.Fatalf("before the first build: %v, want to queue", err)
		}
		b.finish(nil)
		b.connect()
		b.want("built", "a", "b")
		began := time.Now()
		b.resolve("a", "b", "c")
		b.want("built", "a", "b")
		if d := time.Since(began); d != 0 {
			t.Errorf("the update and the picks during the build took %v", d)
		}
		time.Sleep(500 * time.Millisecond)
		b.finish(errors.New("no ring today"))
		b.want("built", "a", "b")
		s := b.router.Status().Selectors[1]
		if s.LastBuildError == nil || !strings.Contains(s.LastBuildError.Error(), "no ring today") || s.Builds.Failed != 1 || s.Membership != 1 {
			t.Errorf("status is %+v", s)
		}
		time.Sleep(10 * time.Millisecond) // P-13
		synctest.Wait()
		b.finish(nil)
		b.want("built", "a", "b", "c")
		if s := b.router.Status().Selectors[1]; s.LastBuildError != nil || s.Membership != 2 {
			t.Errorf("status is %+v", s)
		}
	})
}

// TestP16WaitConverged: it ends when all selectors use the membership, or with its
// context, or with the Router.
func TestP16WaitConverged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b")
		b.finish(nil)
		if err := b.router.WaitConverged(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.router.WaitConverged(ctx, 2); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "generation 2") {
			t.Errorf("a generation that has not come: %v", err)
		}
		b.resolve("a", "b", "c")
		if n := b.router.MembershipGeneration(); n != 2 {
			t.Fatalf("membership generation %d, want 2", n)
		}
		ended := make(chan error, 1)
		wait := func(generation uint64) {
			go func() { ended <- b.router.WaitConverged(context.Background(), generation) }()
			synctest.Wait()
		}
		wait(2)
		if len(ended) > 0 {
			t.Fatal("the wait ended while a selector uses the membership before")
		}
		b.finish(nil)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		wait(3)
		b.router.Close()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("of a closed router: %v", err)
		}
	})
}

// TestP16PublicationWait: a direct policy is in force at once, one that builds when
// it has built; the one before serves until then.
func TestP16PublicationWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b")
		b.finish(nil)
		b.connect()
		s := b.router.Selector("built")
		publish := func(p selection.Policy) Publication {
			t.Helper()
			pub, err := s.Publish(p, FromCode)
			if err != nil || !pub.Changed {
				t.Fatalf("published: %+v, %v", pub, err)
			}
			synctest.Wait()
			return pub
		}
		if err := publish(selection.Custom("first", first{})).Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if got := b.reached("built"); len(got) != 1 {
			t.Errorf("the first READY one only, and picks reach %v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		built := publish(b.own())
		if err := built.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the build runs: %v", err)
		}
		if got := b.reached("built"); len(got) != 1 {
			t.Errorf("not built yet, and picks reach %v", got)
		}
		b.finish(nil)
		if err := built.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		b.want("built", "a", "b")

		// A build that was overtaken by another policy is not put in force.
		publish(b.own())
		last := publish(selection.Custom("first", first{}))
		synctest.Wait()
		if st := b.router.Status().Selectors[1]; st.InForce != last.Generation || st.Policy != "first" {
			t.Errorf("status is %+v", st)
		}
	})
}

// TestP18SameListIsNoWork: the same endpoints in any order cost no build and no
// generation.
func TestP18SameListIsNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b", "c")
		b.eager.Store(true)
		b.finish(nil)
		b.connect()
		orders := [][]string{{"c", "a", "b"}, {"b", "a", "c"}, {"a", "b", "c"}}
		for i := range 100 {
			b.resolve(orders[i%len(orders)]...)
		}
		if n, g := b.builds.Load(), b.router.MembershipGeneration(); n != 1 || g != 1 {
			t.Errorf("%d builds and membership generation %d, want 1 and 1", n, g)
		}
		for _, addr := range []string{"a", "b", "c"} {
			if n := b.cc.count(b.cc.dialled, addr); n != 1 {
				t.Errorf("%q was dialled %d times", addr, n)
			}
		}
		b.resolve("a", "b")
		if n, g := b.builds.Load(), b.router.MembershipGeneration(); n != 2 || g != 2 {
			t.Errorf("another list: %d builds and membership generation %d, want 2 and 2", n, g)
		}
		b.want("built", "a", "b")
	})
}
