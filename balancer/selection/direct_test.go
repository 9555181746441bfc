package selection_test

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slicewire/slicewire/balancer/selection"
)

func builtInDirect() []selection.Policy {
	return []selection.Policy{selection.P2C(), selection.Random(), selection.RoundRobin(), selection.LeastPending()}
}

// choices counts how often each member is chosen when every call ends at once.
func choices(p selection.Policy, v selection.View, calls int) []int {
	counts, s := make([]int, v.Len()), new(selection.State)
	for range calls {
		counts[p.Choose(&v, new(selection.Call), s)]++
	}
	return counts
}

// TestS02Distribution: members that are equal get equal shares, whatever else is
// excluded and however long the list is.
func TestS02Distribution(t *testing.T) {
	const each = 4000
	for _, p := range builtInDirect() {
		for _, tc := range []struct {
			name              string
			members, excluded int
		}{
			{"two", 2, 0},
			{"ten", 10, 0},
			{"longer than least_pending's window", 150, 0},
			{"one excluded", 4, 1},
			{"some excluded", 10, 5},
			{"many excluded", 150, 100},
			{"all but one excluded", 12, 11},
		} {
			t.Run(p.String()+"/"+tc.name, func(t *testing.T) {
				v := selection.NewView(members(tc.members)...)
				for i := range tc.excluded {
					v.Exclude(i * 7 % tc.members)
				}
				available := v.Available()
				if available != tc.members-tc.excluded {
					t.Fatalf("%d are available", available)
				}
				tolerance := 6 * math.Sqrt(each) // six sigma
				if p.Kind() == selection.KindRoundRobin {
					tolerance = 1
				}
				for i, n := range choices(p, v, each*available) {
					want := float64(each)
					if v.Excluded(i) {
						want = 0
					}
					if math.Abs(float64(n)-want) > tolerance || want == 0 && n > 0 {
						t.Errorf("member %d of %d was chosen %d times, want %v ± %.0f", i, tc.members, n, want, tolerance)
					}
				}
			})
		}
	}
}

// TestSP03Ties: 100 calls are released at once on four idle members, and stay.
func TestSP03Ties(t *testing.T) {
	for _, p := range []selection.Policy{selection.P2C(), selection.LeastPending(), selection.RoundRobin()} {
		t.Run(p.String(), func(t *testing.T) {
			ms := members(4)
			v, s := selection.NewView(ms...), new(selection.State)
			barrier := make(chan struct{})
			var calls sync.WaitGroup
			for range 100 {
				calls.Go(func() {
					<-barrier
					ms[p.Choose(&v, new(selection.Call), s)].Start()
				})
			}
			close(barrier)
			calls.Wait()
			for i, m := range ms {
				if n := m.Pending(); n < 15 || n > 35 {
					t.Errorf("member %d got %d of 100 calls, want 15 to 35", i, n)
				}
			}
		})
	}
	// The tie itself: nothing is counted in between.
	for _, p := range []selection.Policy{selection.P2C(), selection.LeastPending(), selection.Random()} {
		for i, n := range choices(p, selection.NewView(members(4)...), 40_000) {
			if n < 9_000 || n > 11_000 {
				t.Errorf("%v: member %d of four idle ones was chosen %d of 40,000 times, want about 10,000", p, i, n)
			}
		}
	}
}

// TestSP04TwoDifferentMembers: the busy member is never compared with itself.
func TestSP04TwoDifferentMembers(t *testing.T) {
	for _, p := range []selection.Policy{selection.P2C(), selection.LeastPending()} {
		for _, n := range []int{1, 2, 3, 10} {
			ms := members(n)
			for range 50 {
				ms[0].Start() // a stuck stream
			}
			got := choices(p, selection.NewView(ms...), 1000)
			want := 0
			if n == 1 {
				want = 1000
			}
			if got[0] != want {
				t.Errorf("%v: the busy one of %d members got %d of 1,000 calls, want %d", p, n, got[0], want)
			}
		}
	}
}

