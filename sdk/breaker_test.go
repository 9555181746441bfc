package sdk_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// breakers are circuit breakers on a clock of the test's, and the option.
func breakers(t testing.TB, change ...func(*admission.BreakerOptions)) (pass func(time.Duration), opt sdk.Option) {
	t.Helper()
	var clock atomic.Int64
	o := admission.BreakerOptions{
		MinThroughput: 5, OpenFor: 10 * time.Second,
		Clock: func() time.Duration { return time.Duration(clock.Load()) },
	}
	for _, c := range change {
		c(&o)
	}
	b, err := admission.NewBreaker(o)
	if err != nil {
		t.Fatal(err)
	}
	return func(d time.Duration) { clock.Add(int64(d)) }, sdk.WithAdmission(b)
}

// breakOpen has calls to an endpoint fail until its breaker opens.
func (f *fixture) breakOpen(t testing.TB, name string) {
	t.Helper()
	if _, err := f.client.AddSelector("break-"+name, pinTo(name)); err != nil {
		t.Fatal(err)
	}
	b := f.Backend(name)
	b.FailCalls(codes.Unavailable)
	ctx := bySelector(t, 10*time.Second, "break-"+name)
	eventually(t, "an open breaker", func() bool {
		_, _ = f.echo.Who(ctx, "")
		return f.endpoint(t, name).RetryAfter > 0
	})
	b.Heal()
	b.Forget()
}

// TestS18OpenBreakerIsSkipped: while the breaker of e1 is open, picks pass over it
// by any policy and no RPC fails. When it closes again, e1 gets its share.
func TestS18OpenBreakerIsSkipped(t *testing.T) {
	t.Parallel()
	policies := map[string]selection.Policy{
		"p2c": selection.P2C(), "random": selection.Random(), "rr": selection.RoundRobin(), "least": selection.LeastPending(),
		"weighted": selection.Weighted(nil), "ketama": selection.Ketama(selection.KetamaOptions{}),
		"sliced": selection.Sliced(selection.Policy{}), "sliced-rr": selection.Sliced(selection.RoundRobin()),
		"pin": pinTo("e1"), "order": selection.CustomBuilt("order", inOrder{}, true),
	}
	names := []string{"e1", "e2", "e3"}
	pass, breaker := breakers(t)
	opts := []sdk.Option{breaker}
	for name, p := range policies {
		opts = append(opts, sdk.WithSelector(name, p))
	}
	f := start(t, testSharding(), names, opts...)
	f.assigned(t, sdktest.From("", names...))
	f.whoAll(t)
	f.breakOpen(t, "e1")
	for name := range policies {
		before := f.selectorStatus(t, name).Picks
		for i := range 60 {
			f.whoBy(t, name, fmt.Sprint("key-", i))
		}
		after := f.selectorStatus(t, name).Picks
		if n := after.Ready - before.Ready; n != 60 {
			t.Errorf("selector %s: %d picks for 60 calls", name, n)
		}
		if after.Refused == before.Refused && name != "p2c" && name != "least" { // these have a penalty
			t.Errorf("selector %s never asked e1's breaker", name)
		}
		if after.Failed+after.Dropped+after.Queued != 0 {
			t.Errorf("selector %s: picks %+v, want all ready", name, after)
		}
	}
	if n := f.Backend("e1").Count(); n != 0 {
		t.Errorf("e1 got %d calls while its breaker was open", n)
	}
	// One trial closes it.
	pass(11 * time.Second)
	for name := range policies {
		for i := range 60 {
			f.whoBy(t, name, fmt.Sprint("key-", i))
		}
	}
	if n := f.Backend("e1").Count(); n < 100 {
		t.Errorf("e1 got %d calls of %d after its breaker closed", n, 60*len(policies))
	}
	f.nothingPending(t)
}

