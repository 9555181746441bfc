package sdk_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// endpoint is what the client's status says of an endpoint.
func (f *fixture) endpoint(t testing.TB, name string) balancer.EndpointStatus {
	t.Helper()
	for _, e := range f.client.Status().Endpoints {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("the client has no endpoint %q", name)
	return balancer.EndpointStatus{}
}

// nothingPending waits until no RPC is in flight.
func (f *fixture) nothingPending(t testing.TB) {
	t.Helper()
	eventually(t, "nothing in flight", func() bool {
		for _, e := range f.client.Status().Endpoints {
			if e.Pending != 0 {
				return false
			}
		}
		return true
	})
}

// bySelector is a context for a call by a selector.
func bySelector(t testing.TB, d time.Duration, selector string) context.Context {
	t.Helper()
	return interceptors.WithSelector(within(t, d), selector)
}

// ledger is an admission that admits everything and keeps account of tokens.
type ledger struct {
	next   atomic.Uint64
	during atomic.Pointer[func(endpoint string)] // runs inside the next pick

	mu     sync.Mutex // guards what follows
	open   map[admission.Token]string
	faults []string
	kinds  map[admission.Kind]int
}

func newLedger() *ledger {
	return &ledger{open: make(map[admission.Token]string), kinds: make(map[admission.Kind]int)}
}

func (l *ledger) Guard(endpoint string) admission.Guard { return ledgerGuard{l, endpoint} }

type ledgerGuard struct {
	*ledger
	endpoint string
}

func (g ledgerGuard) TryAcquire(string) (admission.Token, bool) {
	if f := g.during.Swap(nil); f != nil {
		(*f)(g.endpoint)
	}
	token := admission.Token(g.next.Add(1))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[token] = g.endpoint
	return token, true
}

func (g ledgerGuard) Report(token admission.Token, o admission.Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[token] != g.endpoint {
		g.faults = append(g.faults, fmt.Sprintf("token %d of %q was reported to %q", token, g.open[token], g.endpoint))
	}
	delete(g.open, token)
	g.kinds[o.Kind]++
}

func (g ledgerGuard) RetryAfter() time.Duration { return 0 }

// balanced fails unless each token was reported exactly once, and returns how the
// attempts ended.
func (l *ledger) balanced(t testing.TB) map[admission.Kind]int {
	t.Helper()
	eventually(t, "all tokens reported", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.open) == 0
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, fault := range l.faults {
		t.Error(fault)
	}
	return l.kinds
}

// TestSP05PendingIsReturnedOnce: the count of RPCs in flight is 0 after each way
// in which a call can end, and never negative on the way. It also holds S-18: the
// token of each attempt is reported exactly once.
func TestSP05PendingIsReturnedOnce(t *testing.T) {
	t.Parallel()
	tokens := newLedger()
	c := sdktest.NewCluster(t, "e1", "e2", "e3")
	for _, b := range c.Backends() {
		if err := b.BlackHole(); err != nil {
			t.Fatal(err)
		}
	}
	client, err := sdk.Dial(c.Target(), plain, sdk.WithResolvers(c.Resolver()), quick(),
		sdk.WithSelector(sdk.DefaultSelector, selection.LeastPending()), sdk.WithAdmission(tokens))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	f := &fixture{Cluster: c, client: client, echo: sdktest.NewEcho(client)}

	// Somebody looks all the time.
	halt := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-halt:
				return
			case <-time.After(100 * time.Microsecond):
			}
			for _, e := range client.Status().Endpoints {
				if e.Pending < 0 {
					t.Errorf("%s has %d RPCs in flight", e.Name, e.Pending)
					return
				}
			}
		}
	})
	defer looking.Wait()
	defer close(halt)

	sum := func() (n int) {
		for _, e := range client.Status().Endpoints {
			n += e.Pending
		}
		return n
	}
	wantCode := func(what string, err error, want codes.Code) {
		t.Helper()
		if status.Code(err) != want {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}

	// 1. Cancelled while queued: no endpoint is READY yet.
	ctx, cancel := context.WithCancel(within(t, 10*time.Second))
	ended := make(chan error, 1)
	go func() { _, err := f.echo.Who(ctx, ""); ended <- err }()
	eventually(t, "a queued RPC", func() bool { return client.Status().Picks.Queued > 0 })
	cancel()
	wantCode("cancelled while queued", <-ended, codes.Canceled)
	for _, b := range c.Backends() {
		if err := b.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	// 2. Success.
	if _, err := f.echo.Who(within(t, 10*time.Second), "", patient); err != nil {
		t.Fatal(err)
	}
	f.allConnected(t)
	f.nothingPending(t)

	// 3. Errors, of which some count against the endpoint and some do not.
	for _, code := range []codes.Code{codes.Unavailable, codes.NotFound, codes.Internal} {
		for _, b := range c.Backends() {
			b.FailCalls(code)
		}
		for range 5 {
			_, err := f.echo.Who(within(t, 10*time.Second), "")
			wantCode("an error", err, code)
		}
	}
	for _, b := range c.Backends() {
		b.Heal()
	}
	f.nothingPending(t)

	// 4. Cancelled in the middle of a stream, and 7. opened and abandoned.
	for _, listens := range []bool{true, false} {
		ctx, cancel := context.WithCancel(within(t, 10*time.Second))
		for range 6 {
			s, err := f.echo.Talk(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if listens {
				if _, err := s.Ask(""); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := sum(); n != 6 {
			t.Errorf("%d RPCs in flight with 6 open streams", n)
		}
		cancel()
		f.nothingPending(t)
	}

	// 5. The deadline.
	for _, b := range c.Backends() {
		b.Hold()
	}
	for range 3 {
		_, err := f.echo.Who(within(t, 30*time.Millisecond), "")
		wantCode("out of time", err, codes.DeadlineExceeded)
	}
	for _, b := range c.Backends() {
		b.Heal()
	}
	f.nothingPending(t)

	// 6. The server is killed between pick and send: before and after gRPC knows.
	for _, known := range []bool{true, false} {
		killed := make(chan string, 1)
		kill := func(name string) {
			c.Backend(name).Kill()
			if known {
				eventually(t, "the connection is gone", func() bool {
					return f.endpoint(t, name).State != connectivity.Ready
				})
			}
			killed <- name
		}
		tokens.during.Store(&kill)
		name, err := f.echo.Who(within(t, 10*time.Second), "")
		victim := <-killed
		// Once gRPC knows, it picks again. Before, the RPC may be on its way already.
		if err != nil && (known || status.Code(err) != codes.Unavailable) || name == victim {
			t.Errorf("%s was killed after it was picked: answered by %q, %v", victim, name, err)
		}
		if err := c.Backend(victim).Restart(); err != nil {
			t.Fatal(err)
		}
		f.nothingPending(t)
	}

	kinds := tokens.balanced(t)
	for _, kind := range []admission.Kind{admission.OK, admission.RemoteError, admission.Cancelled, admission.Deadline, admission.NotSent} {
		if kinds[kind] == 0 {
			t.Errorf("no attempt ended as %v; there were %v", kind, kinds)
		}
	}
	if n := kinds[0]; n > 0 {
		t.Errorf("%d attempts ended as nothing", n)
	}
}

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
