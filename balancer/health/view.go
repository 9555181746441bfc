package health

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// ErrClosed is returned by what needs an open registry or view.
var ErrClosed = errors.New("health: the registry or the view is closed")

// View is what one Router contributes to a [Registry]. Its methods may be called
// by several goroutines at once.
type View struct {
	registry *Registry
	notify   func(name string)
	closed   atomic.Bool

	entries map[string]*entry // by the target's name; the registry's lock guards it
}

// NewView makes a view without targets. notify, if not nil, is called after a target
// of the view has changed its state, once or more often, with the target's name; the
// new state is in the cell by then. It is called outside all locks, by one goroutine
// for all views of the registry: it must not block. One that is running when Close
// returns may still end after it. The error is [ErrClosed].
func (r *Registry) NewView(notify func(name string)) (*View, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	return &View{registry: r, notify: notify, entries: make(map[string]*entry)}, nil
}

// Set makes targets all that the view contributes. A target whose key stays keeps
// its cell and what was learned; a new key is probed at once; a key that no view
// contributes any more is forgotten, and a probe of it that runs is called off. Set
// does not wait for probes.
//
// It changes nothing if it returns an error: for a target without name, two with the
// same name, an Equivalence or IntervalOf that panics, an interval that is not
// allowed, or [ErrClosed].
func (v *View) Set(targets []Target) error {
	keys, intervals, err := v.registry.ask(targets)
	if err != nil {
		return err
	}
	r := v.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || v.closed.Load() {
		return ErrClosed
	}
	now := time.Now()
	before := v.entries
	v.entries = make(map[string]*entry, len(targets))
	var moved []use // names whose key changed
	var from []*entry
	for i, t := range targets {
		old := before[t.Name]
		delete(before, t.Name)
		if old != nil && old.key == keys[i] {
			old.uses[old.indexOf(v, t.Name)] = use{v, t, intervals[i]}
			v.entries[t.Name] = old
			continue
		}
		if old != nil {
			moved, from = append(moved, use{view: v, target: t}), append(from, old)
		}
		v.entries[t.Name] = r.add(keys[i], use{v, t, intervals[i]}, now)
	}
	// What goes is removed after what comes was added, so that a target that only
	// changed its name is not forgotten.
	for i, u := range moved {
		r.remove(from[i], v, u.target.Name)
	}
	for name, e := range before {
		r.remove(e, v, name)
	}
	r.advance()
	return nil
}

// ask checks the targets and gives their keys and intervals. It runs outside the
// lock: Equivalence and IntervalOf are the user's.
func (r *Registry) ask(targets []Target) (keys []string, intervals []time.Duration, err error) {
	asked := "Equivalence"
	defer func() {
		if p := recover(); p != nil {
			keys, intervals, err = nil, nil, fmt.Errorf("health: %s panicked: %v", asked, p)
		}
	}()
	keys, intervals = make([]string, len(targets)), make([]time.Duration, len(targets))
	seen := make(map[string]bool, len(targets))
	for i, t := range targets {
		if t.Name == "" {
			return nil, nil, fmt.Errorf("health: target %d of %d (address %q) has no name", i+1, len(targets), t.Address)
		}
		if seen[t.Name] {
			return nil, nil, fmt.Errorf("health: two targets have the name %q; a view needs a name for each", t.Name)
		}
		seen[t.Name] = true
		asked = "Equivalence"
		keys[i] = r.options.Equivalence(t)
		if r.options.IntervalOf == nil {
			continue
		}
		asked = "IntervalOf"
		d := r.options.IntervalOf(t)
		if least := max(leastInterval, r.options.Timeout); d != 0 && d < least {
			return nil, nil, fmt.Errorf("health: IntervalOf gives %v for target %q, allowed is %v and more (Timeout, and at least %v), or 0 for Interval",
				d, t.Name, least, leastInterval)
		}
		intervals[i] = d
	}
	return keys, intervals, nil
}

// Cell is where a target's health is read, nil (healthy) for a name that the view
// does not contribute. Ask again after Set: a target that was gone in between, or has
// another key, has another cell.
func (v *View) Cell(name string) *Cell {
	v.registry.mu.Lock()
	defer v.registry.mu.Unlock()
	if e := v.entries[name]; e != nil {
		return e.cell
	}
	return nil
}

// Close takes away what the view contributes (row P-36). It does not wait for probes
// and may be called again, after the registry's Close too.
func (v *View) Close() {
	v.registry.mu.Lock()
	defer v.registry.mu.Unlock()
	if v.closed.Swap(true) || v.registry.closed {
		return
	}
	for name, e := range v.entries {
		v.registry.remove(e, v, name)
	}
	v.entries = nil
	v.registry.advance()
}

func (v *View) tell(name string) {
	defer v.registry.survive("the notify function of a view panicked")
	if v.notify != nil && !v.closed.Load() {
		v.notify(name)
	}
}

// add contributes a target to its key. The lock is held.
func (r *Registry) add(key string, u use, now time.Time) *entry {
	e := r.entries[key]
	switch {
	case e == nil:
		e = &entry{key: key, due: now, place: -1}
		r.entries[key] = e
		r.begin(e, now, now)
	case e.gone():
		// A probe of its former life has yet to return, which says nothing of this life.
		// There is one probe per key at a time, so its first one waits as in dispatch.
		e.waiting = true
		r.begin(e, now, now.Add(r.options.Timeout))
	}
	e.uses = append(e.uses, u)
	return e
}

// begin starts the life of an entry.
func (r *Registry) begin(e *entry, now, due time.Time) {
	e.forget(r.options.Initial, now)
	r.present++
	r.unprobed++
	r.put(e, due)
}

// remove takes a target of a view away from its key. The lock is held.
func (r *Registry) remove(e *entry, v *View, name string) {
	if i := e.indexOf(v, name); i >= 0 {
		e.uses = slices.Delete(e.uses, i, i+1)
	}
	if e.gone() {
		r.drop(e)
	}
}
