package balancer

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/selection"
)

// TestS13PublishRacesClose: a publication is either applied before the Router
// closed or refused, and nothing is applied after Close has returned.
func TestS13PublishRacesClose(t *testing.T) {
	rounds := 10_000
	if testing.Short() {
		rounds = 1000
	}
	for range rounds {
		r := NewRouter(RouterOptions{})
		s := r.Selector(DefaultSelector)
		var applied atomic.Uint64
		var both sync.WaitGroup
		both.Go(func() {
			for _, p := range []selection.Policy{selection.Random(), selection.RoundRobin(), selection.P2C()} {
				switch pub, err := s.Publish(p, FromCode); {
				case err == nil:
					applied.Store(pub.Generation)
				case !errors.Is(err, ErrClosed):
					t.Error(err)
				}
			}
		})
		r.Close()
		atClose := r.Status().Selectors[0].Generation
		both.Wait()
		after := r.Status().Selectors[0].Generation
		if after != atClose || applied.Load() != after {
			t.Fatalf("generation %d at Close, %d later, %d told", atClose, after, applied.Load())
		}
		if _, err := s.Publish(selection.Random(), FromConfig); !errors.Is(err, ErrClosed) {
			t.Fatalf("after Close: %v, want ErrClosed", err)
		}
		if _, err := r.AddSelector("late", selection.Random(), FromCode); !errors.Is(err, ErrClosed) {
			t.Fatalf("AddSelector after Close: %v, want ErrClosed", err)
		}
	}
}

// heavy is a custom policy that would be noticed if it stayed.
type heavy struct{ _ [1 << 10]byte }

func (*heavy) Select(selection.Input) int { return selection.NoOpinion }

// TestS23ReplacedPoliciesGo: of 10,000 distinct policies the last one stays.
func TestS23ReplacedPoliciesGo(t *testing.T) {
	r := NewRouter(RouterOptions{})
	defer r.Close()
	s := r.Selector(DefaultSelector)
	const publications = 10_000
	var gone atomic.Int64
	for range publications {
		h := &heavy{}
		runtime.AddCleanup(h, func(n *atomic.Int64) { n.Add(1) }, &gone)
		if _, err := s.Publish(selection.Custom("heavy", h), FromCode); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(20 * time.Second)
	for gone.Load() < publications-1 && time.Now().Before(deadline) {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if n := gone.Load(); n != publications-1 {
		t.Errorf("%d of %d replaced policies are gone", n, publications-1)
	}
	if st := r.Status().Selectors[0]; st.Generation != publications || len(st.History) != keptHistory {
		t.Errorf("S-16: generation %d with a history of %d", st.Generation, len(st.History))
	}
}

// TestS11EqualPublications: what is equal changes nothing, and what one source
// repeats does not undo what another has published since.
func TestS11EqualPublications(t *testing.T) {
	r := NewRouter(RouterOptions{})
	defer r.Close()
	s := r.Selector(DefaultSelector)
	for i, step := range []struct {
		policy     selection.Policy
		source     Source
		changed    bool
		generation uint64
		inForce    string
	}{
		{selection.RoundRobin(), FromResolver, true, 1, "round_robin"},
		{selection.RoundRobin(), FromResolver, false, 1, "round_robin"},
		{selection.RoundRobin(), FromConfig, false, 1, "round_robin"}, // equal, whoever says so
		{selection.Random(), FromCode, true, 2, "random"},
		{selection.RoundRobin(), FromResolver, false, 2, "random"},
		{selection.RoundRobin(), FromConfig, false, 2, "random"},
		{selection.LeastPending(), FromResolver, true, 3, "least_pending"},
		{selection.Random(), FromCode, false, 3, "least_pending"},
		{selection.P2C(), FromCode, true, 4, "p2c"},
	} {
		pub, err := s.Publish(step.policy, step.source)
		if err != nil || pub.Changed != step.changed || pub.Generation != step.generation || s.Policy().String() != step.inForce {
			t.Errorf("step %d: %+v, %v, in force %v; want %+v", i, pub, err, s.Policy(), step)
		}
	}
	for range 100 {
		if pub, err := s.Publish(selection.P2C(), FromCode); err != nil || pub.Generation != 4 {
			t.Fatalf("an equal publication: %+v, %v", pub, err)
		}
	}
	for name, p := range map[string]selection.Policy{
		"S-12 none": {}, "S-12 nil": selection.Custom("nil", nil), "S-12 typed nil": selection.Custom("nil", (*heavy)(nil)),
	} {
		if _, err := s.Publish(p, FromCode); err == nil || s.Policy().String() != "p2c" {
			t.Errorf("%s: %v, in force %v; want an error and p2c", name, err, s.Policy())
		}
	}
	if _, err := s.Publish(selection.Random(), sources); err == nil {
		t.Error("an unknown source was taken")
	}
}
