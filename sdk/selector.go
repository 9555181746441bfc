package sdk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
)

// Selector is a named way of routing within each target of a Client (seed 001). All
// methods may be called concurrently.
type Selector struct {
	client *Client
	name   string
}

// Publication is the answer to Publish.
type Publication struct {
	// Generation counts the policies of the selector, from 1; where targets differ, as
	// one does that joined later, it is the greatest.
	Generation uint64
	// Changed says that the policy is another one than before, in some target.
	Changed bool
	// Targets are the publications in each target, by its name.
	Targets map[string]balancer.Publication
}

// Wait waits until the picks of all targets use the policy of this publication or
// a later one; see balancer.Publication.Wait. The error wraps ctx's, or is
// ErrClosed.
func (p Publication) Wait(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(p.Targets)) {
		if err := told(p.Targets[name].Wait(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// Selector returns the selector of that name, or nil if no target has it.
func (c *Client) Selector(name string) *Selector {
	for _, p := range c.seen.Load().pools {
		if p.router.Selector(name) != nil {
			return &Selector{c, name}
		}
	}
	return nil
}

// Name returns the selector's name.
func (s *Selector) Name() string { return s.name }

// Policy returns the policy published last, as the first target that has the
// selector knows it; the zero Policy before the first.
func (s *Selector) Policy() selection.Policy {
	for _, p := range s.client.seen.Load().pools {
		if in := p.router.Selector(s.name); in != nil {
			return in.Policy()
		}
	}
	return selection.Policy{}
}

// Publish replaces the selector's policy for all picks to come, in every target
// that has it, and in those that join later: see balancer.Selector.Publish. A
// policy that is refused changes nothing. Where targets differ in whether they take
// it (WithStrictSingle), the error says which did not.
func (s *Selector) Publish(policy selection.Policy, source balancer.Source) (Publication, error) {
	if err := policy.Validate(); err != nil {
		err = fmt.Errorf("slicewire: selector %q: %w", s.name, err)
		s.client.shown.PolicyRefused(s.name, policy, source, err)
		return Publication{}, err
	}
	d := &s.client.declared
	d.mu.Lock()
	defer d.mu.Unlock()
	t := s.client.table.Load()
	if t == nil {
		return Publication{}, ErrClosed
	}
	whole := Publication{Targets: make(map[string]balancer.Publication)}
	var problems []error
	for _, p := range t.pools {
		in := p.router.Selector(s.name)
		if in == nil {
			continue
		}
		one, err := in.Publish(policy, source)
		if err != nil {
			problems = append(problems, p.told(err))
			continue
		}
		whole.Targets[p.name] = one
		whole.Changed = whole.Changed || one.Changed
		whole.Generation = max(whole.Generation, one.Generation)
	}
	switch {
	case len(problems) == 0 && len(whole.Targets) == 0:
		return whole, fmt.Errorf("slicewire: selector %q is not declared any more", s.name)
	case len(whole.Targets) > 0:
		d.selectors[s.name] = saying{policy, source}
	}
	return whole, joined(problems)
}

// AddSelector declares a selector in every target, while calls run. It serves at
// once, over the connections that are there. The error says what is wrong with the
// name or the policy, or is ErrClosed; then no target has it.
func (c *Client) AddSelector(name string, policy selection.Policy) (*Selector, error) {
	d := &c.declared
	d.mu.Lock()
	defer d.mu.Unlock()
	t := c.table.Load()
	if t == nil {
		return nil, ErrClosed
	}
	for i, p := range t.pools {
		if _, err := p.router.AddSelector(name, policy, balancer.FromCode); err != nil {
			for _, done := range t.pools[:i] {
				_ = done.router.RemoveSelector(name)
			}
			return nil, p.told(err)
		}
	}
	d.selectors[name] = saying{policy, balancer.FromCode}
	delete(d.removed, name)
	return &Selector{c, name}, nil
}

// RemoveSelector takes a selector away from every target; RPCs in flight go on. The
// default one cannot be removed.
func (c *Client) RemoveSelector(name string) error {
	d := &c.declared
	d.mu.Lock()
	defer d.mu.Unlock()
	t := c.table.Load()
	if t == nil {
		return ErrClosed
	}
	var problems []error
	for _, p := range t.pools {
		if err := p.router.RemoveSelector(name); err != nil {
			problems = append(problems, p.told(err))
		}
	}
	if len(problems) < len(t.pools) {
		d.removed[name] = true
		delete(d.selectors, name)
		return nil
	}
	return joined(problems)
}

// SetEnabled lets no pick choose the endpoint of that name, in any target, from the
// next one on, or ends that: see balancer.Router.SetEnabled.
func (c *Client) SetEnabled(endpoint string, enabled bool, reason string) {
	d := &c.declared
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, was := d.disabled[endpoint]; enabled && was {
		delete(d.disabled, endpoint)
		d.enabled[endpoint] = true
	} else if !enabled {
		d.disabled[endpoint] = reason
		delete(d.enabled, endpoint)
	}
	for _, p := range c.seen.Load().pools {
		p.router.SetEnabled(endpoint, enabled, reason)
	}
}

// Drain disables an endpoint and waits until no RPC is in flight there, in any
// target, those that are leaving included; see balancer.Router.Drain.
func (c *Client) Drain(ctx context.Context, endpoint, reason string) error {
	c.SetEnabled(endpoint, false, reason)
	c.mu.Lock() // so that no pool is on its way from the one to the other
	pools := slices.Clone(c.seen.Load().pools)
	for _, gone := range c.leaving {
		pools = append(pools, gone.pool)
	}
	c.mu.Unlock()
	var problems []error
	for _, p := range pools {
		problems = append(problems, p.told(p.router.Drain(ctx, endpoint, reason)))
	}
	return joined(problems)
}

// WaitConverged waits until the picks of all selectors use a membership of at
// least a generation, as Status gives it, in the default group's current target.
func (c *Client) WaitConverged(ctx context.Context, generation uint64) error {
	p := c.seen.Load().fallback.group.current.Load()
	return p.told(p.router.WaitConverged(ctx, generation))
}

// declared is what was said of selectors and endpoints since Dial, for targets
// that join later, and those that come back and may know what was said before.
type declared struct {
	mu        sync.Mutex // guards the rest, and makes sayings one by one
	selectors map[string]saying
	removed   map[string]bool
	disabled  map[string]string // reasons by endpoint
	enabled   map[string]bool   // that were disabled once
}

// has says whether code has declared a selector since Dial.
func (d *declared) has(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, said := d.selectors[name]
	return said
}

type saying struct {
	policy selection.Policy
	source balancer.Source
}

// tell repeats to p what was said; what p knows already changes nothing.
func (d *declared) tell(p *pool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(d.selectors)) {
		said := d.selectors[name]
		var err error
		if s := p.router.Selector(name); s != nil {
			_, err = s.Publish(said.policy, said.source)
		} else {
			_, err = p.router.AddSelector(name, said.policy, said.source)
		}
		if !errors.Is(err, balancer.ErrSingleEndpoint) {
			problems = append(problems, err)
		}
	}
	for name := range d.removed {
		if p.router.Selector(name) != nil {
			problems = append(problems, p.router.RemoveSelector(name))
		}
	}
	for endpoint, reason := range d.disabled {
		p.router.SetEnabled(endpoint, false, reason)
	}
	for endpoint := range d.enabled {
		p.router.SetEnabled(endpoint, true, "")
	}
	return errors.Join(problems...)
}

// told is an error of p's Router for the Client's callers.
func (p *pool) told(err error) error {
	if err = told(err); err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	return p.joint.about(err)
}

func told(err error) error {
	if errors.Is(err, balancer.ErrClosed) {
		return ErrClosed
	}
	return err
}

// joined is errors.Join without a wrapper around a single error.
func joined(problems []error) error {
	problems = slices.DeleteFunc(problems, func(err error) bool { return err == nil })
	if len(problems) == 1 {
		return problems[0]
	}
	return errors.Join(problems...)
}

// Select returns the endpoint that an RPC of the default group with key would be
// sent to now: see balancer.Selector.Select.
func (s *Selector) Select(key string) (balancer.Candidate, error) {
	in, err := s.current()
	if err != nil {
		return balancer.Candidate{}, err
	}
	return in.Select(key)
}

// SelectWith returns the first candidate that accept accepts, as for Select: see
// balancer.Selector.SelectWith.
func (s *Selector) SelectWith(key string, limit int, accept func(balancer.Candidate) bool) (balancer.Candidate, error) {
	in, err := s.current()
	if err != nil {
		return balancer.Candidate{}, err
	}
	return in.SelectWith(key, limit, accept)
}

// Order gives the candidates for key in the order in which picks would try them
// now, as for Select: see balancer.Selector.Order. It is empty where the target does
// not have the selector.
func (s *Selector) Order(key string) iter.Seq[balancer.Candidate] {
	in, err := s.current()
	if err != nil {
		return func(func(balancer.Candidate) bool) {}
	}
	return in.Order(key)
}

// current is the selector in the default group's current target.
func (s *Selector) current() (*balancer.Selector, error) {
	p := s.client.seen.Load().fallback.group.current.Load()
	if in := p.router.Selector(s.name); in != nil {
		return in, nil
	}
	return nil, fmt.Errorf("slicewire: target %q has no selector %q", p.name, s.name)
}
