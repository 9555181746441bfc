package balancer

import (
	"fmt"
	"testing"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// selectionWorld is a picker whose default selector has policy p, over endpoints
// that are READY and stand still.
func selectionWorld(tb testing.TB, endpoints int, p selection.Policy) *picker {
	tb.Helper()
	eps := make([]*endpoint, endpoints)
	members := make([]*selection.Member, endpoints)
	for i := range eps {
		eps[i] = stub(i, fmt.Sprintf("host-%05d", i), connectivity.Ready)
		members[i] = eps[i].member
	}
	rt := stillRoute(p)
	pk := stillPicker(&published{config: &Config{Unsharded: true}, view: newView(eps), route: rt})
	pk.ready.Store(selection.NewTable(members))
	if p.Built() {
		sl := rt.slots.Load().main
		o, err := p.Build(tb.Context(), selection.Membership{Generation: 1, Members: members}, &sl.selector.state)
		if err != nil {
			tb.Fatal(err)
		}
		sl.cur.Store(&inForce{rule: sl.rule, order: o, members: eps, membership: 1})
	}
	rt.replan(rt.slots.Load().all()...)
	return pk
}

// BenchmarkSelection is a pick and the end of its RPC, by policy.
func BenchmarkSelection(b *testing.B) {
	for _, p := range []selection.Policy{
		selection.P2C(), selection.Random(), selection.RoundRobin(), selection.LeastPending(),
		selection.Weighted(nil), selection.Ketama(selection.KetamaOptions{}), selection.Custom("first", first{}),
	} {
		b.Run(p.String(), func(b *testing.B) {
			pk := selectionWorld(b, 100, p)
			info := typedKey("some key", "")
			over := lb.DoneInfo{BytesSent: true, BytesReceived: true}
			b.ReportAllocs()
			for b.Loop() {
				res, err := pk.Pick(info)
				if err != nil {
					b.Fatal(err)
				}
				res.Done(over)
			}
		})
	}
}

// BenchmarkDynamicCell is what it costs that a policy can be swapped: a pick that
// finds its plan, against the same pick with a plan that is fixed (seed 004,
// performance gates). A machine that others use tells a few percent apart only in
// internal/bench, where the two take turns.
func BenchmarkDynamicCell(b *testing.B) {
	for _, p := range []selection.Policy{
		selection.P2C(), selection.Random(), selection.RoundRobin(), selection.LeastPending(),
		selection.Weighted(nil), selection.Ketama(selection.KetamaOptions{}),
	} {
		pk := selectionWorld(b, 100, p)
		plan := *pk.plan.Load()
		fixed := func(info lb.PickInfo) (lb.PickResult, error) {
			return pk.byChoice(info, callinfo.From(info.Ctx), &plan)
		}
		if plan.rule != nil {
			fixed = func(info lb.PickInfo) (lb.PickResult, error) {
				return pk.byOrder(info, callinfo.From(info.Ctx), &plan)
			}
		}
		info := typedKey("some key", "")
		over := lb.DoneInfo{BytesSent: true, BytesReceived: true}
		for _, way := range []struct {
			name string
			pick func(lb.PickInfo) (lb.PickResult, error)
		}{{"fixed", fixed}, {"cell", pk.Pick}} {
			b.Run(p.String()+"/"+way.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					res, err := way.pick(info)
					if err != nil {
						b.Fatal(err)
					}
					res.Done(over)
				}
			})
		}
	}
}

type first struct{}

func (first) Select(in selection.Input) int {
	for i := range in.Len() {
		if !in.Excluded(i) {
			return i
		}
	}
	return selection.NoOpinion
}
