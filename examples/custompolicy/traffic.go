package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/slicewire/slicewire/sdk/sdktest"
)

// traffic is callers that send one RPC after the other.
type traffic struct {
	cancel  context.CancelFunc
	callers sync.WaitGroup

	mu           sync.Mutex
	current      *shares // of RPCs that begin now, nil: nobody looks
	sent, failed int
	err          error // of the first that failed
}

// shares is who served how many RPCs.
type shares struct {
	by      map[string]int
	total   int
	reached chan struct{}
}

func startTraffic(ctx context.Context, echo sdktest.Echo) *traffic {
	ctx, cancel := context.WithCancel(ctx)
	t := &traffic{cancel: cancel}
	for range callers {
		t.callers.Go(func() {
			for ctx.Err() == nil {
				began := t.now()
				server, err := echo.Who(ctx, "")
				if ctx.Err() == nil { // else it was cut off by the end
					t.count(began, server, err)
				}
			}
		})
	}
	return t
}

func (t *traffic) now() *shares {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current
}

// count counts an RPC to those that began when it did.
func (t *traffic) count(began *shares, server string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent++
	if err != nil {
		t.failed++
		if t.err == nil {
			t.err = err
		}
		return
	}
	if began == nil || began != t.current {
		return
	}
	began.by[server]++
	if began.total++; began.total == enough {
		t.current = nil
		close(began.reached)
	}
}

// measure tells who serves the next RPCs.
func (t *traffic) measure(ctx context.Context) (*shares, error) {
	s := &shares{by: make(map[string]int), reached: make(chan struct{})}
	t.mu.Lock()
	t.current = s
	t.mu.Unlock()
	select {
	case <-s.reached:
		return s, nil
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		t.current = nil
		return nil, fmt.Errorf("only %d of %d RPCs succeeded in time: %w", s.total, enough, errors.Join(ctx.Err(), t.err))
	}
}

// stop ends the callers and returns what all of them did.
func (t *traffic) stop() (sent, failed int) {
	t.cancel()
	t.callers.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent, t.failed
}

func (t *traffic) firstError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// of is the percentage that a server served.
func (s *shares) of(server string) int { return (s.by[server]*100 + s.total/2) / s.total }

func (s *shares) show(when string) {
	var parts []string
	for _, server := range slices.Sorted(maps.Keys(s.by)) {
		parts = append(parts, fmt.Sprintf("%s %d%%", server, s.of(server)))
	}
	fmt.Printf("  %-18s %d RPCs: %s\n", when, s.total, strings.Join(parts, ", "))
}
