package balancer

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/selection"
)

// everyPolicy is one of each kind but sliced, which has tests of its own.
func everyPolicy() []selection.Policy {
	return []selection.Policy{
		selection.P2C(), selection.Random(), selection.RoundRobin(), selection.LeastPending(),
		selection.Weighted(nil), selection.Ketama(selection.KetamaOptions{}),
		selection.Custom("first", first{}), selection.Custom("none", none{}),
		selection.CustomBuilt("straight", straight(100), false),
	}
}

// none has no opinion.
type none struct{}

func (none) Select(selection.Input) int { return selection.NoOpinion }

// TestS03PickDoesNotAllocate: no policy, built-in or a user's by value, with
// admission or without, costs a pick or its end an allocation.
func TestS03PickDoesNotAllocate(t *testing.T) {
	for _, p := range everyPolicy() {
		for _, guarded := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/guarded=%v", p, guarded), func(t *testing.T) {
				pk := selectionWorld(t, 100, p)
				if guarded {
					for _, ep := range pk.cur.Load().view.endpoints {
						admitWith(ep, open{})
					}
				}
				info := typedKey("some key", "")
				over := lb.DoneInfo{BytesSent: true, BytesReceived: true}
				if n := testing.AllocsPerRun(1000, func() {
					res, err := pk.Pick(info)
					if err != nil {
						t.Fatal(err)
					}
					res.Done(over)
				}); n != 0 {
					t.Errorf("%v allocations, want 0", n)
				}
			})
		}
	}
}

// TestS03PickTakesNoLock: with every lock that a publication, a build or the
// policy's goroutine holds taken, picks go on.
func TestS03PickTakesNoLock(t *testing.T) {
	for _, p := range everyPolicy() {
		t.Run(p.String(), func(t *testing.T) {
			pk := selectionWorld(t, 100, p)
			rt := pk.cur.Load().route
			for _, mu := range []sync.Locker{&pk.policy.mu, &rt.router.mu, &rt.router.changes.mu, &rt.slots.Load().main.mu, &rt.planning} {
				mu.Lock()
				defer mu.Unlock()
			}
			picked := make(chan error, 1)
			go func() {
				res, err := pk.Pick(typedKey("some key", ""))
				if err == nil {
					res.Done(lb.DoneInfo{})
				}
				picked <- err
			}()
			select {
			case err := <-picked:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the pick waits for a lock")
			}
		})
	}
}

// benchEagerStateChange is what one endpoint's change of state costs the policy's
// goroutine once a direct policy chooses from the READY table: the same for any
// number of endpoints.
func benchEagerStateChange(b *testing.B) {
	for _, endpoints := range []int{100, 5000} {
		b.Run(fmt.Sprintf("endpoints=%d", endpoints), func(b *testing.B) {
			change := changes(b, endpoints)
			b.ReportAllocs()
			for b.Loop() {
				change()
			}
		})
	}
}

// changes returns a change of one of so many endpoints, from READY and back.
func changes(tb testing.TB, endpoints int) func() {
	p := eagerWorld(tb, endpoints)
	ep := p.view.endpoints[endpoints/2]
	states := [...]*childState{ep.cur.Load(), stub(0, "", connectivity.Connecting).cur.Load()}
	i := 0
	return func() {
		i++
		ep.cur.Store(states[i&1])
		p.handleChange(ep)
		p.storeReady()
		p.report()
	}
}

// eagerWorld is a policy over endpoints that are READY and in the table.
func eagerWorld(tb testing.TB, endpoints int) *policy {
	tb.Helper()
	pk := selectionWorld(tb, endpoints, selection.P2C())
	p := pk.policy
	p.picker, p.view, p.route = pk, pk.cur.Load().view, pk.cur.Load().route
	p.cc = discardConn{}
	p.counts[connectivity.Ready] = endpoints
	p.connectAll()
	p.storeReady()
	return p
}

// TestStateChangeIsCheap: the bytes that a change allocates stand for its cost, as
// they say how much of the READY table is copied on any machine: one part of 64
// members and the list of parts.
func TestStateChangeIsCheap(t *testing.T) {
	cost := func(endpoints int) uint64 {
		const n = 2000
		change := changes(t, endpoints)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			change()
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / n
	}
	few, many := cost(100), cost(5000)
	t.Logf("%d bytes with 100 endpoints, %d with 5,000", few, many)
	if many > 3000 {
		t.Errorf("a change of state allocates %d bytes with 5,000 endpoints, %d with 100", many, few)
	}
}
