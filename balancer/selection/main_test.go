package selection_test

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/slicewire/slicewire/balancer/selection"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// members makes n of weight 1, in the order of their names.
func members(n int) []*selection.Member {
	ms := make([]*selection.Member, n)
	for i := range ms {
		ms[i] = member(i, 1)
	}
	return ms
}

// weighted makes members of the given weights.
func weighted(weights ...uint32) []*selection.Member {
	ms := make([]*selection.Member, len(weights))
	for i, w := range weights {
		ms[i] = member(i, w)
	}
	return ms
}

func member(i int, weight uint32) *selection.Member {
	address := fmt.Sprintf("10.%d.%d.%d:443", i>>16&255, i>>8&255, i&255)
	return selection.NewMember(fmt.Sprintf("backend-%05d", i), selection.Info{Address: address, Weight: weight}, nil)
}

// build makes an order; it must not fail.
func build(t testing.TB, p selection.Policy, ms []*selection.Member, s *selection.State) selection.Order {
	t.Helper()
	o, err := p.Build(t.Context(), selection.Membership{Members: ms}, s)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// orderOf asks for all candidates of a call, at most limit.
func orderOf(p selection.Policy, o selection.Order, c *selection.Call, limit int) []int {
	var out []int
	for i, cur := p.Next(o, c, selection.Cursor{}); i >= 0 && len(out) < limit; i, cur = p.Next(o, c, cur) {
		out = append(out, i)
	}
	return out
}

func keyed(key string) *selection.Call { return &selection.Call{Key: key, HasKey: true} }
