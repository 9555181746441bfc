package selection

import (
	"context"
	"fmt"
	"time"
)

// Kind says which rule a Policy has.
type Kind uint8

// The kinds. The zero Kind is no policy.
const (
	KindP2C Kind = iota + 1
	KindRandom
	KindRoundRobin
	KindLeastPending
	KindWeighted
	KindKetama
	KindSliced
	KindCustom      // a Direct of the user's
	KindCustomBuilt // a Builder of the user's
)

var kindNames = [...]string{
	"none", "p2c", "random", "round_robin", "least_pending", "weighted", "ketama", "sliced", "custom", "custom_built",
}

// String is the value of the label "policy": it is bounded, where a policy's own name
// is not.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Policy is one rule with its settings. It is an immutable value and may be used
// concurrently. The zero Policy is none.
type Policy struct {
	kind         Kind
	waitForFirst bool
	fade         fade
	penalty      time.Duration
	weight       *weigher
	ketama       KetamaOptions
	inSlice      *Policy
	name         string
	direct       Direct
	builder      Builder
}

// P2C takes two different members at random and chooses the one that is less
// busy: fewer attempts in flight, plus the penalty for failures (see
// [Policy.WithPenalty]), which is on by default. It is the default policy.
func P2C() Policy { return Policy{kind: KindP2C}.WithPenalty(DefaultPenalty) }

// Random chooses each member with the same probability.
func Random() Policy { return Policy{kind: KindRandom} }

// RoundRobin chooses one member after the other. Where it is belongs to the
// selector, so that it goes on there after another policy was in force.
func RoundRobin() Policy { return Policy{kind: KindRoundRobin} }

// LeastPending chooses the member that is least busy, by the same measure as
// [P2C], one at random if there are several. That is exact up to 64 members;
// of more it looks at 64 neighbours from a random start, so that no pick costs
// more because the list is long.
func LeastPending() Policy { return Policy{kind: KindLeastPending}.WithPenalty(DefaultPenalty) }

// Weighted chooses members in proportion to their weights and spreads the
// choices of each evenly in time. weight gives the weight of a member whenever
// the membership changes; nil stands for Info().Weight. A member of weight 0 gets
// nothing, but if all have 0 then all are equal. Memory does not depend on
// weights.
//
// It builds: candidates after the first are drawn by weight as well for a few,
// then come the others.
func Weighted(weight func(*Member) uint32) Policy {
	return Policy{kind: KindWeighted, weight: weigherOf(weight)}
}

// Ketama chooses by the call's key on a ring, consistently: while the membership
// is the same a key has the same order of candidates in every process, and one
// member more or less moves its share of the keys only. See [KetamaOptions] for
// how the ring is made. A call without a key starts at a random place.
//
// It builds, and waits for the first candidate while that one connects.
func Ketama(o KetamaOptions) Policy {
	return Policy{kind: KindKetama, ketama: o, weight: weigherOf(o.Weight), waitForFirst: true}
}

// Sliced follows the assignment of a sharding service (gRFC A119): a call goes
// to the owners of the slice that its key is in. inSlice chooses among those
// that are READY; the zero Policy is the seed's rule, the first one from a random
// start. Otherwise it has to be direct.
func Sliced(inSlice Policy) Policy { return Policy{kind: KindSliced, inSlice: &inSlice} }

// Custom is a rule of the user's. name is for status and metrics, and must not
// be a built-in policy's.
func Custom(name string, d Direct) Policy { return Policy{kind: KindCustom, name: name, direct: d} }

// CustomBuilt is a rule of the user's that builds. name is for status and
// metrics, and must not be a built-in policy's. waitForFirst says that a call
// waits for its first candidate while that one connects, as with [Ketama],
// rather than going on to the next, as with [Weighted].
func CustomBuilt(name string, b Builder, waitForFirst bool) Policy {
	return Policy{kind: KindCustomBuilt, name: name, builder: b, waitForFirst: waitForFirst}
}

// WithPenalty returns p with another time over which a failure fades; 0 or less
// turns the penalty off. Only P2C and LeastPending have one, [DefaultPenalty] by
// default and at most [MaxPenalty].
//
// A failed attempt counts like one more attempt in flight and fades linearly to
// nothing, so that a member that fails quickly does not look idle, and gets its
// share back by and by (field cases SP-07 and SP-08). Without a penalty such a
// member attracts calls: of three, one that fails at once gets two thirds under
// P2C and nearly all under LeastPending.
func (p Policy) WithPenalty(d time.Duration) Policy {
	p.penalty = max(0, d)
	p.fade = fadeOver(d)
	return p
}

// Penalty is the time over which a failure fades, 0 if failures do not count.
func (p Policy) Penalty() time.Duration { return p.penalty }

// Kind says which rule p has.
func (p Policy) Kind() Kind { return p.kind }

// InSlice is the rule within a slice, the zero Policy for the seed's random
// start and for policies that are not sliced.
func (p Policy) InSlice() Policy {
	if p.inSlice == nil {
		return Policy{}
	}
	return *p.inSlice
}

// Direct says that p chooses from the READY members by Choose.
func (p Policy) Direct() bool {
	switch p.kind {
	case KindP2C, KindRandom, KindRoundRobin, KindLeastPending, KindCustom:
		return true
	}
	return false
}

// Built says that p builds data for each membership, by Build, and that Next
// gives the candidates.
func (p Policy) Built() bool {
	switch p.kind {
	case KindWeighted, KindKetama, KindCustomBuilt:
		return true
	}
	return false
}

// WaitsForFirst says that a call waits while its first candidate connects,
// rather than going on to the next.
func (p Policy) WaitsForFirst() bool { return p.waitForFirst }

// Choose gives the index of a member in v by a direct policy. It is -1 if all
// are excluded, if there are none, and if p is not direct. What a custom policy
// answers is returned unchecked, and a panic of it goes through; if it has no
// opinion, P2C chooses. Built-in policies allocate nothing.
func (p *Policy) Choose(v *View, c *Call, s *State) int {
	switch p.kind {
	case KindP2C:
		return p.p2c(v)
	case KindRandom:
		return random(v)
	case KindRoundRobin:
		return s.roundRobinNext(v)
	case KindLeastPending:
		return p.leastPending(v)
	case KindCustom:
		i := p.direct.Select(Input{View: *v, Call: *c})
		if i == NoOpinion {
			return noOpinion.p2c(v)
		}
		return i
	}
	return -1
}

var noOpinion = P2C()

// Build makes the data of p, which has to be one that builds, for one
// membership. s is the selector's; the data refers to it.
func (p *Policy) Build(ctx context.Context, m Membership, s *State) (Order, error) {
	switch p.kind {
	case KindWeighted:
		return buildWheel(ctx, m.Members, p.weight, s)
	case KindKetama:
		return buildRing(ctx, m.Members, p.weight, p.ketama)
	case KindCustomBuilt:
		o, err := p.builder.Build(ctx, m)
		if err == nil && isNil(o) {
			return nil, fmt.Errorf("selection: policy %q built nothing and gave no error; its Build has to return an Order or an error", p.name)
		}
		return o, err
	}
	return nil, fmt.Errorf("selection: policy %v does not build", p)
}

// Next gives the next candidate of an order that p built, as [Order] says. The
// orders of built-in policies repeat no member and allocate nothing.
func (p *Policy) Next(o Order, c *Call, cur Cursor) (int, Cursor) {
	switch o := o.(type) {
	case *wheel:
		return o.next(cur)
	case *ring:
		return o.next(c, cur)
	}
	return o.Next(*c, cur)
}
