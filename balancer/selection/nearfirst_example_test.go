package selection_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/slicewire/slicewire/balancer/selection"
)

// nearFirst is a rule that builds: members whose names begin with prefix come
// first, then the others, each group from a random start.
type nearFirst struct{ prefix string }

func (n nearFirst) Build(_ context.Context, m selection.Membership) (selection.Order, error) {
	var o groups
	for i, member := range m.Members {
		if strings.HasPrefix(member.Name(), n.prefix) {
			o.near = append(o.near, i)
		} else {
			o.far = append(o.far, i)
		}
	}
	return &o, nil
}

// groups are indices of members.
type groups struct{ near, far []int }

// Next keeps the start in the cursor's A, and how many candidates came in B.
func (o *groups) Next(_ selection.Call, c selection.Cursor) (int, selection.Cursor) {
	if c.B == 0 {
		c.A = uint64(rand.Uint32())
	}
	group, k := o.near, c.B
	if k >= uint64(len(o.near)) {
		group, k = o.far, k-uint64(len(o.near))
	}
	c.B++
	if k >= uint64(len(group)) {
		return -1, c
	}
	return group[(c.A+k)%uint64(len(group))], c
}

// Data is built once for each membership and asked for candidates by each call.
func ExampleCustomBuilt_nearFirst() {
	p := selection.CustomBuilt("near_first", nearFirst{"eu-"}, false)
	members := []*selection.Member{
		selection.NewMember("ap-1", selection.Info{}, nil),
		selection.NewMember("eu-1", selection.Info{}, nil),
	}
	var state selection.State
	order, err := p.Build(context.Background(), selection.Membership{Members: members}, &state)
	if err != nil {
		fmt.Println(err)
		return
	}
	var call selection.Call
	for i, c := p.Next(order, &call, selection.Cursor{}); i >= 0; i, c = p.Next(order, &call, c) {
		fmt.Println(members[i].Name())
	}
	// Output:
	// eu-1
	// ap-1
}
