package balancer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	lb "google.golang.org/grpc/balancer"

	"github.com/slicewire/slicewire/balancer/selection"
)

// TestP09PicksGoOnDuringABuild: an update returns at once, and until its data is
// built picks have the old one. A build that fails changes nothing but the status.
func TestP09PicksGoOnDuringABuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b")
		if _, err := b.policy.picker.Pick(selectorInfo("built")); err != lb.ErrNoSubConnAvailable { //nolint:errorlint // as gRPC compares it
			t.Fatalf("before the first build: %v, want to queue", err)
		}
		b.finish(nil)
		b.connect()
		b.want("built", "a", "b")
		began := time.Now()
		b.resolve("a", "b", "c")
		b.want("built", "a", "b")
		if d := time.Since(began); d != 0 {
			t.Errorf("the update and the picks during the build took %v", d)
		}
		time.Sleep(500 * time.Millisecond)
		b.finish(errors.New("no ring today"))
		b.want("built", "a", "b")
		s := b.router.Status().Selectors[1]
		if s.LastBuildError == nil || !strings.Contains(s.LastBuildError.Error(), "no ring today") || s.Builds.Failed != 1 || s.Membership != 1 {
			t.Errorf("status is %+v", s)
		}
		time.Sleep(10 * time.Millisecond) // P-13
		synctest.Wait()
		b.finish(nil)
		b.want("built", "a", "b", "c")
		if s := b.router.Status().Selectors[1]; s.LastBuildError != nil || s.Membership != 2 {
			t.Errorf("status is %+v", s)
		}
	})
}

// TestP16WaitConverged: it ends when all selectors use the membership, or with its
// context, or with the Router.
func TestP16WaitConverged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b")
		b.finish(nil)
		if err := b.router.WaitConverged(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.router.WaitConverged(ctx, 2); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "generation 2") {
			t.Errorf("a generation that has not come: %v", err)
		}
		b.resolve("a", "b", "c")
		if n := b.router.MembershipGeneration(); n != 2 {
			t.Fatalf("membership generation %d, want 2", n)
		}
		ended := make(chan error, 1)
		wait := func(generation uint64) {
			go func() { ended <- b.router.WaitConverged(context.Background(), generation) }()
			synctest.Wait()
		}
		wait(2)
		if len(ended) > 0 {
			t.Fatal("the wait ended while a selector uses the membership before")
		}
		b.finish(nil)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		wait(3)
		b.router.Close()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("of a closed router: %v", err)
		}
	})
}

// TestP16PublicationWait: a direct policy is in force at once, one that builds when
// it has built; the one before serves until then.
func TestP16PublicationWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b")
		b.finish(nil)
		b.connect()
		s := b.router.Selector("built")
		publish := func(p selection.Policy) Publication {
			t.Helper()
			pub, err := s.Publish(p, FromCode)
			if err != nil || !pub.Changed {
				t.Fatalf("published: %+v, %v", pub, err)
			}
			synctest.Wait()
			return pub
		}
		if err := publish(selection.Custom("first", first{})).Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if got := b.reached("built"); len(got) != 1 {
			t.Errorf("the first READY one only, and picks reach %v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		built := publish(b.own())
		if err := built.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the build runs: %v", err)
		}
		if got := b.reached("built"); len(got) != 1 {
			t.Errorf("not built yet, and picks reach %v", got)
		}
		b.finish(nil)
		if err := built.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		b.want("built", "a", "b")

		// A build that was overtaken by another policy is not put in force.
		publish(b.own())
		last := publish(selection.Custom("first", first{}))
		synctest.Wait()
		if st := b.router.Status().Selectors[1]; st.InForce != last.Generation || st.Policy != "first" {
			t.Errorf("status is %+v", st)
		}
	})
}

// TestP18SameListIsNoWork: the same endpoints in any order cost no build and no
// generation.
func TestP18SameListIsNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a", "b", "c")
		b.eager.Store(true)
		b.finish(nil)
		b.connect()
		orders := [][]string{{"c", "a", "b"}, {"b", "a", "c"}, {"a", "b", "c"}}
		for i := range 100 {
			b.resolve(orders[i%len(orders)]...)
		}
		if n, g := b.builds.Load(), b.router.MembershipGeneration(); n != 1 || g != 1 {
			t.Errorf("%d builds and membership generation %d, want 1 and 1", n, g)
		}
		for _, addr := range []string{"a", "b", "c"} {
			if n := b.cc.count(b.cc.dialled, addr); n != 1 {
				t.Errorf("%q was dialled %d times", addr, n)
			}
		}
		b.resolve("a", "b")
		if n, g := b.builds.Load(), b.router.MembershipGeneration(); n != 2 || g != 2 {
			t.Errorf("another list: %d builds and membership generation %d, want 2 and 2", n, g)
		}
		b.want("built", "a", "b")
	})
}

// TestP11RoutersShareAGate: of two Routers with one Gate one builds at a time, and
// the other's picks go on.
func TestP11RoutersShareAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := NewGate()
		one, two := newBench(t, RouterOptions{Gate: gate}, "a"), newBench(t, RouterOptions{Gate: gate}, "b")
		if one.builds.Load() != 1 || two.builds.Load() != 0 {
			t.Fatalf("%d and %d builds began, want that of the first", one.builds.Load(), two.builds.Load())
		}
		one.finish(nil)
		two.finish(nil)
		one.connect()
		two.connect()
		one.resolve("a", "c")
		two.resolve("b", "d")
		if one.builds.Load() != 2 || two.builds.Load() != 1 {
			t.Fatalf("%d and %d builds began, want the second of the first", one.builds.Load(), two.builds.Load())
		}
		two.want("built", "b")
		one.router.Close() // P-14: the permit goes on
		synctest.Wait()
		if two.builds.Load() != 2 {
			t.Fatalf("a Router that closed kept the gate: %d builds", two.builds.Load())
		}
		two.finish(nil)
		two.want("built", "b", "d")
	})
}

// TestBuiltDataEndsWithItsPolicy: while the channel is idle nothing is in force, and
// what is built late of the endpoints that were does not come into force after it.
func TestBuiltDataEndsWithItsPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, RouterOptions{}, "a")
		b.finish(nil)
		sl := b.router.main.Load().slots.Load().named[0]
		late := buildInput{sl.rule, sl.members}
		data := &inTurn{members: 1}
		b.policy.Close()
		if sl.cur.Load() != nil {
			t.Error("idle, and data is in force")
		}
		b.policy = newPolicy(b.cc, lb.BuildOptions{})
		t.Cleanup(b.policy.Close)
		b.resolve("a")
		sl.publish(late, data)
		if sl.cur.Load() != nil {
			t.Error("data of endpoints that are gone is in force")
		}
		b.finish(nil)
		b.connect()
		b.want("built", "a")
	})
}
