package balancer

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/internal/wire"
)

// world is a picker over many slices and endpoints that stand still.
func world(tb testing.TB, slices, endpoints, replicas int, state connectivity.State) *picker {
	tb.Helper()
	names := make([]string, endpoints)
	eps := make([]*endpoint, endpoints)
	for i := range eps {
		names[i] = fmt.Sprintf("host-%05d", i)
		eps[i] = stub(i, names[i], state)
	}
	list := make([]*wire.SliceAssignment, slices)
	for i := range list {
		s := &wire.Slice{StartKey: benchKey(i, slices)}
		if i == 0 {
			s.StartKey = nil
		}
		if i+1 < slices {
			s.EndKey = benchKey(i+1, slices)
		}
		list[i] = &wire.SliceAssignment{Slice: s}
		for r := range replicas {
			list[i].Endpoints = append(list[i].Endpoints, &wire.PerSliceEndpointState{EndpointIndex: int32((i*7 + r*13) % endpoints)})
		}
	}
	pub := &published{
		config: &Config{KeyHeader: "x-key"},
		phase:  assignment.Assigned,
		slices: decodeSlices(tb, 1, assignment.Revision202608, names, list),
		view:   newView(eps),
	}
	pub.resolveOwners()
	return stillPicker(pub)
}

func benchKey(i, n int) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(i)*(^uint64(0)/uint64(n)))
}

func headerKey(key string) lb.PickInfo {
	return lb.PickInfo{Ctx: metadata.AppendToOutgoingContext(context.Background(), "x-key", key)}
}

// TestPickDoesNotAllocate: issue A, a pick with a typed key.
func TestPickDoesNotAllocate(t *testing.T) {
	p := world(t, 1000, 100, 3, connectivity.Ready)
	info := typedKey("a key", "x-key")
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := p.Pick(info); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("typed key: %v allocations a pick, want 0", n)
	}
	info = headerKey("a key")
	if n := testing.AllocsPerRun(1000, func() { _, _ = p.Pick(info) }); n > 1 {
		t.Errorf("A-04: key in the header: %v allocations a pick, want at most 1", n)
	}
}

func BenchmarkPick(b *testing.B) {
	for _, slices := range []int{100, 100_000} {
		for _, bc := range []struct {
			name string
			info lb.PickInfo
		}{{"typed", typedKey(string(benchKey(77, 100)), "x-key")}, {"header", headerKey(string(benchKey(77, 100)))}} {
			b.Run(fmt.Sprintf("%s/slices=%d", bc.name, slices), func(b *testing.B) {
				p := world(b, slices, 100, 3, connectivity.Ready)
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := p.Pick(bc.info); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
	}
	for _, endpoints := range []int{100, 5000} {
		b.Run(fmt.Sprintf("fallback/endpoints=%d", endpoints), func(b *testing.B) {
			p := world(b, 1, endpoints, 1, connectivity.TransientFailure)
			pub := p.cur.Load()
			pub.config.EnableFallback = true
			// The worst case for a scan: one endpoint is READY, far from most starts.
			last := stub(endpoints-1, pub.view.endpoints[endpoints-1].name, connectivity.Ready)
			pub.view.endpoints[endpoints-1] = last
			pub.view = newView(pub.view.endpoints)
			info := typedKey("some key", "x-key")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Pick(info); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStateChange is what one endpoint's change of state costs the policy's
// goroutine: the same for any number of slices and endpoints.
func BenchmarkStateChange(b *testing.B) {
	for _, slices := range []int{1000, 100_000} {
		for _, endpoints := range []int{100, 5000} {
			b.Run(fmt.Sprintf("slices=%d/endpoints=%d", slices, endpoints), func(b *testing.B) {
				pk := world(b, slices, endpoints, 3, connectivity.Ready)
				p := pk.policy
				p.picker, p.view = pk, pk.cur.Load().view
				p.cc = discardConn{}
				p.counts[connectivity.Ready] = endpoints
				ep := p.view.endpoints[0]
				states := [...]*childState{ep.cur.Load(), stub(0, "", connectivity.Connecting).cur.Load()}
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					i++
					ep.cur.Store(states[i&1])
					p.handleChange(ep)
					p.report()
				}
			})
		}
	}
	b.Run("eager", benchEagerStateChange)
}

type discardConn struct{ lb.ClientConn }

func (discardConn) UpdateState(lb.State) {}
