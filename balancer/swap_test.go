package balancer

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/slicewire/slicewire/balancer/selection"
)

// TestP06SwapAgainstPicks: data of {A,B} and of {C,D} replace each other 1,000
// times under a tight loop of picks. No pick finds nothing, and none reaches a
// member outside the pair that was in force.
func TestP06SwapAgainstPicks(t *testing.T) {
	const swaps = 1000
	pk := selectionWorld(t, 4, selection.Weighted(nil))
	sl := pk.cur.Load().route.slots.Load().main
	eps := pk.cur.Load().view.endpoints
	var pairs []*membership
	var last *membership
	for i := range swaps {
		last = last.successor(eps[i%2*2 : i%2*2+2])
		pairs = append(pairs, last)
	}
	swap := func(m *membership) {
		sl.mu.Lock()
		sl.members = m
		in := buildInput{sl.rule, m}
		sl.mu.Unlock()
		o, err := sl.build(t.Context(), in)
		if err != nil {
			t.Error(err)
			return
		}
		sl.publish(in, o)
	}
	swap(pairs[0])

	halt := make(chan struct{})
	var pickers, warm sync.WaitGroup
	for w := range 2 {
		warm.Add(1)
		ready := sync.OnceFunc(warm.Done)
		pickers.Go(func() {
			defer ready()
			for picks := 0; ; picks++ {
				select {
				case <-halt:
					return
				default:
				}
				before := pk.plan.Load().rule
				res, err := pk.Pick(methodInfo())
				after := pk.plan.Load().rule
				if err != nil {
					t.Errorf("a pick found nothing: %v", err)
					return
				}
				ep := eps[res.SubConn.(*stubSubConn).endpoint]
				// It used before, after, or one between.
				if after.membership <= before.membership+1 && !slices.Contains(before.members, ep) && !slices.Contains(after.members, ep) {
					t.Errorf("picker %d reached %s, outside of what was in force", w, ep.name)
					return
				}
				if picks == 10 {
					ready()
				}
			}
		})
	}
	warm.Wait()
	for _, m := range pairs[1:] {
		swap(m)
		runtime.Gosched()
	}
	close(halt)
	pickers.Wait()
	if f := sl.cur.Load(); f.membership != swaps {
		t.Errorf("membership %d in force, want %d", f.membership, swaps)
	}
}

// TestDefaultOverrulesNobody: the default of the first LB config comes while code
// publishes, and whoever is first, code's policy is in force.
func TestDefaultOverrulesNobody(t *testing.T) {
	for range 500 {
		r := NewRouter(RouterOptions{})
		s := r.Selector(DefaultSelector)
		var both sync.WaitGroup
		for source, p := range map[Source]selection.Policy{FromDefault: selection.P2C(), FromCode: selection.Random()} {
			both.Go(func() {
				if _, err := s.Publish(p, source); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if got := s.Policy().String(); got != "random" {
			t.Fatalf("%s is in force, want what code published", got)
		}
		if pub, err := s.Publish(selection.RoundRobin(), FromDefault); err != nil || pub.Changed {
			t.Fatalf("another default: %+v, %v", pub, err)
		}
		r.Close()
	}
}