// TestS18AllBreakersOpen: with every breaker open an RPC fails and is told when to
// come back, or waits for that if it may.
func TestS18AllBreakersOpen(t *testing.T) {
	t.Parallel()
	b, err := admission.NewBreaker(admission.BreakerOptions{MinThroughput: 5, OpenFor: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"e1", "e2"}
	f := start(t, testSharding(), names, sdk.WithAdmission(b),
		sdk.WithSelector("rr", selection.RoundRobin()), sdk.WithSelector("ketama", selection.Ketama(selection.KetamaOptions{})))
	f.assigned(t, sdktest.From("", names...))
	f.whoAll(t)
	for _, selector := range []string{"rr", "ketama", sdk.DefaultSelector} {
		for _, b := range f.Backends() {
			b.FailCalls(codes.Unavailable)
		}
		ctx := interceptors.WithKeyString(bySelector(t, 10*time.Second, selector), "k")
		eventually(t, "a refusal", func() bool {
			_, err := f.echo.Who(ctx, "")
			return status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "admission refused every candidate")
		})
		for _, b := range f.Backends() {
			b.Heal()
		}
		if _, err := f.echo.Who(ctx, "", patient); err != nil {
			t.Errorf("selector %s: one that waits for ready: %v", selector, err)
		}
		eventually(t, "both breakers closed", func() bool {
			for i := range 20 {
				if _, err := f.echo.Who(interceptors.WithKeyString(ctx, fmt.Sprint(i)), ""); err != nil {
					return false
				}
			}
			return f.endpoint(t, "e1").RetryAfter == 0 && f.endpoint(t, "e2").RetryAfter == 0
		})
	}
}

// TestS22BreakerIsAuthoritative: a policy that insists on an endpoint that its
// breaker refuses is refused, not obeyed.
func TestS22BreakerIsAuthoritative(t *testing.T) {
	t.Parallel()
	_, breaker := breakers(t)
	f := startPlain(t, []string{"e1", "e2"}, selection.RoundRobin(), breaker,
		sdk.WithSelector("stubborn", selection.Custom("stubborn", selectFunc(func(in selection.Input) int {
			for i := range in.Len() {
				if in.Member(i).Name() == "e1" {
					return i // excluded or not
				}
			}
			return selection.NoOpinion
		}))))
	f.whoBy(t, "", "")
	f.allConnected(t)
	f.breakOpen(t, "e1")
	for range 10 {
		_, err := f.echo.Who(bySelector(t, 10*time.Second, "stubborn"), "")
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "excluded") {
			t.Errorf("%v, want UNAVAILABLE that says the index is excluded", err)
		}
	}
	if n := f.Backend("e1").Count(); n != 0 {
		t.Errorf("e1 got %d calls", n)
	}
	if n := f.selectorStatus(t, "stubborn").BadResults["excluded"]; n != 10 {
		t.Errorf("%d excluded results counted, want 10", n)
	}
	for range 10 {
		if got := f.whoBy(t, "", ""); got != "e2" {
			t.Errorf("an RPC reached %s", got)
		}
	}
}

// TestS18RetryAndBreaker: a retry passes over an endpoint whose breaker is open,
// and tokens are reported once for every attempt of a retried call.
func TestS18RetryAndBreaker(t *testing.T) {
	t.Parallel()
	tokens := newLedger()
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.RoundRobin(),
		sdk.WithAdmission(tokens), sdk.WithServiceConfig("{"+retryConfig+"}"))
	f.whoBy(t, "", "")
	f.allConnected(t)
	f.Backend("e1").FailCalls(codes.Unavailable)
	f.Backend("e2").FailCalls(codes.Unavailable)
	for range 30 {
		if got := f.whoBy(t, "", ""); got != "e3" {
			t.Errorf("answered by %s", got)
		}
	}
	ctx, cancel := context.WithCancel(within(t, 10*time.Second))
	s, err := f.echo.Talk(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ask(t, s, "e3")
	cancel()
	f.nothingPending(t)
	kinds := tokens.balanced(t)
	if n := kinds[admission.RemoteError]; n < 30 {
		t.Errorf("%d attempts were reported as failed; kinds %v", n, kinds)
	}
	if kinds[admission.OK] < 31 || kinds[admission.Cancelled] != 1 {
		t.Errorf("attempts ended as %v", kinds)
	}
}

// TestS20SlowServer: with SlowAfter the breaker of a server that is slow opens as
// one that fails would, and no RPC fails.
func TestS20SlowServer(t *testing.T) {
	t.Parallel()
	_, breaker := breakers(t, func(o *admission.BreakerOptions) { o.SlowAfter = 100 * time.Millisecond })
	f := startPlain(t, []string{"e1", "e2"}, selection.RoundRobin(), breaker)
	f.whoBy(t, "", "")
	f.allConnected(t)
	f.Backend("e1").SlowCalls(120 * time.Millisecond)
	eventually(t, "an open breaker", func() bool {
		f.whoBy(t, "", "")
		return f.endpoint(t, "e1").RetryAfter > 0
	})
	f.Backend("e1").Forget()
	for range 20 {
		f.whoBy(t, "", "")
	}
	if n := f.Backend("e1").Count(); n != 0 {
		t.Errorf("the slow server got %d calls", n)
	}
	if n := f.endpoint(t, "e2").RetryAfter; n > 0 {
		t.Error("the other one's breaker is open too")
	}
}
