package configsource

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"
)

// absence is how long a file may be gone before that is published: an editor that
// deletes and writes anew does not make a bad edit.
const absence = time.Second

// watch implements Source.Watch. Each reader has a goroutine that says when to look;
// this one looks and publishes. It waits for all of them.
func (s stack) watch(ctx context.Context, since *Update, publish func(*Update, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // a look is due already, and will see this too
		}
	}
	var wakers sync.WaitGroup
	defer wakers.Wait()
	defer cancel(nil)
	for _, r := range s {
		wakers.Go(func() {
			if err := r.wake(ctx, notify); err != nil {
				cancel(err)
			}
		})
	}
	w := watcher{stack: s, last: since, publish: publish}
	notify()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-again:
		}
		again = nil
		if d := w.look(ctx); d > 0 {
			again = time.After(d)
		}
	}
}

// watcher is what a watch knows of what it has published.
type watcher struct {
	stack
	publish func(*Update, error)

	last    *Update   // good
	failed  bool      // the last publication was an error
	badHash [32]byte  // of what was bad, when it could be read
	badText string    // of why it could not be read
	missing time.Time // since when a file is gone; zero if none is

	// What was read last, if it is new and has to prove that it is no half of
	// something: since when it is as it is, and how many there were.
	candidate [32]byte
	since     time.Time
	restless  int
}

// look reads everything and publishes what is new. It says how soon to look again, 0
// if there is no need to.
func (w *watcher) look(ctx context.Context) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	readings, err := w.readAll(ctx)
	if ctx.Err() != nil {
		return 0 // and the error may be that
	}
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			if w.missing.IsZero() {
				w.missing = time.Now()
			}
			if left := absence - time.Since(w.missing); left > 0 {
				return left
			}
		}
		if !w.failed || w.badText != err.Error() {
			w.failed, w.badText, w.badHash = true, err.Error(), [32]byte{}
			w.publish(nil, err)
		}
		return 0
	}
	w.missing = time.Time{}
	hash := joinHashes(readings)
	if w.failed && hash == w.badHash || !w.failed && w.last != nil && hash == w.last.hash {
		w.candidate, w.restless = [32]byte{}, 0
		return 0
	}
	if d := w.unsettled(readings, hash); d > 0 {
		return d
	}
	u, err := assemble(readings)
	if err != nil {
		w.failed, w.badHash, w.badText = true, hash, ""
		w.publish(nil, err)
		return 0
	}
	w.last, w.failed = u, false
	w.publish(u, nil)
	return 0
}

// unsettled says how soon to look again at a change that is too young, 0 if it is
// settled. Whoever writes in place empties the file first, and a reader may see that
// with the time of the write before: only a second reading tells.
func (w *watcher) unsettled(readings []reading, hash [32]byte) time.Duration {
	settle := time.Duration(0)
	for _, r := range readings {
		settle = max(settle, r.settle)
	}
	now := time.Now()
	if hash != w.candidate {
		w.candidate, w.since = hash, now
		w.restless++
	}
	if left := settle - now.Sub(w.since); left > 0 && w.restless <= patience {
		return left
	}
	w.candidate, w.restless = [32]byte{}, 0
	return 0
}
