package balancer

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	lb "google.golang.org/grpc/balancer"
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
	if o.Gate == nil {
		o.Gate = NewGate()
	}
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
