package balancer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
	"unique"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// DefaultSelector is the name of the selector that routes calls that name none.
// A Router always has it.
const DefaultSelector = callinfo.DefaultSelector

// ErrSingleEndpoint is what Publish returns where RouterOptions.StrictSingle is
// set and the channel has one endpoint, so that there is nothing to choose.
var ErrSingleEndpoint = errors.New("slicewire: the channel has a single endpoint; no selection policy is exercised")

// Source says who published a policy. What one source repeats does not undo what
// another has published since.
type Source uint8

// The sources.
const (
	// FromDefault is the Router itself: sliced where there is sharding, else p2c.
	FromDefault Source = iota
	FromCode
	FromConfig   // a configuration file or the environment
	FromResolver // the service config of the name resolver
	sources
)

var sourceNames = [sources]string{"default", "code", "config", "resolver"}

func (s Source) String() string {
	if s < sources {
		return sourceNames[s]
	}
	return fmt.Sprintf("source(%d)", uint8(s))
}

// Selector is a named way of routing on a Router (seed 001). All its methods may
// be called concurrently.
type Selector struct {
	name   string
	handle unique.Handle[string]
	router *Router

	// counts is apart, because it outlives a removed selector: see removedCounts.
	counts *counters
	// state is what its policies share: cursors (seed row S-10).
	state selection.State
	bad   badResults

	// What follows is guarded by the Router's mu, as is the order in which slots
	// are told.

	// rule is the newest publication, nil before the first.
	rule    *rule
	said    [sources]*word // what each source said last
	words   uint64         // of all sources so far
	history []PublicationStatus
	closed  bool
}

// rule is one publication. Immutable.
type rule struct {
	generation uint64
	policy     selection.Policy
	source     Source
	at         time.Time
}

// word is what a source said last. Immutable.
type word struct {
	policy selection.Policy
	at     uint64 // which of the selector's words it is; 0 FromDefault, which gives way to all
}

// say notes a word. Called under the Router's mu.
func (s *Selector) say(p selection.Policy, source Source) {
	w := &word{policy: p}
	if source != FromDefault {
		s.words++
		w.at = s.words
	}
	s.said[source] = w
}

// keptHistory is how many publications a selector remembers.
const keptHistory = 16

// Name returns the selector's name.
func (s *Selector) Name() string { return s.name }

// Publication is the answer to Publish.
type Publication struct {
	// Generation counts the policies of the selector, from 1; it has 64 bits so as
	// never to start over (seed row S-17). Of a publication that changed nothing it
	// is that of the policy in force.
	Generation uint64
	// Changed says that the policy is another one than before.
	Changed  bool
	selector *Selector
}

// Wait waits until picks use the policy of this publication or a later one. A
// direct policy is in force when Publish returns, one that builds once it has
// built for the first time. While the channel is idle there are no picks, and
// nothing is waited for. The error wraps ctx's, or is ErrClosed.
func (p Publication) Wait(ctx context.Context) error {
	s := p.selector
	return s.router.waitFor(ctx, fmt.Sprintf("selector %q: policy generation %d is not in force", s.name, p.Generation), func() bool {
		return s.inForce() >= p.Generation
	})
}

// Publish replaces the selector's policy for all picks to come (seed 004). It
// costs one atomic store; connections stay, RPCs in flight stay where they are,
// a retry sees the newest policy. A policy that builds serves once it is built,
// the one before until then: see [Publication.Wait].
//
// A policy that is equal to what source published last changes nothing, nor does
// one FromDefault once somebody else has published. The
// error says what is wrong with p, or is ErrClosed or ErrSingleEndpoint; then
// nothing changes.
func (s *Selector) Publish(p selection.Policy, source Source) (Publication, error) {
	pub, err := s.publish(p, source)
	e := PolicyPublication{Selector: s.name, Policy: p.Kind().String(), Rule: p.String(), Source: source, Generation: pub.Generation, Err: err}
	switch {
	case errors.Is(err, ErrClosed):
		return pub, err
	case err != nil:
		e.Result = Refused
	case !pub.Changed:
		e.Result = Unchanged
	}
	s.router.tell(e)
	return pub, err
}

func (s *Selector) publish(p selection.Policy, source Source) (Publication, error) {
	if source >= sources {
		return Publication{}, fmt.Errorf("slicewire: selector %q: %v is not a source of policies; allowed are %v", s.name, source, sourceNames)
	}
	if err := p.Validate(); err != nil {
		return Publication{}, fmt.Errorf("slicewire: selector %q: %w", s.name, err)
	}
	// Nobody could tell the name resolver, and its config may come with more endpoints.
	asked := source == FromCode || source == FromConfig
	if asked && s.router.options.StrictSingle && s.router.main.Load().single() {
		return Publication{}, ErrSingleEndpoint
	}
	s.router.mu.Lock()
	if s.closed {
		s.router.mu.Unlock()
		return Publication{}, ErrClosed
	}
	repeated := s.said[source] != nil && s.said[source].policy.Equal(p)
	if !repeated {
		s.say(p, source)
	}
	// Under the lock, for code may publish while the first LB config comes.
	overruled := source == FromDefault && s.rule != nil && s.rule.source != FromDefault
	if repeated || overruled || s.rule != nil && s.rule.policy.Equal(p) {
		generation := s.rule.generation
		s.router.mu.Unlock()
		return Publication{generation, false, s}, nil
	}
	routes := s.router.allRoutes()
	s.put(p, source, routes)
	r := s.rule
	s.router.mu.Unlock()
	s.router.options.Logger.Info("a selection policy was published",
		slog.String("selector", s.name), slog.String("policy", p.String()),
		slog.Uint64("generation", r.generation), slog.String("source", source.String()), slog.String("result", Published.String()))
	for _, rt := range routes {
		rt.wakeUp()
	}
	s.router.changes.send()
	return Publication{r.generation, true, s}, nil
}

// Policy returns the policy published last; the zero Policy before the first.
func (s *Selector) Policy() selection.Policy {
	s.router.mu.Lock()
	defer s.router.mu.Unlock()
	if s.rule == nil {
		return selection.Policy{}
	}
	return s.rule.policy
}

// inForce is the generation that all picks use.
func (s *Selector) inForce() uint64 {
	s.router.mu.Lock()
	defer s.router.mu.Unlock()
	least := uint64(0)
	if s.rule != nil {
		least = s.rule.generation
	}
	for _, rt := range s.router.allRoutes() {
		if slot := rt.slots.Load().find(s); slot != nil && rt.policy.Load() != nil {
			least = min(least, slot.generation())
		}
	}
	return least
}

// seldom says at most once a second that it is time, for the log lines of picks.
type seldom struct{ last atomic.Int64 } // Unix nanoseconds

func (s *seldom) now() bool {
	now, last := time.Now().UnixNano(), s.last.Load()
	return now-last >= int64(time.Second) && s.last.CompareAndSwap(last, now)
}

// badResults counts what custom policies got wrong.
type badResults struct {
	outOfRange, excluded, panicked atomic.Uint64
	logs                           seldom
}

// report counts one bad result and logs at most one a second.
func (s *Selector) report(count *atomic.Uint64, policy *selection.Policy, what string) {
	count.Add(1)
	if s.bad.logs.now() {
		s.router.options.Logger.Error("a selection policy gave a bad result; the attempt failed",
			slog.String("selector", s.name), slog.String("policy", policy.String()), slog.String("problem", what))
	}
}
