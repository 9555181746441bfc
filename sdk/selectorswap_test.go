package sdk_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

func pinTo(name string) selection.Policy { return selection.Custom("pin-"+name, pin{name}) }

// publish puts a policy in force on a selector.
func (f *fixture) publish(t testing.TB, selector string, p selection.Policy) sdk.Publication {
	t.Helper()
	pub, err := f.client.Selector(selector).Publish(p, balancer.FromCode)
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.Wait(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	return pub
}

// swaps are policies of all kinds that work without sharding.
var swaps = []selection.Policy{
	selection.P2C(), pinTo("e1"), selection.Random(), selection.Weighted(nil), pinTo("e2"), selection.RoundRobin(),
	selection.Ketama(selection.KetamaOptions{}), selection.LeastPending(), pinTo("e3"), selection.CustomBuilt("order", inOrder{}, false),
}

// TestS01HundredSwaps: 100 publications during traffic. No RPC fails, each server
// accepts one connection, and the next 200 picks follow the new policy.
func TestS01HundredSwaps(t *testing.T) {
	t.Parallel()
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.LeastPending())
	f.whoBy(t, "", "")
	f.allConnected(t)
	tr := f.flow(t, 3, 10*time.Millisecond, "")
	before := f.selectorStatus(t, sdk.DefaultSelector).Generation
	for i := range 100 {
		p := swaps[i%len(swaps)]
		f.publish(t, sdk.DefaultSelector, p)
		if p.Kind() == selection.KindCustom && i >= 90 {
			for range 200 {
				if got := f.whoBy(t, "", ""); "pin-"+got != p.String() {
					t.Fatalf("publication %d: %v, and an RPC went to %s", i, p, got)
				}
			}
		}
	}
	tr.mustBeClean(t)
	f.oneConnectionEach(t)
	f.nothingPending(t)
	s := f.selectorStatus(t, sdk.DefaultSelector)
	if s.Generation != before+100 || s.InForce != s.Generation {
		t.Errorf("generation %d and %d in force, want %d", s.Generation, s.InForce, before+100)
	}
}

// TestS07OneAttemptOneGeneration: an attempt that a policy is choosing for when it
// is replaced uses its answer, also when the endpoints change meanwhile. A retry of
// the same call sees the new one.
func TestS07OneAttemptOneGeneration(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]bool{"answers": false, "retried": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inside, release := make(chan struct{}), make(chan struct{})
			slow := selection.Custom("slow", selectFunc(func(in selection.Input) int {
				close(inside) // a second choice would panic
				<-release
				return pin{"e1"}.Select(in)
			}))
			f := startPlain(t, []string{"e1", "e2", "e3"}, selection.RoundRobin(), sdk.WithServiceConfig("{"+retryConfig+"}"))
			f.whoBy(t, "", "")
			f.allConnected(t)
			f.Backend("e1").Forget()
			f.publish(t, sdk.DefaultSelector, slow)
			if fails {
				f.Backend("e1").FailNext(1, codes.Unavailable)
			}
			answer := make(chan string, 1)
			go func() {
				name, err := f.call("", 10*time.Second)
				if err != nil {
					name = err.Error()
				}
				answer <- name
			}()
			<-inside
			f.publish(t, sdk.DefaultSelector, pinTo("e3"))
			if err := f.Resolve("e3", "e1"); err != nil {
				t.Fatal(err)
			}
			if got := f.whoBy(t, "", ""); got != "e3" {
				t.Errorf("a new call went to %s", got)
			}
			close(release)
			want := "e1"
			if fails {
				want = "e3"
			}
			if got := <-answer; got != want {
				t.Errorf("the call was answered by %q, want %q", got, want)
			}
			if n := f.Backend("e1").Count(); n != 1 {
				t.Errorf("e1 got %d attempts, want the one that was chosen for it", n)
			}
		})
	}
}

