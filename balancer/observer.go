package balancer

import (
	"time"

	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/assignment"
)

// Observer is told what happens on a Router and cannot be read from its [Status].
// Observe is called by the goroutine in which it happens, never by one that picks
// but for [BreakerEdge], and never under a lock of the Router; it must not block.
// Events may come at the same time.
type Observer interface {
	Observe(Event)
}

// Event is one of [AssignmentUpdate], [SelectorBuild], [PolicyPublication] and
// [BreakerEdge]. There may be more; who observes passes over those it does not know.
// None holds a key.
type Event interface{ event() }

// AssignmentUpdate is an answer of the sharding service, and what became of it.
type AssignmentUpdate struct{ assignment.Update }

// SelectorBuild is the end of one build of a selector's data.
type SelectorBuild struct {
	Selector string
	Policy   string // its kind
	// Queue is how long the build waited for its turn, Build how long it took; both
	// are 0 of one that failed.
	Queue, Build time.Duration
	Err          error // nil if the data is in use
}

// PolicyPublication is an attempt to publish a policy.
type PolicyPublication struct {
	Selector   string
	Policy     string // its kind
	Rule       string // the policy with its settings
	Source     Source
	Generation uint64 // in force afterwards
	Result     PublicationResult
	Err        error // why it was refused
}

// PublicationResult is what became of a publication.
type PublicationResult uint8

// The results.
const (
	Published PublicationResult = iota // picks use it, or will once its data is built
	Unchanged                          // it was in force already, or another source overrules it
	Refused
)

// String is the label "result".
func (r PublicationResult) String() string {
	return [...]string{"accepted", "unchanged", "refused"}[r]
}

// BreakerEdge is a change of a circuit breaker's state (package admission). The
// goroutine may be one that picks.
type BreakerEdge struct{ admission.Edge }

func (AssignmentUpdate) event()  {}
func (SelectorBuild) event()     {}
func (PolicyPublication) event() {}
func (BreakerEdge) event()       {}

// tell tells the observer, if there is one.
func (r *Router) tell(e Event) {
	if o := r.options.Observer; o != nil {
		o.Observe(e)
	}
}

// updates tells the observer of a Router of assignments.
type updates struct{ r *Router }

// Updated implements [assignment.Observer].
func (u updates) Updated(update assignment.Update) { u.r.tell(AssignmentUpdate{update}) }

// guardOf makes the guard of an endpoint.
func (r *Router) guardOf(a admission.Admission, endpoint string) admission.Guard {
	guard := a.Guard(endpoint)
	if c, ok := guard.(*admission.Circuit); ok && r.options.Observer != nil {
		c.Watch(func(e admission.Edge) { r.tell(BreakerEdge{e}) })
	}
	return guard
}