// TestS10CursorsOutlivePolicies: round robin goes on where it was.
func TestS10CursorsOutlivePolicies(t *testing.T) {
	const n = 7
	v, s := selection.NewView(members(n)...), new(selection.State)
	choose := func(p selection.Policy) int { return p.Choose(&v, new(selection.Call), s) }
	before := choose(selection.RoundRobin())
	for _, between := range []selection.Policy{selection.P2C(), selection.Random(), selection.LeastPending()} {
		for range 3 {
			choose(between)
		}
		after := choose(selection.RoundRobin())
		if want := (before + 1) % n; after != want {
			t.Errorf("after %v, round robin chose %d, want %d", between, after, want)
		}
		before = after
	}

	// Weighted: members that gave way to another data set go on evenly.
	ms := weighted(5, 1, 1)
	p := selection.Weighted(nil)
	counts := make([]int, len(ms))
	for range 70 {
		o := build(t, p, ms, s) // rebuilt before every pick
		i, _ := p.Next(o, new(selection.Call), selection.Cursor{})
		counts[i]++
		choose(selection.RoundRobin())
	}
	for i, want := range []int{50, 10, 10} {
		if d := counts[i] - want; d < -2 || d > 2 {
			t.Errorf("member %d got %d of 70 picks, want %d ± 2", i, counts[i], want)
		}
	}
}

// TestRoundRobinVisitsAll: one after the other, excluded ones left out.
func TestRoundRobinVisitsAll(t *testing.T) {
	v := selection.NewView(members(6)...).Excluding(1).Excluding(4)
	p, s := selection.RoundRobin(), new(selection.State)
	var got []int
	for range 8 {
		got = append(got, p.Choose(&v, new(selection.Call), s))
	}
	start := slices.Index(got, 0)
	want := []int{0, 2, 3, 5}
	if diff := cmp.Diff(want, got[start:start+4]); diff != "" {
		t.Errorf("choices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(got[:4], got[4:]); diff != "" {
		t.Errorf("second round (-first +second):\n%s", diff)
	}
}

// TestNothingToChoose: no member, or none that is left.
func TestNothingToChoose(t *testing.T) {
	for _, p := range builtInDirect() {
		for name, v := range map[string]selection.View{
			"zero view": {},
			"empty":     selection.NewView(),
			"excluded":  selection.NewView(members(2)...).Excluding(0).Excluding(1),
		} {
			if i := p.Choose(&v, new(selection.Call), new(selection.State)); i != -1 {
				t.Errorf("%v, %s: chose %d, want -1", p, name, i)
			}
		}
	}
	v := selection.NewView(members(2)...)
	for _, p := range []selection.Policy{{}, selection.Weighted(nil), selection.Ketama(selection.KetamaOptions{}), selection.Sliced(selection.Policy{})} {
		if i := p.Choose(&v, new(selection.Call), new(selection.State)); i != -1 {
			t.Errorf("%v is not direct and chose %d, want -1", p, i)
		}
	}
}

// TestConcurrentUse: every rule from many goroutines while members are busy and
// fail. Counts end at 0.
func TestConcurrentUse(t *testing.T) {
	ms := members(100)
	v, s := selection.NewView(ms...), new(selection.State)
	built := []selection.Policy{selection.Weighted(nil), selection.Ketama(selection.KetamaOptions{})}
	var orders []selection.Order
	for _, p := range built {
		orders = append(orders, build(t, p, ms, s))
	}
	var work sync.WaitGroup
	for g := range 2 * runtime.GOMAXPROCS(0) {
		work.Go(func() {
			v := v
			v.Exclude(g)
			for i := range 2000 {
				for _, p := range builtInDirect() {
					m := v.Member(p.Choose(&v, new(selection.Call), s))
					m.Start()
					m.End(i%10 == 0)
				}
				for k, p := range built {
					at, _ := p.Next(orders[k], keyed("user"), selection.Cursor{})
					ms[at].Start()
					ms[at].End(false)
				}
			}
		})
	}
	work.Wait()
	picks := uint64(0)
	for _, m := range ms {
		picks += m.Picks()
		if m.Pending() != 0 {
			t.Errorf("%s has %d pending at the end", m.Name(), m.Pending())
		}
	}
	if want := uint64(2 * runtime.GOMAXPROCS(0) * 2000 * 6); picks != want {
		t.Errorf("%d picks were counted, want %d", picks, want)
	}
}
