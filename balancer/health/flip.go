package health

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Flip is one change of a target's state.
type Flip struct {
	Key      string   // the equivalence key
	Names    []string // what the views call it, sorted, each once
	From, To State
	Probes   int   // how many in a row decided it
	Err      error // of the last one; nil if it passed
	At       time.Time
}

// String is the change as a sentence, the backend_summary of row P-27.
func (f Flip) String() string {
	if f.To == Healthy {
		return fmt.Sprintf("%s is healthy, it was %s: %d probes in a row passed", f.who(), f.From, f.Probes)
	}
	return fmt.Sprintf("%s is %s, it was %s: %d probes in a row failed, the last with: %v", f.who(), f.To, f.From, f.Probes, f.Err)
}

func (f Flip) who() string {
	if len(f.Names) == 0 || len(f.Names) == 1 && f.Names[0] == f.Key {
		return f.Key
	}
	return f.Key + " (" + strings.Join(f.Names, ", ") + ")"
}

// event is something to tell the logger, and the observer if it is a flip.
type event struct {
	flip    Flip
	oddity  string // what to warn of; empty for a flip
	isFlip  bool
	details []slog.Attr
}

// tell runs in the goroutine of the outbox events.
func (r *Registry) tell(e event) {
	defer r.survive("the logger or the observer of the health registry panicked")
	log := r.options.Logger
	if !e.isFlip {
		log.LogAttrs(context.Background(), slog.LevelWarn, e.oddity, e.details...)
		return
	}
	level := slog.LevelInfo
	if e.flip.To == Unhealthy {
		level = slog.LevelWarn
	}
	log.LogAttrs(context.Background(), level, "a server's health changed", slog.String("summary", e.flip.String()))
	if r.options.Observer != nil {
		r.options.Observer(e.flip)
	}
}

// notify tells the views of an entry that its state changed. It runs in the
// goroutine of the outbox changed, apart from the observer, so that a slow observer
// does not delay routing.
func (r *Registry) notify(e *entry) {
	r.mu.Lock()
	e.notifying = false // a flip from here on is told again
	uses := slices.Clone(e.uses)
	r.mu.Unlock()
	for _, u := range uses {
		u.view.tell(u.target.Name)
	}
}

// survive is deferred around callbacks.
func (r *Registry) survive(what string) {
	v := recover()
	if v == nil {
		return
	}
	r.mu.Lock()
	r.counts.CallbackPanics++
	r.mu.Unlock()
	defer func() { _ = recover() }() // the logger may be what panicked
	r.options.Logger.LogAttrs(context.Background(), slog.LevelError, what, slog.Any("panic", v))
}
