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
	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

func pinTo(name string) selection.Policy { return selection.Custom("pin-"+name, pin{name}) }

// publish puts a policy in force on a selector.
func (f *fixture) publish(t testing.TB, selector string, p selection.Policy) balancer.Publication {
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

// TestS05OnlyReadyOnesAreSeen: a policy is never shown an endpoint that is not
// READY.
func TestS05OnlyReadyOnesAreSeen(t *testing.T) {
	t.Parallel()
	var seen sync.Map
	spy := selection.Custom("spy", selectFunc(func(in selection.Input) int {
		for i := range in.Len() {
			seen.Store(in.Member(i).Name(), true)
		}
		return selection.NoOpinion
	}))
	f := startPlain(t, []string{"e1", "e2", "e3"}, spy, quick())
	f.whoBy(t, "", "")
	f.allConnected(t)
	sees := func(name string) bool {
		seen.Clear()
		for range 20 {
			f.whoBy(t, "", "")
		}
		_, ok := seen.Load(name)
		return ok
	}
	if !sees("e3") {
		t.Error("e3 is READY, and the policy does not see it")
	}
	f.Backend("e3").Kill()
	eventually(t, "the client notices", func() bool { return f.endpoint(t, "e3").State != connectivity.Ready })
	eventually(t, "e3 is seen no more", func() bool { return !sees("e3") })
	for range 10 {
		if sees("e3") {
			t.Fatal("the policy sees e3, which is dead")
		}
	}
	if err := f.Backend("e3").Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "e3 is seen again", func() bool { return sees("e3") })
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

// TestS14PublishDoesNotDial: on a client that has made no call, policies cost no
// connection and no name resolution.
func TestS14PublishDoesNotDial(t *testing.T) {
	t.Parallel()
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.RoundRobin())
	for _, p := range swaps {
		f.publish(t, sdk.DefaultSelector, p) // does not wait: there are no picks
	}
	if _, err := f.client.AddSelector("more", selection.Ketama(selection.KetamaOptions{})); err != nil {
		t.Fatal(err)
	}
	f.client.SetEnabled("e1", false, "maintenance")
	if n := f.Resolver().Builds(); n != 0 {
		t.Errorf("the name was resolved %d times", n)
	}
	if n := f.connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
	if st := f.client.Status(); len(st.Endpoints) != 0 || st.Target != "" {
		t.Errorf("status %v", st)
	}
	f.publish(t, sdk.DefaultSelector, pinTo("e3"))
	f.whoBy(t, "", "")
	f.whoBy(t, "more", "")
}

// TestS15SingleEndpoint: with one endpoint a policy is accepted and not asked. It
// is as soon as there are two.
func TestS15SingleEndpoint(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	f := startPlain(t, []string{"e1", "e2"}, selection.P2C())
	if err := f.Resolve("e1"); err != nil {
		t.Fatal(err)
	}
	f.whoBy(t, "", "")
	pub := f.publish(t, sdk.DefaultSelector, selection.Custom("counts", selectFunc(func(in selection.Input) int {
		asked.Add(1)
		return pin{"e2"}.Select(in)
	})))
	if !pub.Changed {
		t.Error("the policy was not accepted")
	}
	for range 20 {
		f.whoBy(t, "", "")
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the policy was asked %d times with one endpoint", n)
	}
	if err := f.Resolve("e1", "e2"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policy is asked", func() bool { return f.whoBy(t, "", "") == "e2" })
	f.oneConnectionEach(t)
}

// TestS16Snapshot: Status says of each selector what is in force, who published
// it, and what was before.
func TestS16Snapshot(t *testing.T) {
	t.Parallel()
	f := startPlain(t, []string{"e1", "e2", "e3"}, selection.P2C(), sdk.WithSelector("hash", selection.Ketama(selection.KetamaOptions{})))
	f.whoBy(t, "", "")
	f.whoAll(t)
	f.publish(t, sdk.DefaultSelector, selection.RoundRobin())
	again := f.publish(t, sdk.DefaultSelector, selection.RoundRobin())
	if again.Changed || again.Generation != 2 {
		t.Errorf("the same policy again: %+v, want no change", again)
	}
	for range 20 {
		f.publish(t, "hash", selection.Weighted(nil))
		f.publish(t, "hash", selection.Ketama(selection.KetamaOptions{}))
	}
	for range 30 {
		f.whoBy(t, "hash", "")
	}
	st := f.client.Status()
	if len(st.Selectors) != 3 || st.Selectors[0].Name != sdk.DefaultSelector {
		t.Fatalf("selectors %+v, want the default one first, and 3", st.Selectors)
	}
	s := f.selectorStatus(t, sdk.DefaultSelector)
	if s.Policy != "round_robin" || s.Generation != 2 || s.InForce != 2 || s.Source != balancer.FromCode || s.Membership != st.Membership {
		t.Errorf("the default selector: %+v", s)
	}
	if h := s.History; len(h) != 2 || h[0].Policy != "p2c" || h[1].Policy != "round_robin" || h[1].Generation != 2 || h[1].At.Before(h[0].At) {
		t.Errorf("its history: %+v", h)
	}
	s = f.selectorStatus(t, "hash")
	if s.Policy != "ketama" || s.Generation != 41 || s.InForce != 41 || s.Builds.Builds == 0 || s.LastBuildError != nil || s.Picks.Ready != 30 {
		t.Errorf("selector hash: %+v", s)
	}
	if h := s.History; len(h) != 16 || h[15].Generation != 41 || h[0].Generation != 26 {
		t.Errorf("the history of hash has %d entries, want the newest 16: %+v", len(h), h)
	}
}
