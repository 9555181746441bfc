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
// finds the selector and loads what is in force, against the same pick that was
// told (seed 004, performance gates). Its two halves alternate, so that they see the
// same machine.
func BenchmarkDynamicCell(b *testing.B) {
	for _, p := range []selection.Policy{selection.P2C(), selection.Random(), selection.RoundRobin(), selection.LeastPending()} {
		pk := selectionWorld(b, 100, p)
		pub := pk.cur.Load()
		slot := pub.route.slots.Load().main
		rule := slot.cur.Load()
		info := typedKey("some key", "")
		over := lb.DoneInfo{BytesSent: true, BytesReceived: true}
		ways := map[string]func(*attempt) error{
			"cell":  func(a *attempt) error { _, err := pk.pick(a); return err },
			"fixed": func(a *attempt) error { a.slot, a.rule = slot, rule; _, err := pk.direct(a); return err },
		}
		for _, way := range []string{"fixed", "cell"} {
			pick := ways[way]
			b.Run(p.String()+"/"+way, func(b *testing.B) {
				a := new(attempt)
				b.ReportAllocs()
				for b.Loop() {
					*a = attempt{pub: pub, call: callinfo.From(info.Ctx), info: info}
					if err := pick(a); err != nil {
						b.Fatal(err)
					}
					a.result.Done(over)
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
