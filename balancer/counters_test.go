package balancer

import (
	"runtime"
	"testing"

	"github.com/slicewire/slicewire/balancer/selection"
)

// What a pick counts after its selector was removed is in the status, before and
// after the selector is forgotten, and what is kept of it is bounded.
func TestPicksOfRemovedSelectorsCount(t *testing.T) {
	router := NewRouter(RouterOptions{})
	defer router.Close()
	const rounds = 100
	for range rounds {
		func() { // so that nothing on the stack keeps the selector
			s, err := router.AddSelector("extra", selection.P2C(), FromCode)
			if err != nil {
				t.Fatal(err)
			}
			s.counts.ready.add()
			if err := router.RemoveSelector("extra"); err != nil {
				t.Fatal(err)
			}
			s.counts.ready.add()
			s.refused()
		}()
	}
	check := func() {
		t.Helper()
		if n := router.Status().Picks; n.Ready != 2*rounds || n.Refused != rounds {
			t.Errorf("%d picks and %d refused, want %d and %d", n.Ready, n.Refused, 2*rounds, rounds)
		}
	}
	check()
	kept := func() int {
		router.mu.Lock()
		defer router.mu.Unlock()
		return len(router.removed.open)
	}
	for range 100 {
		if kept() == 0 {
			break
		}
		runtime.GC()
		check()
	}
	if n := kept(); n > 0 {
		t.Errorf("the counters of %d selectors are kept apart", n)
	}
	check()
}
