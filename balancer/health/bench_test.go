package health_test

import (
	"context"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/health"
)

// BenchmarkCell is what a pick pays for each candidate.
func BenchmarkCell(b *testing.B) {
	r := newRegistry(b, health.Options{Interval: time.Hour, Checker: health.Func(func(context.Context, health.Target) error { return nil })})
	defer r.Close()
	v := newView(b, r, nil, named("a")...)
	for name, cell := range map[string]*health.Cell{"probed": v.Cell("a"), "nil": nil} {
		b.Run("Healthy/"+name, func(b *testing.B) {
			b.ReportAllocs()
			usable := 0
			for b.Loop() {
				if cell.Healthy() {
					usable++
				}
			}
			if usable == 0 {
				b.Fatal("not healthy")
			}
		})
	}
}

// BenchmarkSet is one membership change of one view.
func BenchmarkSet(b *testing.B) {
	r := newRegistry(b, health.Options{Interval: time.Hour, Checker: health.Func(func(context.Context, health.Target) error { return nil })})
	defer r.Close()
	all := numbered(5000)
	v := newView(b, r, nil, all...)
	b.ReportAllocs()
	for b.Loop() {
		set(b, v, all[1:]...)
		set(b, v, all...)
	}
}

func TestHealthyAllocatesNothing(t *testing.T) {
	c := new(health.Cell)
	if n := testing.AllocsPerRun(100, func() {
		if !c.Healthy() || c.State() != health.Healthy {
			t.Error("a new cell is not healthy")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
