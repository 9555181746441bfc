package selection_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slicewire/slicewire/balancer/selection"
)

// directFunc and builderFunc are a user's rules.
type directFunc func(selection.Input) int

func (f directFunc) Select(in selection.Input) int { return f(in) }

type builderFunc func(context.Context, selection.Membership) (selection.Order, error)

func (f builderFunc) Build(ctx context.Context, m selection.Membership) (selection.Order, error) {
	return f(ctx, m)
}

// listed is an order that is always the same.
type listed []int

func (l listed) Next(_ selection.Call, c selection.Cursor) (int, selection.Cursor) {
	if c.A >= uint64(len(l)) {
		return -1, c
	}
	return l[c.A], selection.Cursor{A: c.A + 1}
}

// idlest is what a user might write: the member with the fewest in flight.
type idlest struct{}

func (idlest) Select(in selection.Input) int {
	best := selection.NoOpinion
	for i := range in.Len() {
		if !in.Excluded(i) && (best < 0 || in.Member(i).Pending() < in.Member(best).Pending()) {
			best = i
		}
	}
	return best
}

// TestS03NoAllocation: no rule allocates in a pick, a user's neither.
func TestS03NoAllocation(t *testing.T) {
	v, s := selection.NewView(members(100)...).Excluding(3), new(selection.State)
	for _, p := range append(builtInDirect(), selection.Custom("idlest", idlest{})) {
		if n := testing.AllocsPerRun(200, func() {
			p.Choose(&v, &selection.Call{Method: "/a.B/C", Key: "user", HasKey: true}, s)
		}); n != 0 {
			t.Errorf("%v: a choice makes %v allocations, want none", p, n)
		}
	}
	for _, p := range []selection.Policy{
		selection.Weighted(nil), selection.Ketama(selection.KetamaOptions{}),
		selection.CustomBuilt("listed", builderFunc(func(context.Context, selection.Membership) (selection.Order, error) {
			return listed{0, 1, 2, 3}, nil
		}), false),
	} {
		o := build(t, p, members(100), s)
		key := strings.Repeat("user", 20)
		if n := testing.AllocsPerRun(200, func() {
			c, cur := selection.Call{Key: key, HasKey: true}, selection.Cursor{}
			for range 4 {
				_, cur = p.Next(o, &c, cur)
			}
		}); n != 0 {
			t.Errorf("%v: four candidates make %v allocations, want none", p, n)
		}
	}
	if n := testing.AllocsPerRun(200, func() {
		v := selection.ViewOf(nil)
		_ = v
		w := selection.View{}
		w.Exclude(0)
	}); n != 0 {
		t.Errorf("a view makes %v allocations, want none", n)
	}
}

// TestS04Context: a rule of the user's sees all members, more than 64, which are
// excluded, counts that are live, and the call.
func TestS04Context(t *testing.T) {
	ms := members(200)
	ms[150].SetInfo(selection.Info{Address: "10.0.0.1:1", Weight: 7})
	v := selection.NewView(ms...)
	for i := range 20 {
		v.Exclude(i * 10)
	}
	ctx := t.Context()
	var chosen int
	p := selection.Custom("looks", directFunc(func(in selection.Input) int {
		if in.Len() != 200 || in.Available() != 180 {
			t.Errorf("Len %d, Available %d, want 200 and 180", in.Len(), in.Available())
		}
		for i := range in.Len() {
			if want := i%10 == 0; in.Excluded(i) != want {
				t.Errorf("Excluded(%d) = %t", i, !want)
			}
			if in.Member(i) != ms[i] {
				t.Errorf("Member(%d) is another", i)
			}
		}
		if got := in.Member(150).Info(); got.Weight != 7 || got.Address != "10.0.0.1:1" {
			t.Errorf("Info() = %+v", got)
		}
		before := in.Member(199).Pending()
		ms[199].Start() // while the rule looks
		if after := in.Member(199).Pending(); after != before+1 {
			t.Errorf("pending went from %d to %d while one started", before, after)
		}
		want := selection.Call{Context: ctx, Method: "/a.B/C", Key: "user-1", HasKey: true}
		if in.Call != want {
			t.Errorf("the call is %+v, want %+v", in.Call, want)
		}
		return chosen
	}))
	for _, chosen = range []int{199, 10, 500, -7} { // the last three are the caller's to refuse
		if got := p.Choose(&v, &selection.Call{Context: ctx, Method: "/a.B/C", Key: "user-1", HasKey: true}, nil); got != chosen {
			t.Errorf("Choose = %d, want %d as it was selected", got, chosen)
		}
	}
}

// TestS06NoOpinion: P2C chooses then, exclusions and load respected.
func TestS06NoOpinion(t *testing.T) {
	ms := members(3)
	ms[0].Start()
	v := selection.NewView(ms...).Excluding(1)
	p := selection.Custom("none", directFunc(func(selection.Input) int { return selection.NoOpinion }))
	for range 100 {
		if got := p.Choose(&v, new(selection.Call), nil); got != 2 {
			t.Fatalf("chose %d, want 2: 0 is busy and 1 excluded", got)
		}
	}
}

// TestCustomBuilt: what a Builder answers is what the caller gets.
func TestCustomBuilt(t *testing.T) {
	ms := members(3)
	broken := errors.New("broken")
	for _, tc := range []struct {
		name  string
		build builderFunc
		want  []int
		err   string
	}{
		{"an order", func(_ context.Context, m selection.Membership) (selection.Order, error) {
			if m.Generation != 9 || len(m.Members) != 3 {
				return nil, fmt.Errorf("membership %+v", m)
			}
			return listed{2, 0, 1}, nil
		}, []int{2, 0, 1}, ""},
		{"an error", func(context.Context, selection.Membership) (selection.Order, error) { return nil, broken }, nil, "broken"},
		{"nothing", func(context.Context, selection.Membership) (selection.Order, error) { return nil, nil }, nil, `policy "mine" built nothing`},
		{"a typed nil", func(context.Context, selection.Membership) (selection.Order, error) { return listed(nil), nil }, nil, `policy "mine" built nothing`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := selection.CustomBuilt("mine", tc.build, true)
			o, err := p.Build(t.Context(), selection.Membership{Generation: 9, Members: ms}, new(selection.State))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, orderOf(p, o, keyed("user"), 10)); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
	p := selection.P2C()
	if _, err := p.Build(t.Context(), selection.Membership{}, nil); err == nil {
		t.Error("p2c built something")
	}
}
