package sdk_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
)

// quick makes connections to endpoints come back fast, so that outages can be
// short in tests.
func quick() sdk.Option {
	return sdk.WithDialOptions(grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.2, Jitter: 0.2, MaxDelay: 50 * time.Millisecond},
		MinConnectTimeout: 20 * time.Second,
	}))
}

// patient is a call that waits for ready.
var patient = grpc.WaitForReady(true)

// call sends one RPC with key. Unlike who it may be used by any goroutine.
func (f *fixture) call(key string, d time.Duration, opts ...grpc.CallOption) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return f.echo.Who(interceptors.WithKeyString(ctx, key), "", opts...)
}

// spread sends n RPCs with key, several at a time, and counts who answered.
func (f *fixture) spread(t testing.TB, key string, n int) map[string]int {
	t.Helper()
	const workers = 8
	var mu sync.Mutex
	counts := make(map[string]int)
	var firstErr error
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range n / workers {
				name, err := f.call(key, 10*time.Second)
				mu.Lock()
				counts[name]++
				if err != nil && firstErr == nil {
					firstErr = err
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if firstErr != nil {
		t.Fatalf("of %d RPCs with key %q some failed: %v; answers %v", n, key, firstErr, counts)
	}
	return counts
}

// traffic is a steady flow of RPCs beside a test.
type traffic struct {
	halt chan struct{}
	wg   sync.WaitGroup
	once sync.Once

	mu       sync.Mutex // guards what follows
	answers  map[string]int
	failures []error
}

// flow sends one RPC at each pace from each of some goroutines, taking turns
// over keys, until stop.
func (f *fixture) flow(t testing.TB, workers int, pace time.Duration, keys ...string) *traffic {
	t.Helper()
	tr := &traffic{halt: make(chan struct{}), answers: make(map[string]int)}
	for w := range workers {
		tr.wg.Go(func() {
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for i := w; ; i++ {
				select {
				case <-tick.C:
				case <-tr.halt:
					return
				}
				name, err := f.call(keys[i%len(keys)], 10*time.Second)
				tr.mu.Lock()
				tr.answers[name]++
				if err != nil {
					tr.failures = append(tr.failures, fmt.Errorf("key %q: %w", keys[i%len(keys)], err))
				}
				tr.mu.Unlock()
			}
		})
	}
	t.Cleanup(tr.stop)
	return tr
}

func (tr *traffic) stop() {
	tr.once.Do(func() { close(tr.halt) })
	tr.wg.Wait()
}

// total is how many RPCs have ended.
func (tr *traffic) total() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	n := 0
	for _, c := range tr.answers {
		n += c
	}
	return n
}

// mustBeClean stops the flow and fails the test if an RPC failed.
func (tr *traffic) mustBeClean(t testing.TB) map[string]int {
	t.Helper()
	tr.stop()
	if n := len(tr.failures); n > 0 {
		t.Errorf("%d RPCs failed, the first: %v", n, tr.failures[0])
	}
	return tr.answers
}

// connections is how many connections all backends have accepted so far.
func (f *fixture) connections() int {
	n := 0
	for _, b := range f.Backends() {
		n += b.Connections().Accepted
	}
	return n
}
