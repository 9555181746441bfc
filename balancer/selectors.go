package balancer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// Selector returns the selector of that name, or nil if there is none.
func (r *Router) Selector(name string) *Selector {
	handle := callinfo.Selector(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.selectors {
		if s.handle == handle {
			return s
		}
	}
	return nil
}

// Selectors returns all selectors, the default one first.
func (r *Router) Selectors() []*Selector {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.selectors)
}

// ErrSelectorExists is wrapped by AddSelector's error for a name that is taken.
var ErrSelectorExists = errors.New("there is a selector of that name already; publish its policy instead")

// AddSelector declares a selector. It serves at once, over the connections that
// are there. The error says what is wrong with the name or the policy, or is
// ErrClosed.
func (r *Router) AddSelector(name string, p selection.Policy, source Source) (*Selector, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("slicewire: selector %q: %w", name, err)
	}
	handle := callinfo.Selector(name)
	if name == "" {
		return nil, errors.New("slicewire: a selector needs a name of at least one character")
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	if slices.ContainsFunc(r.selectors, func(s *Selector) bool { return s.handle == handle }) {
		r.mu.Unlock()
		return nil, fmt.Errorf("slicewire: selector %q: %w", name, ErrSelectorExists)
	}
	s := &Selector{name: name, handle: handle, router: r, counts: new(counters)}
	s.rule = &rule{generation: 1, policy: p, source: source, at: time.Now()}
	s.say(p, source)
	s.history = []PublicationStatus{{1, p.String(), source, s.rule.at}}
	r.selectors = append(slices.Clip(r.selectors), s)
	for _, rt := range r.allRoutes() {
		slot := newSlot(s, rt)
		slot.setRule(s.rule)
		t := rt.slots.Load()
		rt.slots.Store(&slotTable{t.main, append(slices.Clip(t.named), slot)})
		rt.replan(slot) // what the policy stored meanwhile it stored for those in the table
	}
	r.mu.Unlock()
	r.tell(PolicyPublication{Selector: name, Policy: p.Kind().String(), Rule: p.String(), Source: source, Generation: 1})
	r.options.Logger.Debug("a selector was declared", slog.String("selector", name), slog.String("policy", p.String()),
		slog.Uint64("generation", 1), slog.String("source", source.String()), slog.String("result", Published.String()))
	for _, rt := range r.routes() {
		rt.wakeUp()
	}
	return s, nil
}

// ErrNoSelector is wrapped by RemoveSelector's error for an unknown name.
var ErrNoSelector = errors.New("there is no selector of that name")

// RemoveSelector takes a selector away; RPCs in flight go on. Those that name it
// from now on, or wait for it, are treated as naming an unknown one. It waits for
// a build that runs. The default selector cannot be removed.
func (r *Router) RemoveSelector(name string) error {
	handle := callinfo.Selector(name)
	r.mu.Lock()
	i := slices.IndexFunc(r.selectors, func(s *Selector) bool { return s.handle == handle })
	switch {
	case r.closed:
		r.mu.Unlock()
		return ErrClosed
	case i == 0:
		r.mu.Unlock()
		return errors.New("slicewire: the default selector cannot be removed; publish another policy on it")
	case i < 0:
		r.mu.Unlock()
		return fmt.Errorf("slicewire: selector %q: %w", name, ErrNoSelector)
	}
	gone := r.remove(r.selectors[i])
	r.mu.Unlock()
	for _, sl := range gone {
		sl.close()
	}
	for _, rt := range r.routes() {
		rt.wakeUp()
	}
	r.changes.send()
	return nil
}

// remove takes a selector away and returns its slots, to be closed. Called under
// mu.
func (r *Router) remove(s *Selector) (gone []*slot) {
	r.selectors = slices.DeleteFunc(slices.Clone(r.selectors), func(other *Selector) bool { return other == s })
	for _, rt := range r.allRoutes() {
		t := rt.slots.Load()
		gone = append(gone, t.find(s))
		rt.slots.Store(&slotTable{t.main, slices.DeleteFunc(slices.Clone(t.named), func(sl *slot) bool { return sl.selector == s })})
	}
	r.removed.keep(r, s)
	s.closed = true
	return gone
}

// MembershipGeneration counts the changes of the endpoint list; see
// [Router.WaitConverged].
func (r *Router) MembershipGeneration() uint64 {
	if m := r.main.Load().endpoints.Load(); m != nil {
		return m.generation
	}
	return 0
}

// WaitConverged waits until the picks of all selectors use a membership of at
// least a generation (seed row P-16). The error wraps ctx's, or is ErrClosed.
func (r *Router) WaitConverged(ctx context.Context, generation uint64) error {
	return r.waitFor(ctx, fmt.Sprintf("membership generation %d is not in use by all selectors", generation), func() bool {
		rt := r.main.Load()
		return r.MembershipGeneration() >= generation && rt.caughtUp(generation)
	})
}

// caughtUp says whether the picks of all selectors use a membership of at least a
// generation.
func (rt *route) caughtUp(generation uint64) bool {
	return !slices.ContainsFunc(rt.slots.Load().all(), func(sl *slot) bool { return !sl.caughtUp(generation) })
}

// unknownSelectors counts RPCs that name a selector the Router does not have.
type unknownSelectors struct {
	count atomic.Uint64
	logs  seldom
}

// unknownSelector counts and logs, at most once a second, an RPC that names a
// selector the Router does not have (row G-04's rule for groups).
func (r *Router) unknownSelector(call *callinfo.Call) {
	r.unknown.count.Add(1)
	if r.unknown.logs.now() {
		instead := "the default selector routes it"
		if r.live.Load().refuseUnknownSelectors {
			instead = "it fails"
		}
		r.options.Logger.Warn("an RPC names an unknown selector; "+instead, slog.String("selector", call.Selector.Value()))
	}
}
