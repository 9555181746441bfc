package selection_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/selection"
)

// ruleSet is a user's rule of a type that cannot be compared.
type ruleSet []string

func (ruleSet) Select(selection.Input) int { return 0 }

// wrapped can be compared or not, as what is in it.
type wrapped struct{ inner any }

func (wrapped) Select(selection.Input) int { return 0 }

type pointed struct{ n int }

func (*pointed) Select(selection.Input) int { return 0 }
func (*pointed) Build(context.Context, selection.Membership) (selection.Order, error) {
	return listed{}, nil
}

// TestS11Equal: a policy with the same settings is the same policy.
func TestS11Equal(t *testing.T) {
	weight := func(*selection.Member) uint32 { return 2 }
	one, other := &pointed{1}, &pointed{1}
	byWeight := selection.Weighted(weight)
	byKey := selection.Ketama(selection.KetamaOptions{Weight: weight})
	for _, tc := range []struct {
		name string
		a, b selection.Policy
		want bool
	}{
		{"built-in", selection.P2C(), selection.P2C(), true},
		{"the default spelled out", selection.P2C(), selection.P2C().WithPenalty(time.Second), true},
		{"off is off", selection.P2C().WithPenalty(0), selection.P2C().WithPenalty(-1), true},
		{"another penalty", selection.P2C(), selection.P2C().WithPenalty(2 * time.Second), false},
		{"another rule", selection.P2C(), selection.LeastPending(), false},
		{"no policy", selection.Policy{}, selection.Policy{}, true},
		{"none and one", selection.Policy{}, selection.Random(), false},
		{"weighted", selection.Weighted(nil), selection.Weighted(nil), true},
		{"weighted, a copy", byWeight, byWeight, true},
		{"weighted, functions", selection.Weighted(weight), selection.Weighted(weight), false},
		{"weighted, function or none", byWeight, selection.Weighted(nil), false},
		{"ketama", selection.Ketama(selection.KetamaOptions{}), selection.Ketama(selection.KetamaOptions{PointsPerWeight: 160}), true},
		{"ketama, a copy", byKey, byKey, true},
		{"ketama, points", selection.Ketama(selection.KetamaOptions{}), selection.Ketama(selection.KetamaOptions{PointsPerWeight: 161}), false},
		{"ketama, seed", selection.Ketama(selection.KetamaOptions{}), selection.Ketama(selection.KetamaOptions{Seed: 1}), false},
		{"ketama, function or none", byKey, selection.Ketama(selection.KetamaOptions{}), false},
		{"sliced", selection.Sliced(selection.Policy{}), selection.Sliced(selection.Policy{}), true},
		{"sliced, inner", selection.Sliced(selection.P2C()), selection.Sliced(selection.P2C()), true},
		{"sliced, other inner", selection.Sliced(selection.P2C()), selection.Sliced(selection.Random()), false},
		{"custom", selection.Custom("a", one), selection.Custom("a", one), true},
		{"custom, by value", selection.Custom("a", wrapped{1}), selection.Custom("a", wrapped{1}), true},
		{"custom, name", selection.Custom("a", one), selection.Custom("b", one), false},
		{"custom, pointer", selection.Custom("a", one), selection.Custom("a", other), false},
		{"custom, type", selection.Custom("a", one), selection.Custom("a", wrapped{1}), false},
		{"custom, cannot be compared", selection.Custom("a", ruleSet{}), selection.Custom("a", ruleSet{}), false},
		{"custom, cannot be compared inside", selection.Custom("a", wrapped{[]int{1}}), selection.Custom("a", wrapped{[]int{1}}), false},
		{"custom, nil", selection.Custom("a", nil), selection.Custom("a", one), false},
		{"custom built", selection.CustomBuilt("a", one, true), selection.CustomBuilt("a", one, true), true},
		{"custom built, waiting", selection.CustomBuilt("a", one, true), selection.CustomBuilt("a", one, false), false},
		{"custom and custom built", selection.CustomBuilt("a", one, false), selection.Custom("a", one), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.a.Equal(tc.b); got != tc.want {
				t.Errorf("a.Equal(b) = %t", got)
			}
			if got := tc.b.Equal(tc.a); got != tc.want {
				t.Errorf("b.Equal(a) = %t", got)
			}
		})
	}
}

