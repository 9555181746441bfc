package sdktest

import (
	"context"
	"fmt"
	"sync"
)

// signal wakes everybody who waits for a change of what a mutex guards. Both
// methods are called with that mutex held.
type signal struct {
	changed chan struct{}
}

// next returns a channel that is closed at the next change.
func (s *signal) next() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// raise tells of a change.
func (s *signal) raise() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// await returns when done, called with mu held, is true. The error says what
// was awaited and what there is instead; have is called with mu held too.
func (s *signal) await(ctx context.Context, mu sync.Locker, done func() bool, want string, have func() string) error {
	for {
		mu.Lock()
		if done() {
			mu.Unlock()
			return nil
		}
		changed := s.next()
		mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			mu.Lock()
			defer mu.Unlock()
			if done() {
				return nil
			}
			return fmt.Errorf("sdktest: waited for %s, have %s: %w", want, have(), context.Cause(ctx))
		}
	}
}
