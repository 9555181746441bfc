package selection_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slicewire/slicewire/balancer/selection"
)

// The same zone first: a rule of the user's that chooses from what is READY.
type sameZone struct{ zone string }

func (s sameZone) Select(in selection.Input) int {
	best := selection.NoOpinion // nobody is in the zone: P2C among all
	for i := range in.Len() {
		m := in.Member(i)
		if in.Excluded(i) || m.Info().Attributes == nil || m.Info().Attributes.Value("zone") != s.zone {
			continue
		}
		if best < 0 || m.Pending() < in.Member(best).Pending() {
			best = i
		}
	}
	return best
}

type zone string

func (z zone) Value(any) any { return string(z) }

func ExampleCustom() {
	a := selection.NewMember("a", selection.Info{Attributes: zone("north")}, nil)
	b := selection.NewMember("b", selection.Info{Attributes: zone("south")}, nil)

	p := selection.Custom("same_zone", sameZone{"south"})
	if err := p.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	v := selection.NewView(a, b)
	i := p.Choose(&v, &selection.Call{}, new(selection.State))
	fmt.Println(p, "chooses", v.Member(i).Name())
	// Output: same_zone chooses b
}

// preferred is an order that is built once: one member before all others.
type preferred struct{ first, members int }

func (p preferred) Next(_ selection.Call, c selection.Cursor) (int, selection.Cursor) {
	next := selection.Cursor{A: c.A + 1}
	switch at := int(c.A); {
	case at == 0:
		return p.first, next
	case at >= p.members:
		return -1, c
	case at <= p.first:
		return at - 1, next
	default:
		return at, next
	}
}

// prefers builds it.
type prefers struct{ name string }

func (p prefers) Build(_ context.Context, m selection.Membership) (selection.Order, error) {
	for i, member := range m.Members {
		if member.Name() == p.name {
			return preferred{first: i, members: len(m.Members)}, nil
		}
	}
	return nil, errors.New("the preferred member is not there")
}

func ExampleCustomBuilt() {
	var ms []*selection.Member
	for _, name := range []string{"a", "b", "c"} {
		ms = append(ms, selection.NewMember(name, selection.Info{Weight: 1}, nil))
	}
	p, c := selection.CustomBuilt("prefer_b", prefers{"b"}, false), &selection.Call{}
	o, err := p.Build(context.Background(), selection.Membership{Members: ms}, new(selection.State))
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, cur := p.Next(o, c, selection.Cursor{}); i >= 0; i, cur = p.Next(o, c, cur) {
		fmt.Print(ms[i].Name(), " ")
	}
	// Output: b a c
}

func ExampleWeighted() {
	// Twice as many calls for machines that have twice the cores.
	cores := map[string]uint32{"a": 8, "b": 16}
	p := selection.Weighted(func(m *selection.Member) uint32 { return cores[m.Name()] })

	ms := []*selection.Member{selection.NewMember("a", selection.Info{}, nil), selection.NewMember("b", selection.Info{}, nil)}
	o, err := p.Build(context.Background(), selection.Membership{Members: ms}, new(selection.State))
	if err != nil {
		fmt.Println(err)
		return
	}
	calls := map[string]int{}
	for range 3000 {
		i, _ := p.Next(o, &selection.Call{}, selection.Cursor{})
		calls[ms[i].Name()]++
	}
	fmt.Printf("a about %.1f, b about %.1f thousand\n", float64(calls["a"])/1000, float64(calls["b"])/1000)
	// Output: a about 1.0, b about 2.0 thousand
}

func ExampleKetama() {
	var ms []*selection.Member
	for _, address := range []string{"127.0.0.1:18801", "127.0.0.1:18802", "127.0.0.1:18803"} {
		ms = append(ms, selection.NewMember(address, selection.Info{Address: address, Weight: 1}, nil))
	}
	p := selection.Ketama(selection.KetamaOptions{})
	o, err := p.Build(context.Background(), selection.Membership{Members: ms}, new(selection.State))
	if err != nil {
		fmt.Println(err)
		return
	}
	i, _ := p.Next(o, &selection.Call{Key: "user-4", HasKey: true}, selection.Cursor{})
	fmt.Println(ms[i].Name()) // where nginx sends it too
	// Output: 127.0.0.1:18802
}

func ExamplePolicy_WithPenalty() {
	slow := selection.P2C().WithPenalty(5 * time.Second)
	off := selection.P2C().WithPenalty(0)
	fmt.Println(selection.P2C().Penalty(), slow.Penalty(), off.Penalty())
	fmt.Println(selection.P2C().WithPenalty(time.Minute).Validate())
	// Output:
	// 1s 5s 0s
	// selection: p2c: a failure may fade over at most 16s, not 1m0s
}

func ExampleByName() {
	_, err := selection.ByName("fastest")
	fmt.Println(err)
	// Output: selection: there is no policy "fastest"; it has to be one of p2c, random, round_robin, least_pending, weighted, ketama, sliced
}
