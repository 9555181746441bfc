package debug

import (
	"slices"
	"sync"
	"time"
	"unicode/utf8"
)

// KeptEvents is how many control events are remembered.
const KeptEvents = 256

// maxEventText bounds the text of one attribute, in bytes: what others say, as the
// errors of a service, must not grow the ring.
const maxEventText = 1024

// Event is something that changed how RPCs are routed, or was refused. It holds no
// keys.
type Event struct {
	At time.Time `json:"at"`
	// Kind is what happened in a few words, as "assignment accepted".
	Kind string `json:"kind"`
	// Trouble says that somebody should look at it.
	Trouble bool        `json:"trouble"`
	Details []Attribute `json:"details,omitempty"`
	// Again counts how often the same came once more before anything else did, and
	// Latest is when it came last: a service that is down does not push out the rest.
	Again  uint64    `json:"again,omitempty"`
	Latest time.Time `json:"latest,omitzero"`
}

// same says that e tells what other does.
func (e *Event) same(other *Event) bool {
	return e.Kind == other.Kind && e.Trouble == other.Trouble && slices.Equal(e.Details, other.Details)
}

// Attribute is one fact about an event.
type Attribute struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Events remembers the newest events. The zero Events is ready; its methods may be
// called concurrently and never wait for anything else.
type Events struct {
	mu   sync.Mutex // guards what follows
	ring []Event    // grows up to KeptEvents
	next int        // where the next one goes once it is full
	last int        // where the newest one is
}

// Add remembers event, and forgets the oldest one if there are too many. A time that is
// not set becomes now.
func (e *Events) Add(event Event) {
	if event.At.IsZero() {
		event.At = time.Now()
	}
	for i := range event.Details {
		event.Details[i].Value = clip(event.Details[i].Value, maxEventText)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ring) > 0 && e.ring[e.last].same(&event) {
		e.ring[e.last].Again++
		e.ring[e.last].Latest = event.At
		return
	}
	if len(e.ring) < KeptEvents {
		e.last = len(e.ring)
		e.ring = append(e.ring, event)
		return
	}
	e.ring[e.next], e.last = event, e.next
	e.next = (e.next + 1) % KeptEvents
}

// Newest returns the events, the newest first.
func (e *Events) Newest() []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.ring)
	all := make([]Event, n)
	for i := range all {
		all[i] = e.ring[(e.next+n-1-i)%n]
	}
	return all
}

// clip is s in at most so many bytes, and whole characters.
func clip(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	for bytes > 0 && !utf8.RuneStart(s[bytes]) {
		bytes--
	}
	return s[:bytes] + "…"
}
