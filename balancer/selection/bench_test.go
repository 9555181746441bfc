package selection_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/selection"
)

// last chooses the last member.
type last struct{}

func (last) Select(in selection.Input) int { return in.Len() - 1 }

func BenchmarkChoose(b *testing.B) {
	policies := []selection.Policy{
		selection.P2C(), selection.P2C().WithPenalty(0), selection.Random(), selection.RoundRobin(),
		selection.LeastPending(), selection.Custom("last", last{}),
	}
	for i, p := range policies {
		for _, n := range []int{10, 1000} {
			name := fmt.Sprintf("%v/members=%d", p, n)
			if i == 1 {
				name = fmt.Sprintf("p2c-no-penalty/members=%d", n)
			}
			b.Run(name, func(b *testing.B) {
				v, s := selection.NewView(members(n)...), new(selection.State)
				b.ReportAllocs()
				for b.Loop() {
					p.Choose(&v, keyed("user-1"), s)
				}
			})
		}
	}
	for _, excluded := range []int{1, 8, 20} {
		b.Run(fmt.Sprintf("p2c/members=100/excluded=%d", excluded), func(b *testing.B) {
			p, v, s := selection.P2C(), selection.NewView(members(100)...), new(selection.State)
			for i := range excluded {
				v.Exclude(i * 3)
			}
			b.ReportAllocs()
			for b.Loop() {
				p.Choose(&v, keyed("user-1"), s)
			}
		})
	}
	b.Run("p2c/members=10/failing", func(b *testing.B) {
		ms := members(10)
		for _, m := range ms {
			m.SetClock(func() time.Duration { return 0 })
			m.Start()
			m.End(true)
		}
		p, v, s := selection.P2C(), selection.NewView(ms...), new(selection.State)
		b.ReportAllocs()
		for b.Loop() {
			p.Choose(&v, keyed("user-1"), s)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	for _, p := range []selection.Policy{selection.Weighted(nil), selection.Ketama(selection.KetamaOptions{})} {
		for _, n := range []int{10, 1000} {
			for _, candidates := range []int{1, 3} {
				b.Run(fmt.Sprintf("%v/members=%d/candidates=%d", p, n, candidates), func(b *testing.B) {
					s := new(selection.State)
					ms := members(n)
					for i, m := range ms {
						m.SetInfo(selection.Info{Address: m.Info().Address, Weight: uint32(1 + i%10)})
					}
					o := build(b, p, ms, s)
					keys := make([]string, 1024)
					for i := range keys {
						keys[i] = fmt.Sprintf("user-%010d", i)
					}
					i := 0
					b.ReportAllocs()
					for b.Loop() {
						c := selection.Call{Key: keys[i%len(keys)], HasKey: true}
						i++
						var cur selection.Cursor
						for range candidates {
							_, cur = p.Next(o, &c, cur)
						}
					}
				})
			}
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, p := range []selection.Policy{selection.Weighted(nil), selection.Ketama(selection.KetamaOptions{})} {
		for _, n := range []int{10, 1000, 5000} {
			b.Run(fmt.Sprintf("%v/members=%d", p, n), func(b *testing.B) {
				ms, s := members(n), new(selection.State)
				b.ReportAllocs()
				for b.Loop() {
					build(b, p, ms, s)
				}
			})
		}
	}
}

func BenchmarkTable(b *testing.B) {
	for _, n := range []int{10, 5000} {
		t, m := selection.NewTable(members(n)), member(n, 1)
		b.Run(fmt.Sprintf("with/members=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t.With(m)
			}
		})
		b.Run(fmt.Sprintf("without/members=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t.Without(n / 2)
			}
		})
	}
}

func BenchmarkMember(b *testing.B) {
	for _, failed := range []bool{false, true} {
		b.Run(fmt.Sprintf("failed=%t", failed), func(b *testing.B) {
			m := member(1, 1)
			b.ReportAllocs()
			for b.Loop() {
				m.Start()
				m.End(failed)
			}
		})
	}
}
