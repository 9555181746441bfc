package selection_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/slicewire/slicewire/balancer/selection"
)

// first is the first candidate of a call without a key.
func first(p selection.Policy, o selection.Order) int {
	i, _ := p.Next(o, new(selection.Call), selection.Cursor{})
	return i
}

// TestSP09Weights: zero, huge, smooth, and nothing but zeros.
func TestSP09Weights(t *testing.T) {
	p := selection.Weighted(nil)
	t.Run("zero gets nothing", func(t *testing.T) {
		ms, s := weighted(0, 100), new(selection.State)
		o := build(t, p, ms, s)
		for range 10_000 {
			if got := orderOf(p, o, new(selection.Call), 10); !slices.Equal(got, []int{1}) {
				t.Fatalf("candidates %v, want 1 alone", got)
			}
		}
	})
	t.Run("a million to one", func(t *testing.T) {
		ms, s := weighted(1_000_000, 1), new(selection.State)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		o := build(t, p, ms, s)
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 100<<10 {
			t.Errorf("building allocated %d bytes", grown)
		}
		if bytes := o.(interface{ Bytes() int64 }).Bytes(); bytes > 1<<10 {
			t.Errorf("the data holds %d bytes", bytes)
		}
		light := 0
		for range 3_000_003 {
			light += first(p, o)
		}
		if light < 1 || light > 6 {
			t.Errorf("the light one was chosen %d of 3,000,003 times, want about 3", light)
		}
	})
	t.Run("five to one to one", func(t *testing.T) {
		for _, weights := range [][]uint32{{5, 1, 1}, {1, 5, 1}, {1, 1, 5}} {
			ms, s := weighted(weights...), new(selection.State)
			o := build(t, p, ms, s)
			counts := make([]int, 3)
			last, run, longest := -1, 0, 0
			for range 7000 {
				i := first(p, o)
				counts[i]++
				if i != last {
					last, run = i, 0
				}
				run++
				longest = max(longest, run)
			}
			for i, n := range counts {
				if want := 1000 * float64(weights[i]); math.Abs(float64(n)-want) > 0.05*want {
					t.Errorf("weights %v: member %d was chosen %d of 7,000 times, want %.0f ± 5%%", weights, i, n, want)
				}
			}
			if longest > 5 {
				t.Errorf("weights %v: %d in a row, want 5 at most", weights, longest)
			}
		}
	})
	t.Run("all zero are equal", func(t *testing.T) {
		ms, s := weighted(0, 0, 0, 0), new(selection.State)
		o := build(t, p, ms, s)
		counts := make([]int, 4)
		for range 4000 {
			counts[first(p, o)]++
		}
		for i, n := range counts {
			if n < 990 || n > 1010 {
				t.Errorf("member %d was chosen %d of 4,000 times, want 1,000", i, n)
			}
		}
	})
	t.Run("weights by a function", func(t *testing.T) {
		byName := selection.Weighted(func(m *selection.Member) uint32 {
			if m.Name() == "backend-00001" {
				return 3
			}
			return 0
		})
		ms, s := weighted(1, 1, 1), new(selection.State)
		if got := orderOf(byName, build(t, byName, ms, s), new(selection.Call), 10); !slices.Equal(got, []int{1}) {
			t.Errorf("candidates %v, want 1 alone", got)
		}
	})
}

// TestSP09Smooth: at every moment each member is within a few picks of its share,
// for any weights.
func TestSP09Smooth(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		weights := make([]uint32, 1+random.IntN(30))
		total := 0.0
		for i := range weights {
			weights[i] = uint32(random.IntN(10) * (1 + random.IntN(100)))
			total += float64(weights[i])
		}
		if total == 0 {
			continue
		}
		p, s := selection.Weighted(nil), new(selection.State)
		o := build(t, p, weighted(weights...), s)
		counts := make([]int, len(weights))
		for k := range 20_000 {
			counts[first(p, o)]++
			for i, n := range counts {
				if off := float64(n) - float64(k+1)*float64(weights[i])/total; math.Abs(off) > 5 {
					t.Fatalf("weights %v: after %d picks member %d is %.1f off its share", weights, k+1, i, off)
				}
			}
		}
	}
}

