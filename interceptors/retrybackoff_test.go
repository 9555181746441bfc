package interceptors

import (
	"context"
	"testing"
	"time"
)

// Waits double from base, differ by up to half, and stop at the longest.
func TestRetryBackoffJitter(t *testing.T) {
	var s retrySettings
	RetryBackoff(100*time.Millisecond, time.Second)(&s)
	wait := s.backoff()
	for attempt, middle := range map[uint]time.Duration{1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 3: 400 * time.Millisecond} {
		seen := make(map[time.Duration]bool)
		for range 100 {
			d := wait(context.Background(), attempt)
			if d < middle/2 || d > middle*3/2 {
				t.Errorf("attempt %d waits %v, want %v give or take half", attempt, d, middle)
			}
			seen[d] = true
		}
		if len(seen) < 50 {
			t.Errorf("attempt %d: %d different waits of 100; clients that failed together would come back together", attempt, len(seen))
		}
	}
	for _, attempt := range []uint{10, 63, 1000} {
		if d := wait(context.Background(), attempt); d != time.Second {
			t.Errorf("attempt %d waits %v, want the longest, 1s", attempt, d)
		}
	}
	RetryBackoff(0, 0)(&s)
	if d := s.backoff()(context.Background(), 5); d != 0 {
		t.Errorf("waits %v with base 0", d)
	}
}
