package selection_test

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/selection"
)

// churning is a set of 50 members that changes under load: what callers read, and
// what is behind it.
type churning struct {
	table    *selection.Table
	members  []*selection.Member // sorted by name, for those that build
	weighted selection.Order
	ketama   selection.Order
}

// TestSP10MembersAreForgotten: 10,000 members pass through a set of 50, half of
// it replaced at each step, under load. New ones get calls at once, a member that
// returns starts fresh, those that went are collected and the heap stays flat.
func TestSP10MembersAreForgotten(t *testing.T) {
	const size, total = 50, 10_000
	var (
		current   atomic.Pointer[churning]
		state     selection.State
		collected atomic.Int64
		made      int
		byWeight  = selection.Weighted(nil)
		byKey     = selection.Ketama(selection.KetamaOptions{PointsPerWeight: 20})
	)
	make1 := func() *selection.Member {
		m := member(made, 1+uint32(made%3))
		made++
		runtime.AddCleanup(m, func(struct{}) { collected.Add(1) }, struct{}{})
		return m
	}
	publish := func(table *selection.Table) {
		c := &churning{table: table}
		for i := range table.Len() {
			c.members = append(c.members, table.At(i))
		}
		slices.SortFunc(c.members, func(a, b *selection.Member) int { return strings.Compare(a.Name(), b.Name()) })
		c.weighted = build(t, byWeight, c.members, &state)
		c.ketama = build(t, byKey, c.members, &state)
		current.Store(c)
	}
	var table *selection.Table
	for range size {
		table = table.With(make1())
	}
	publish(table)

	stop := make(chan struct{})
	var load sync.WaitGroup
	policies := append(builtInDirect(), byWeight, byKey)
	for range 2 {
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				c := current.Load()
				var m *selection.Member
				switch p := policies[n%len(policies)]; p.Kind() {
				case selection.KindWeighted:
					m = c.members[first(p, c.weighted)]
				case selection.KindKetama:
					m = c.members[first(p, c.ketama)]
				default:
					v := selection.ViewOf(c.table)
					m = v.Member(p.Choose(&v, new(selection.Call), &state))
				}
				m.Start()
				m.End(n%7 == 0)
			}
		})
	}

	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var early uint64
	for step := 0; made < total; step++ {
		var fresh []*selection.Member
		for k := range size / 2 {
			table, _ = table.Without((k*7 + step) % table.Len())
		}
		for range size / 2 {
			fresh = append(fresh, make1())
			table = table.With(fresh[len(fresh)-1])
		}
		publish(table)
		if step%20 == 0 {
			deadline := time.Now().Add(time.Second)
			for _, m := range fresh {
				for m.Picks() == 0 {
					if time.Now().After(deadline) {
						t.Fatalf("step %d: %s got no call in its first second", step, m.Name())
					}
					runtime.Gosched()
				}
			}
		}
		if made == total/10 {
			early = heap()
		}
	}
	late := heap()
	close(stop)
	load.Wait()
	if late > early+early/4+(1<<20) {
		t.Errorf("the heap grew from %d to %d bytes between 1,000 and 10,000 members", early, late)
	}

	back := member(0, 1)
	if back.Pending() != 0 || back.Picks() != 0 || back.Penalty(time.Second) != 0 {
		t.Error("a member that returns does not start fresh")
	}

	table = nil
	current.Store(nil)
	deadline := time.Now().Add(10 * time.Second)
	for collected.Load() < total {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d members were collected", collected.Load(), total)
		}
		runtime.GC()
		time.Sleep(time.Millisecond) // cleanups have a goroutine of their own
	}
}