// TestP29FurtherCandidates: what one member refuses goes to the others by their
// weights, smoothly too.
func TestP29FurtherCandidates(t *testing.T) {
	weights := []uint32{6, 5, 1, 3}
	p, s := selection.Weighted(nil), new(selection.State)
	o := build(t, p, weighted(weights...), s)
	const calls = 15_000
	counts := make([]int, len(weights))
	for range calls {
		for _, i := range orderOf(p, o, new(selection.Call), len(weights)) {
			if i != 0 { // it refuses all
				counts[i]++
				break
			}
		}
	}
	for i, want := range []float64{0, 5. / 9, 1. / 9, 3. / 9} {
		if got := float64(counts[i]) / calls; math.Abs(got-want) > 0.02 {
			t.Errorf("member %d gets %.3f of the calls while 0 refuses, want %.3f", i, got, want)
		}
	}
}

// TestP02OrderIsAPermutation: candidates of built policies come once each, all of
// them, in any number.
func TestP02OrderIsAPermutation(t *testing.T) {
	for _, p := range []selection.Policy{selection.Weighted(nil), selection.Ketama(selection.KetamaOptions{}), selection.Ketama(selection.KetamaOptions{PointsPerWeight: 3})} {
		for _, n := range []int{0, 1, 2, 3, 7, 8, 9, 10, 65, 200} {
			t.Run(fmt.Sprintf("%v/%d", p, n), func(t *testing.T) {
				ms, s := members(n), new(selection.State)
				want := make([]int, 0, n)
				for i, m := range ms {
					weight := uint32(i % 4)
					m.SetInfo(selection.Info{Address: m.Info().Address, Weight: weight})
					if weight > 0 || n == 1 {
						want = append(want, i)
					}
				}
				o := build(t, p, ms, s)
				for k := range 200 {
					c := keyed(fmt.Sprint("key-", k))
					if k%10 == 0 {
						c = new(selection.Call)
					}
					got := orderOf(p, o, c, 10*n+10)
					slices.Sort(got)
					if !slices.Equal(got, want) {
						t.Fatalf("call %d: candidates in order of index %v, want %v", k, got, want)
					}
				}
				// Through the interface it is the same.
				var viaOrder []int
				for i, cur := o.Next(*keyed("a"), selection.Cursor{}); i >= 0; i, cur = o.Next(*keyed("a"), cur) {
					viaOrder = append(viaOrder, i)
				}
				slices.Sort(viaOrder)
				if !slices.Equal(viaOrder, want) {
					t.Errorf("by Order.Next: %v, want %v", viaOrder, want)
				}
			})
		}
	}
}

// TestBuildIsCancelled: the context ends a build, and its cause is the error.
func TestBuildIsCancelled(t *testing.T) {
	closed := errors.New("the selector was closed")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(closed)
	for _, p := range []selection.Policy{selection.Weighted(nil), selection.Ketama(selection.KetamaOptions{})} {
		if o, err := p.Build(ctx, selection.Membership{Members: members(10)}, new(selection.State)); !errors.Is(err, closed) {
			t.Errorf("%v: built %v with error %v, want %v", p, o, err, closed)
		}
	}

	// In the middle, seen from the weight function.
	ctx, cancel = context.WithCancelCause(t.Context())
	p := selection.Ketama(selection.KetamaOptions{Weight: func(m *selection.Member) uint32 {
		if strings.HasSuffix(m.Name(), "9") {
			cancel(closed)
		}
		return 1
	}})
	if _, err := p.Build(ctx, selection.Membership{Members: members(10)}, new(selection.State)); !errors.Is(err, closed) {
		t.Errorf("error %v, want %v", err, closed)
	}
}
