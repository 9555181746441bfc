package sdk_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// selectFunc is a function as a policy.
type selectFunc func(selection.Input) int

func (f selectFunc) Select(in selection.Input) int { return f(in) }

// selectorStatus is what the client's status says of a selector.
func (f *fixture) selectorStatus(t testing.TB, name string) balancer.SelectorStatus {
	t.Helper()
	for _, s := range f.client.Status().Selectors {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("the client has no selector %q", name)
	return balancer.SelectorStatus{}
}

// TestS06BadResult: an answer that a policy must not give fails that attempt with
// UNAVAILABLE, is counted, and logged once a second. Nothing else is touched.
func TestS06BadResult(t *testing.T) {
	t.Parallel()
	bad := map[string]struct {
		policy selectFunc
		reason string
		says   string
	}{
		"panic": {func(selection.Input) int { panic("no idea") }, "panic", "panicked: no idea"},
		"above": {func(in selection.Input) int { return in.Len() }, "out_of_range", "index 3 of 3"},
		"below": {func(selection.Input) int { return -2 }, "out_of_range", "index -2 of 3"},
	}
	var log logBook
	opts := []sdk.Option{log.option()}
	for name, b := range bad {
		opts = append(opts, sdk.WithSelector(name, selection.Custom("bad-"+name, b.policy)))
	}
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.RoundRobin(), opts...)
	f.whoBy(t, "", "")
	f.allConnected(t)
	tr := f.flow(t, 2, time.Millisecond, "")
	for name, b := range bad {
		since := time.Now()
		const calls = 60
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				// One that waits for ready would wait for a better policy.
				_, err := f.echo.Who(bySelector(t, 10*time.Second, name), "", grpc.WaitForReady(i%2 == 0))
				if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), b.says) || !strings.Contains(err.Error(), "bad-"+name) {
					t.Errorf("%s: %v, want UNAVAILABLE that says %q and names the policy", name, err, b.says)
				}
			})
		}
		wg.Wait()
		took := time.Since(since)
		s := f.selectorStatus(t, name)
		for reason, n := range s.BadResults {
			want := uint64(0)
			if reason == b.reason {
				want = calls
			}
			if n != want {
				t.Errorf("%s: %d results counted as %s, want %d", name, n, reason, want)
			}
		}
		if s.Picks.Ready != 0 || s.Picks.Dropped != calls {
			t.Errorf("%s: picks %+v, want %d dropped", name, s.Picks, calls)
		}
		lines := 0
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "bad result") && strings.Contains(line, "selector="+name) {
				lines++
			}
		}
		if most := 1 + int(took/time.Second); lines < 1 || lines > most {
			t.Errorf("%s: %d lines were logged in %v, want 1 to %d", name, lines, took, most)
		}
	}
	// A better policy heals the selector.
	if _, err := f.client.Selector("panic").Publish(selection.Random(), balancer.FromCode); err != nil {
		t.Fatal(err)
	}
	f.whoBy(t, "panic", "")
	tr.mustBeClean(t)
	f.oneConnectionEach(t)
	f.nothingPending(t)
}

// TestS06BadResultInSlice: the same within a slice.
func TestS06BadResultInSlice(t *testing.T) {
	t.Parallel()
	broken := selection.Custom("broken", selectFunc(func(selection.Input) int { panic("no idea") }))
	f := start(t, testSharding(), []string{"e1", "e2", "e3"},
		sdk.WithSelector("broken", selection.Sliced(broken)), sdk.WithSelector("rr", selection.RoundRobin()))
	f.AssignEven(testTarget)
	f.whoBy(t, "rr", "")
	f.allConnected(t)
	f.assignedAll(t)
	_, err := f.echo.Who(interceptors.WithKeyString(bySelector(t, 10*time.Second, "broken"), "k"), "")
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("%v, want UNAVAILABLE that says what happened", err)
	}
	if n := f.selectorStatus(t, "broken").BadResults["panic"]; n != 1 {
		t.Errorf("%d panics counted, want 1", n)
	}
	f.whoBy(t, sdk.DefaultSelector, "k")
}

// assignedAll gives every backend all keys.
func (f *fixture) assignedAll(t testing.TB) {
	t.Helper()
	var owners []string
	for _, b := range f.Backends() {
		owners = append(owners, b.Name())
	}
	f.assigned(t, sdktest.From("", owners...))
}

// TestS22RetryOfAnInsistingPolicy: a policy that insists on an endpoint that the
// call has tried is refused, not obeyed.
func TestS22RetryOfAnInsistingPolicy(t *testing.T) {
	t.Parallel()
	first := selection.Custom("stubborn", selectFunc(func(in selection.Input) int {
		for i := range in.Len() {
			if in.Member(i).Name() == "e1" {
				return i // excluded or not
			}
		}
		return selection.NoOpinion
	}))
	f := startPlain(t, []string{"e1", "e2"}, first, sdk.WithServiceConfig("{"+retryConfig+"}"))
	f.whoBy(t, "", "")
	f.allConnected(t)
	f.Backend("e1").Forget()
	f.Backend("e1").FailNext(1, codes.Unavailable)
	_, err := f.echo.Who(within(t, 10*time.Second), "")
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "excluded") {
		t.Errorf("%v, want UNAVAILABLE that says the index is excluded", err)
	}
	if n := f.Backend("e1").Count(); n != 1 {
		t.Errorf("e1 got %d attempts, want 1", n)
	}
	if n := f.selectorStatus(t, sdk.DefaultSelector).BadResults["excluded"]; n != 1 {
		t.Errorf("%d excluded results counted, want 1", n)
	}
	if got := f.whoBy(t, "", ""); got != "e1" { // nothing stays behind
		t.Errorf("the next call went to %s", got)
	}
}

// TestS21AllTried: when a call has tried every endpoint, one of them gets it
// again, and no policy is asked to choose among none.
func TestS21AllTried(t *testing.T) {
	t.Parallel()
	spy := selection.Custom("careful", selectFunc(func(in selection.Input) int {
		if in.Available() == 0 {
			panic("asked to choose among none")
		}
		for i := range in.Len() {
			if !in.Excluded(i) {
				return i
			}
		}
		return selection.NoOpinion
	}))
	for _, p := range []selection.Policy{spy, selection.P2C(), selection.RoundRobin(), selection.Weighted(nil), selection.Ketama(selection.KetamaOptions{})} {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			f := startPlain(t, []string{"e1", "e2"}, p, sdk.WithServiceConfig("{"+retryConfig+"}"))
			f.whoBy(t, "", "")
			f.whoAll(t)
			f.Backend("e1").FailNext(2, codes.Unavailable)
			f.Backend("e2").FailNext(1, codes.Unavailable)
			// Three attempts: one at each, and a third, which fails only if it is e1's.
			_, err := f.echo.Who(within(t, 10*time.Second), "")
			if err != nil && !strings.Contains(err.Error(), "told to fail") {
				t.Errorf("the third attempt was not sent: %v", err)
			}
			if f.Backend("e1").Count() == 0 || f.Backend("e2").Count() == 0 || f.Backend("e1").Count()+f.Backend("e2").Count() != 3 {
				t.Errorf("attempts: %v, want 3 and each endpoint", f.Counts())
			}
		})
	}
}
