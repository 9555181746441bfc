package balancer

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/balancer/selection"
)

// Candidate is one endpoint that a selector offers for a key.
type Candidate struct {
	Name, Address string
	State         connectivity.State
	Enabled       bool // not disabled by SetEnabled
	Pending       int  // RPCs in flight
}

// Usable says whether a pick would take it now, admission aside.
func (c Candidate) Usable() bool { return c.Enabled && c.State == connectivity.Ready }

// ErrNoEndpoint is wrapped by every [NoEndpointError].
var ErrNoEndpoint = errors.New("no endpoint was accepted")

// NoEndpointError says why a selection found nobody.
type NoEndpointError struct {
	Selector string
	// Tried is how many candidates were looked at. Capped says that there were
	// more than the caller allowed.
	Tried  int
	Capped bool
	// Reasons counts candidates by why they were not taken: "disabled", "rejected"
	// by accept, or the name of their state.
	Reasons map[string]int
	// Cause is why there were no candidates, nil if there were.
	Cause error
}

func (e *NoEndpointError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("slicewire: selector %q: %v: %v", e.Selector, ErrNoEndpoint, e.Cause)
	}
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(e.Reasons)) {
		why = append(why, fmt.Sprintf("%d %s", e.Reasons[reason], reason))
	}
	capped := ""
	if e.Capped {
		capped = ", more were not looked at"
	}
	return fmt.Sprintf("slicewire: selector %q: %v of %d candidates (%s%s)", e.Selector, ErrNoEndpoint, e.Tried, strings.Join(why, ", "), capped)
}

func (e *NoEndpointError) Unwrap() []error {
	if e.Cause != nil {
		return []error{ErrNoEndpoint, e.Cause}
	}
	return []error{ErrNoEndpoint}
}

// Select returns the endpoint that an RPC with key would be sent to now. It opens
// no connection, counts nothing and asks no admission. The error is a
// *NoEndpointError.
func (s *Selector) Select(key string) (Candidate, error) {
	return s.SelectWith(key, 0, Candidate.Usable)
}

// SelectWith returns the first candidate that accept accepts, in the order of
// [Selector.Order], of at most limit; 0 or less stands for all of them. accept may
// take one that is not connected (seed row P-03). The error is a
// *NoEndpointError.
func (s *Selector) SelectWith(key string, limit int, accept func(Candidate) bool) (Candidate, error) {
	failed := &NoEndpointError{Selector: s.name, Reasons: make(map[string]int)}
	w, err := s.walk(key)
	if err != nil {
		failed.Cause = err
		return Candidate{}, failed
	}
	for ep := range w {
		c := ep.candidate()
		if limit > 0 && failed.Tried == limit {
			failed.Capped = true
			break
		}
		failed.Tried++
		if accept(c) {
			return c, nil
		}
		switch {
		case !c.Enabled:
			failed.Reasons["disabled"]++
		case c.State != connectivity.Ready:
			failed.Reasons[c.State.String()]++
		default:
			failed.Reasons["rejected"]++
		}
	}
	return Candidate{}, failed
}

// Order gives the candidates for key, each once, in the order in which picks would
// try them now. Of a sliced selector these are the owners of the key's slice; of
// others they are all endpoints, those that are READY first where the policy
// chooses among these alone. It is empty before the name resolver has answered.
func (s *Selector) Order(key string) iter.Seq[Candidate] {
	w, err := s.walk(key)
	if err != nil {
		return func(func(Candidate) bool) {}
	}
	return func(yield func(Candidate) bool) {
		for ep := range w {
			if !yield(ep.candidate()) {
				return
			}
		}
	}
}

// walk is one selection: it loads what is in force once (seed 001, request
// flow 2).
func (s *Selector) walk(key string) (iter.Seq[*endpoint], error) {
	l, err := s.looking(key)
	if err != nil {
		return nil, err
	}
	return l.order()
}

// order is the candidates of a look.
func (l *look) order() (iter.Seq[*endpoint], error) {
	pub, f := l.pub, l.inForce
	switch {
	case pub.fail != nil:
		return nil, pub.fail
	case f == nil:
		return nil, errors.New("its first data is not built yet")
	}
	call := selection.Call{Key: l.call.Key, HasKey: true}
	switch policy := f.rule.policy; {
	case policy.Kind() == selection.KindSliced:
		if pub.phase != assignment.Assigned {
			return nil, errors.New("there is no assignment")
		}
		return ownersOf(pub, l.call.Key), nil
	case policy.Built():
		return inOrder(f, &call), nil
	}
	return l.byChoice(&call), nil
}

func (ep *endpoint) candidate() Candidate {
	return Candidate{ep.name, ep.member.Info().Address, ep.cur.Load().connectivity, ep.flags.Load()&barred == 0, ep.member.Pending()}
}

func ownersOf(pub *published, key string) iter.Seq[*endpoint] {
	owners := pub.slices.Owners(pub.slices.Index.Find(key))
	return func(yield func(*endpoint) bool) {
		if len(owners) == 0 {
			return
		}
		start := int(rand.Uint32N(uint32(len(owners))))
		for i := range owners {
			if ep := pub.owners[owners[(start+i)%len(owners)]]; ep != nil && !yield(ep) {
				return
			}
		}
	}
}

func inOrder(f *inForce, call *selection.Call) iter.Seq[*endpoint] {
	return func(yield func(*endpoint) bool) {
		seen := make(map[int]bool, len(f.members))
		var cursor selection.Cursor
		for draws := 0; len(seen) < len(f.members) && draws < 4*len(f.members)+16; draws++ {
			i, next, panicked := askNext(&f.rule.policy, f.order, call, cursor)
			if panicked != nil || i < 0 || i >= len(f.members) {
				return
			}
			cursor = next
			if seen[i] {
				continue
			}
			seen[i] = true
			if !yield(f.members[i]) {
				return
			}
		}
	}
}

func (l *look) byChoice(call *selection.Call) iter.Seq[*endpoint] {
	return func(yield func(*endpoint) bool) {
		all := l.pub.view
		seen := make(map[*endpoint]bool, len(all.endpoints))
		v := selection.ViewOf(l.ready)
		for v.Available() > 0 {
			i, panicked := ask(&l.inForce.rule.policy, &v, call, l.state)
			if panicked != nil || i < 0 || i >= v.Len() || v.Excluded(i) {
				break
			}
			ep := v.Member(i).Handle().(*endpoint)
			seen[ep] = true
			if !yield(ep) {
				return
			}
			v.Exclude(i)
		}
		for _, ep := range all.endpoints {
			if !seen[ep] && !yield(ep) {
				return
			}
		}
	}
}