// TestS08StreamsSurviveSwaps: streams stay where they are over 100 publications.
func TestS08StreamsSurviveSwaps(t *testing.T) {
	t.Parallel()
	names := []string{"e1", "e2", "e3"}
	f := start(t, testSharding(), names,
		sdk.WithSelector("rr", selection.RoundRobin()), sdk.WithSelector("ketama", selection.Ketama(selection.KetamaOptions{})))
	f.AssignEven(testTarget)
	f.whoBy(t, "rr", "")
	f.allConnected(t)
	type open struct {
		stream *sdktest.EchoStream
		server string
	}
	var streams []open
	for i, selector := range slices.Repeat([]string{sdk.DefaultSelector, "rr", "ketama"}, 4) {
		ctx := interceptors.WithKeyString(bySelector(t, 30*time.Second, selector), fmt.Sprint("key-", i))
		s, err := f.echo.Talk(ctx)
		if err != nil {
			t.Fatal(err)
		}
		server, err := s.Ask("")
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, open{s, server})
	}
	all := append(slices.Clone(swaps), selection.Sliced(selection.Policy{}), selection.Sliced(selection.P2C()))
	for i := range 100 {
		for j, selector := range []string{sdk.DefaultSelector, "rr", "ketama"} {
			f.publish(t, selector, all[(i+j)%len(all)])
		}
		if i%10 == 0 {
			for _, s := range streams {
				ask(t, s.stream, s.server)
			}
		}
	}
	pending := 0
	for _, e := range f.client.Status().Endpoints {
		pending += e.Pending
	}
	if pending != len(streams) {
		t.Errorf("%d RPCs in flight, want %d", pending, len(streams))
	}
	for _, s := range streams {
		ask(t, s.stream, s.server)
		_ = s.stream.CloseSend()
		_, _ = s.stream.Recv() // io.EOF
	}
	f.nothingPending(t)
	f.oneConnectionEach(t)
}

// TestS09PolicyIsNotTopology: the name resolver and publications change things at
// once. An index is always within what the policy was shown, no RPC fails, and in
// the end nobody reaches an endpoint that is gone.
func TestS09PolicyIsNotTopology(t *testing.T) {
	t.Parallel()
	f := startPlain(t, []string{"e1", "e2", "e3", "e4"}, selection.RoundRobin(), quick())
	f.whoBy(t, "", "")
	f.allConnected(t)
	last := func(name string) selection.Policy {
		return selection.Custom(name, selectFunc(func(in selection.Input) int {
			for i := in.Len() - 1; i >= 0; i-- { // every member can be asked for
				if in.Member(i).Name() != "" && !in.Excluded(i) {
					return i
				}
			}
			return selection.NoOpinion
		}))
	}
	policies := append(slices.Clone(swaps), last("last-1"), last("last-2"))
	tr := f.flow(t, 4, time.Millisecond, "")
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var busy sync.WaitGroup
	var published, resolved atomic.Int64
	pace := func(do func(i int)) {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
				do(i)
			case <-ctx.Done():
				return
			}
		}
	}
	busy.Go(func() {
		pace(func(i int) {
			if _, err := f.client.Selector(sdk.DefaultSelector).Publish(policies[i%len(policies)], balancer.FromCode); err != nil {
				t.Error(err)
			}
			published.Add(1)
		})
	})
	busy.Go(func() {
		lists := [][]string{{"e1", "e2", "e3", "e4"}, {"e1", "e4"}, {"e3", "e1"}, {"e2", "e1", "e3"}, {"e1"}}
		pace(func(i int) {
			if err := f.Resolve(lists[i%len(lists)]...); err != nil {
				t.Error(err)
			}
			resolved.Add(1)
		})
	})
	busy.Wait()
	if err := f.Resolve("e1", "e2"); err != nil {
		t.Fatal(err)
	}
	f.publish(t, sdk.DefaultSelector, selection.Weighted(nil))
	eventually(t, "the last membership", func() bool {
		e := f.client.Status().Endpoints
		return len(e) == 2 && e[0].Name == "e1" && e[1].Name == "e2"
	})
	if err := f.client.WaitConverged(within(t, 10*time.Second), f.client.Status().Membership); err != nil {
		t.Fatal(err)
	}
	before := f.Backend("e3").Count() + f.Backend("e4").Count()
	inFlight := f.Backend("e3").InFlight() + f.Backend("e4").InFlight()
	for range 50 {
		if got := f.whoBy(t, "", ""); got != "e1" && got != "e2" {
			t.Errorf("an RPC went to %s, which is gone", got)
		}
	}
	tr.mustBeClean(t)
	// The flow may have had a few on their way.
	if n := f.Backend("e3").Count() + f.Backend("e4").Count() - before - inFlight; n > 4 {
		t.Errorf("%d RPCs went to endpoints that are gone", n)
	}
	s := f.selectorStatus(t, sdk.DefaultSelector)
	for reason, n := range s.BadResults {
		if n != 0 {
			t.Errorf("%d results were %s", n, reason)
		}
	}
	if published.Load() == 0 || resolved.Load() == 0 {
		t.Errorf("%d publications, %d updates", published.Load(), resolved.Load())
	}
}
