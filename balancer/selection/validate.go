package selection

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// names are the built-in policies', by kind.
var names = [...]string{
	KindP2C:          "p2c",
	KindRandom:       "random",
	KindRoundRobin:   "round_robin",
	KindLeastPending: "least_pending",
	KindWeighted:     "weighted",
	KindKetama:       "ketama",
	KindSliced:       "sliced",
}

// ByName returns the built-in policy of that name with its default settings. The
// error lists the names.
func ByName(name string) (Policy, error) {
	switch name {
	case names[KindP2C]:
		return P2C(), nil
	case names[KindRandom]:
		return Random(), nil
	case names[KindRoundRobin]:
		return RoundRobin(), nil
	case names[KindLeastPending]:
		return LeastPending(), nil
	case names[KindWeighted]:
		return Weighted(nil), nil
	case names[KindKetama]:
		return Ketama(KetamaOptions{}), nil
	case names[KindSliced]:
		return Sliced(Policy{}), nil
	}
	return Policy{}, fmt.Errorf("selection: there is no policy %q; it has to be one of %s", name, strings.Join(names[1:], ", "))
}

// String is the policy's name: one that ByName knows, or the user's.
func (p Policy) String() string {
	switch {
	case p.kind == KindCustom || p.kind == KindCustomBuilt:
		return p.name
	case p.kind == 0:
		return "none"
	case int(p.kind) < len(names):
		return names[p.kind]
	}
	return fmt.Sprintf("policy of kind %d", p.kind)
}

// Validate says all that is wrong with p. A policy that is published has to be
// valid.
func (p Policy) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("selection: "+format, args...)) }
	switch p.kind {
	case 0:
		fail("the policy is the zero Policy; make one by P2C, Random, RoundRobin, LeastPending, Weighted, Ketama, Sliced, Custom or CustomBuilt")
	case KindP2C, KindLeastPending:
		if p.penalty > MaxPenalty {
			fail("%v: a failure may fade over at most %v, not %v", p, MaxPenalty, p.penalty)
		}
	case KindKetama:
		for _, problem := range p.ketama.problems() {
			fail("ketama: %s", problem)
		}
	case KindSliced:
		switch {
		case p.inSlice.kind == 0: // the seed's random start
		case !p.inSlice.Direct():
			fail("sliced: within a slice %v cannot choose; it has to be p2c, random, round_robin, least_pending or a custom policy that is direct", p.inSlice)
		default:
			if err := p.inSlice.Validate(); err != nil {
				errs = append(errs, fmt.Errorf("sliced, within a slice: %w", err))
			}
		}
	case KindCustom:
		p.checkCustom(fail, "Direct", p.direct)
	case KindCustomBuilt:
		p.checkCustom(fail, "Builder", p.builder)
	}
	if p.penalty > 0 && p.kind != KindP2C && p.kind != KindLeastPending && p.kind != 0 {
		fail("%v: failures do not count in it; only p2c and least_pending have a penalty", p)
	}
	return errors.Join(errs...)
}

func (p Policy) checkCustom(fail func(string, ...any), role string, impl any) {
	switch {
	case p.name == "":
		fail("a custom policy has no name")
	case slices.Contains(names[1:], p.name):
		fail("a custom policy is named %q like a built-in one; give it another name", p.name)
	}
	if isNil(impl) {
		fail("custom policy %q: its %s is nil", p.name, role)
	}
}

// isNil says that x is nil or holds a nil pointer, function, map or the like.
func isNil(x any) bool {
	if x == nil {
		return true
	}
	switch v := reflect.ValueOf(x); v.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan:
		return v.IsNil()
	}
	return false
}

// Equal says that p and q are the same rule with the same settings, so that
// publishing one after the other changes nothing. Custom policies are equal if
// their names are and their implementations are comparable and equal.
// Policies with a weight function are equal only if one is a copy of the
// other, as functions cannot be compared.
func (p Policy) Equal(q Policy) bool {
	return p.kind == q.kind && p.waitForFirst == q.waitForFirst && p.name == q.name &&
		p.penalty == q.penalty && p.weight == q.weight && p.ketama.equal(q.ketama) &&
		(p.inSlice == q.inSlice || p.InSlice().Equal(q.InSlice())) &&
		same(p.direct, q.direct) && same(p.builder, q.builder)
}

func same(a, b any) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}