// TestS12Validate: what cannot serve is refused before it is published, all of
// its problems at once.
func TestS12Validate(t *testing.T) {
	var nobody *pointed
	for _, tc := range []struct {
		name string
		p    selection.Policy
		want []string // parts of the error; none if it is valid
	}{
		{"zero", selection.Policy{}, []string{"zero Policy"}},
		{"p2c", selection.P2C(), nil},
		{"p2c without penalty", selection.P2C().WithPenalty(-1), nil},
		{"longest penalty", selection.LeastPending().WithPenalty(selection.MaxPenalty), nil},
		{"too long a penalty", selection.LeastPending().WithPenalty(time.Minute), []string{"least_pending", "at most 16s, not 1m0s"}},
		{"penalty elsewhere", selection.RoundRobin().WithPenalty(time.Second), []string{"round_robin", "only p2c and least_pending"}},
		{"random", selection.Random(), nil},
		{"round_robin", selection.RoundRobin(), nil},
		{"weighted", selection.Weighted(nil), nil},
		{"ketama", selection.Ketama(selection.KetamaOptions{}), nil},
		{
			"ketama, both wrong", selection.Ketama(selection.KetamaOptions{PointsPerWeight: -1, MaxPoints: 1 << 29}),
			[]string{"PointsPerWeight is -1; it has to be 1 to 65536", "MaxPoints is 536870912; it has to be 1 to 268435456"},
		},
		{"sliced", selection.Sliced(selection.Policy{}), nil},
		{"sliced, p2c", selection.Sliced(selection.P2C()), nil},
		{"sliced, custom", selection.Sliced(selection.Custom("mine", idlest{})), nil},
		{"sliced, built", selection.Sliced(selection.Weighted(nil)), []string{"within a slice weighted cannot choose"}},
		{"sliced, sliced", selection.Sliced(selection.Sliced(selection.Policy{})), []string{"within a slice sliced cannot choose"}},
		{"sliced, invalid", selection.Sliced(selection.Custom("", nil)), []string{"within a slice", "has no name", "its Direct is nil"}},
		{"custom", selection.Custom("mine", idlest{}), nil},
		{"custom, nil and nameless", selection.Custom("", nil), []string{"has no name", "its Direct is nil"}},
		{"custom, typed nil", selection.Custom("mine", nobody), []string{`"mine": its Direct is nil`}},
		{"custom, nil function", selection.Custom("mine", directFunc(nil)), []string{`"mine": its Direct is nil`}},
		{"custom, a built-in's name", selection.Custom("p2c", idlest{}), []string{`"p2c" like a built-in`}},
		{"custom built", selection.CustomBuilt("mine", &pointed{}, true), nil},
		{"custom built, typed nil", selection.CustomBuilt("mine", nobody, true), []string{`"mine": its Builder is nil`}},
		{"custom built, nil", selection.CustomBuilt("mine", nil, true), []string{`"mine": its Builder is nil`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.p.Validate()
			if len(tc.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil {
				t.Fatal("it was found valid")
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

// TestByName: each built-in has a name, and the levels are told apart.
func TestByName(t *testing.T) {
	for name, want := range map[string]struct {
		kind                 selection.Kind
		direct, built, waits bool
	}{
		"p2c":           {selection.KindP2C, true, false, false},
		"random":        {selection.KindRandom, true, false, false},
		"round_robin":   {selection.KindRoundRobin, true, false, false},
		"least_pending": {selection.KindLeastPending, true, false, false},
		"weighted":      {selection.KindWeighted, false, true, false},
		"ketama":        {selection.KindKetama, false, true, true},
		"sliced":        {selection.KindSliced, false, false, false},
	} {
		p, err := selection.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.String() != name || p.Kind() != want.kind || p.Direct() != want.direct || p.Built() != want.built || p.WaitsForFirst() != want.waits {
			t.Errorf("ByName(%q) = %v: kind %d, direct %t, built %t, waits %t", name, p, p.Kind(), p.Direct(), p.Built(), p.WaitsForFirst())
		}
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
	}
	_, err := selection.ByName("fastest")
	const want = `selection: there is no policy "fastest"; it has to be one of p2c, random, round_robin, least_pending, weighted, ketama, sliced`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	for p, want := range map[*selection.Policy]string{
		{}:                                      "none",
		new(selection.Custom("mine", idlest{})): "mine",
	} {
		if p.String() != want {
			t.Errorf("String() = %q, want %q", p, want)
		}
	}
	if in := selection.Sliced(selection.Random()).InSlice(); in.Kind() != selection.KindRandom {
		t.Errorf("InSlice() = %v", in)
	}
	if in := selection.P2C().InSlice(); in.Kind() != 0 {
		t.Errorf("p2c has %v in its slices", in)
	}
}
