package balancer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// What a review found, each as the scenario that showed it.

// failingBuilder fails, and counts.
type failingBuilder struct{ builds *int }

func (f failingBuilder) Build(context.Context, selection.Membership) (selection.Order, error) {
	*f.builds++
	time.Sleep(time.Millisecond)
	return nil, errors.New("no data today")
}

// TestP13FailingBuildWaits: what else happens on the Router does not start the
// waits between builds over.
func TestP13FailingBuildWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b")
		b.eager.Store(true)
		b.finish(nil)
		builds := 0
		if _, err := b.router.AddSelector("bad", selection.CustomBuilt("bad", failingBuilder{&builds}, false), FromCode); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			b.resolve("b", "a")
		}
		if builds < 10 || builds > 20 {
			t.Errorf("%d builds in 10 s, want those at 10 ms, doubling to 1 s", builds)
		}
		if st := b.router.Status().Selectors[2]; st.LastBuildError == nil {
			t.Error("the status does not say why")
		}
		if _, err := b.router.Selector("bad").Publish(b.own(), FromCode); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if st := b.router.Status().Selectors[2]; st.LastBuildError != nil || st.InForce != 2 {
			t.Errorf("after a better policy: %v, in force %d", st.LastBuildError, st.InForce)
		}
	})
}

// TestBuildOnce: what wakes RPCs during a build does not have it built twice.
func TestBuildOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b")
		b.policy.post(func(in *inbox) { in.selection = true })
		synctest.Wait()
		b.finish(nil)
		if n := b.builds.Load(); n != 1 {
			t.Errorf("%d builds of one membership", n)
		}
	})
}

// triedAll is a call that has tried all endpoints of pk.
func triedAll(pk *picker) lb.PickInfo {
	c := &callinfo.Call{Key: "k", HasKey: true}
	c.Begin(c, "/test/Method")
	for _, ep := range pk.cur.Load().view.endpoints {
		c.Tried.Add(ep.id)
	}
	return lb.PickInfo{Ctx: callinfo.NewContext(context.Background(), c), FullMethodName: "/test/Method"}
}

// TestS18RetryThatIsRefused: a retry that finds only an endpoint which the call
// has tried, and which admission refuses, is told so and woken later.
func TestS18RetryThatIsRefused(t *testing.T) {
	check := func(what string, pk *picker) {
		t.Helper()
		_, err := pk.Pick(triedAll(pk))
		if err == nil || !strings.Contains(err.Error(), "admission refused") || !pk.policy.waking.Load() {
			t.Errorf("%s: %v, woken %v", what, err, pk.policy.waking.Load())
		}
	}
	for _, p := range []selection.Policy{selection.P2C(), selection.Ketama(selection.KetamaOptions{}), selection.Weighted(nil)} {
		pk, doors := doorWorld(t, 1, p)
		doors[0].shut.Store(true)
		check(p.String(), pk)
	}
	pk, doors := doorWorld(t, 1, selection.Sliced(selection.Policy{}))
	inFallbackWorld(pk)
	doors[0].shut.Store(true)
	check("fallback", pk)
}

func inFallbackWorld(pk *picker) {
	pub := *pk.cur.Load()
	pub.config, pub.phase = &Config{EnableFallback: true}, assignment.Failed
	pk.cur.Store(&pub)
}

// leaving is a guard that refuses, and whose first question takes an endpoint out
// of the READY ones.
type leaving func()

func (f leaving) TryAcquire(string) (admission.Token, bool) { f(); return 0, false }
func (leaving) Report(admission.Token, admission.Outcome)   {}
func (leaving) RetryAfter() time.Duration                   { return time.Second }

// TestFallbackScanEnds: also when the endpoint it began at leaves during it.
func TestFallbackScanEnds(t *testing.T) {
	pk, _ := doorWorld(t, 3, selection.Sliced(selection.Policy{}))
	inFallbackWorld(pk)
	v := pk.cur.Load().view
	asked := 0
	for _, ep := range v.endpoints {
		admitWith(ep, leaving(func() {
			if asked++; asked == 1 {
				ep.cur.Store(&childState{connectivity: connectivity.TransientFailure, picker: stubPicker{err: errors.New("down")}})
				v.ready.set(ep.index, false)
			}
			if asked > 100 {
				panic("the scan does not end")
			}
		}))
	}
	if _, err := pk.Pick(methodInfo()); err == nil {
		t.Error("a pick that everybody refused succeeded")
	}
}

// TestTwoConfigsOnOneRouter: of two LB policies each goes by its own config, and
// one that becomes sharded has no moment without a rule.
func TestTwoConfigsOnOneRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b")
		b.eager.Store(true)
		b.finish(nil)
		b.connect()
		other := newPolicy(newFakeConn(t), b.policy.opts)
		t.Cleanup(other.Close)
		u := unsharded(b.router, "c")
		u.BalancerConfig = &Config{KeyHeader: "k", ChannelFactoryKey: "f", InitialAssignmentTimeout: time.Second, EnableFallback: true}
		if err := other.UpdateClientConnState(u); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := b.policy.picker.Pick(selectorInfo("")); err != nil {
			t.Errorf("the unsharded one after the other's sharded config: %v", err)
		}
		if _, err := other.picker.Pick(typedKey("x", "k")); !errors.Is(err, lb.ErrNoSubConnAvailable) {
			t.Errorf("the sharded one: %v, want it to wait for an assignment", err)
		}
	})
}

// TestRetiredEndpointLosesItsConnection: RPCs that were sent there are picked
// again, and it is not dialled.
func TestRetiredEndpointLosesItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b")
		b.finish(nil)
		b.connect()
		b.resolve("b") // the build is held, so a retires
		ep := b.policy.retiring[0].endpoint
		ep.leftReady.Store(true)
		b.policy.endpointChanged(ep)
		synctest.Wait()
		if ep.leftReady.Load() {
			t.Error("nobody was told")
		}
		b.finish(nil)
	})
}

// TestS21RetryWaitsForOthers: a retry that finds only endpoints which its call has
// tried waits while another one is connecting, or about to, and goes to one again
// where none is.
func TestS21RetryWaitsForOthers(t *testing.T) {
	for _, n := range []int{1, 2} {
		for _, p := range []selection.Policy{selection.P2C(), selection.RoundRobin(), selection.LeastPending(), selection.Custom("first", first{})} {
			pk, _ := doorWorld(t, n, p)
			view := pk.cur.Load().view
			view.count(connectivity.Connecting, 1)
			if _, err := pk.Pick(triedAll(pk)); !errors.Is(err, lb.ErrNoSubConnAvailable) {
				t.Errorf("%v, %d endpoints tried and one connecting: %v, want to wait", p, n, err)
			}
			if res, err := pk.Pick(methodInfo()); err != nil {
				t.Errorf("%v, %d endpoints: a first attempt: %v", p, n, err)
			} else {
				res.Done(lb.DoneInfo{})
			}
			view.count(connectivity.Connecting, -1)
			if res, err := pk.Pick(triedAll(pk)); err != nil {
				t.Errorf("%v, %d endpoints, all tried: %v, want one of them", p, n, err)
			} else {
				res.Done(lb.DoneInfo{})
			}
		}
	}
}
