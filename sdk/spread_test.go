package sdk_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
)

// TestSP03TiesSpread: calls that come all at once spread over idle endpoints.
func TestSP03TiesSpread(t *testing.T) {
	t.Parallel()
	names := []string{"e1", "e2", "e3", "e4"}
	for _, p := range []selection.Policy{selection.P2C(), selection.LeastPending()} {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			f := startPlain(t, names, p)
			f.whoBy(t, "", "")
			f.allConnected(t)
			f.nothingPending(t)
			for _, b := range f.Backends() {
				b.Forget()
				b.Hold() // the calls stay, so that the spread is not that of a later moment
			}
			barrier := make(chan struct{})
			var calls sync.WaitGroup
			for range 100 {
				calls.Go(func() {
					<-barrier
					if _, err := f.call("", 10*time.Second); err != nil {
						t.Error(err)
					}
				})
			}
			close(barrier)
			eventually(t, "100 calls", func() bool {
				n := 0
				for _, b := range f.Backends() {
					n += b.InFlight()
				}
				return n == 100
			})
			for _, b := range f.Backends() {
				if n := b.InFlight(); n < 15 || n > 35 {
					t.Errorf("%s got %d of 100 calls, want 15 to 35", b.Name(), n)
				}
				b.Heal()
			}
			calls.Wait()
		})
	}
}

// TestSP04TwoDifferentMembers: p2c compares two different endpoints, so the one
// that is busy gets nothing.
func TestSP04TwoDifferentMembers(t *testing.T) {
	t.Parallel()
	for n, calls := range map[int]int{1: 50, 2: 500, 10: 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			names := make([]string, n)
			for i := range names {
				names[i] = fmt.Sprint("e", i)
			}
			f := startPlain(t, names, selection.P2C(), sdk.WithSelector("busy", selection.Custom("pin", pin{"e0"})))
			f.whoBy(t, "", "")
			f.allConnected(t)
			ctx, cancel := context.WithCancel(bySelector(t, 30*time.Second, "busy"))
			for range 50 {
				s, err := f.echo.Talk(ctx)
				if err != nil {
					t.Fatal(err)
				}
				ask(t, s, "e0")
			}
			f.Backend("e0").Forget()
			for range calls {
				f.whoBy(t, "", "")
			}
			want := 0
			if n == 1 {
				want = calls
			}
			if got := f.Backend("e0").Count(); got != want {
				t.Errorf("the busy one of %d got %d calls, want %d", n, got, want)
			}
			cancel()
			f.nothingPending(t)
		})
	}
}

// TestSP06CancelIsNotTheBackendsFault: what callers cancel does not lower an
// endpoint's share. A deadline does.
func TestSP06CancelIsNotTheBackendsFault(t *testing.T) {
	t.Parallel()
	for _, p := range []selection.Policy{selection.P2C(), selection.LeastPending()} {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			f := startPlain(t, []string{"a", "b"}, p.WithPenalty(selection.MaxPenalty),
				sdk.WithSelector("a", selection.Custom("pin", pin{"a"})))
			f.whoBy(t, "", "")
			f.allConnected(t)
			a := f.Backend("a")

			// end has 500 calls to a end in a way.
			end := func(ctx context.Context, before func(), want codes.Code) {
				t.Helper()
				a.Hold()
				ctx = interceptors.WithSelector(ctx, "a")
				var calls sync.WaitGroup
				for range 500 {
					calls.Go(func() {
						if _, err := f.echo.Who(ctx, ""); status.Code(err) != want {
							t.Errorf("%v, want %v", err, want)
						}
					})
				}
				before()
				calls.Wait()
				a.Heal()
				f.nothingPending(t)
				a.Forget()
			}

			ctx, cancel := context.WithCancel(within(t, 30*time.Second))
			end(ctx, func() {
				if err := a.WaitInFlight(within(t, 20*time.Second), 500); err != nil {
					t.Error(err)
				}
				cancel()
			}, codes.Canceled)
			for range 1000 {
				f.whoBy(t, "", "")
			}
			// Fair is 500 with a standard deviation of 16.
			if n := a.Count(); n < 400 || n > 600 {
				t.Errorf("after 500 cancelled calls a got %d of 1000", n)
			}
			late, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
			defer cancel()
			end(late, func() {}, codes.DeadlineExceeded)
			for range 200 {
				f.whoBy(t, "", "")
			}
			if n := a.Count(); n > 20 {
				t.Errorf("after 500 calls that ran out of time a got %d of 200", n)
			}
		})
	}
}
