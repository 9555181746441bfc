package balancer

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/selection"
)

// TestS17Generations: a generation has 64 bits, all of which count: it goes on where
// 32 bits, 53 (a float64, as in JSON) and 63 (a sign) would end, in what Publish
// says, in what it waits for, and in the status. At a billion publications a second
// the last one is 584 years away.
func TestS17Generations(t *testing.T) {
	for _, edge := range []uint64{math.MaxUint32, 1 << 53, math.MaxInt64, math.MaxUint64 - 3} {
		r := NewRouter(RouterOptions{})
		s := r.Selector(DefaultSelector)
		if _, err := s.Publish(selection.P2C(), FromCode); err != nil {
			t.Fatal(err)
		}
		old := *s.rule
		old.generation = edge
		s.rule = &old
		for i, p := range []selection.Policy{selection.Random(), selection.RoundRobin(), selection.LeastPending()} {
			pub, err := s.Publish(p, FromCode)
			if want := edge + 1 + uint64(i); err != nil || pub.Generation != want || !pub.Changed {
				t.Errorf("after %d: %+v, %v; want generation %d", edge, pub, err, want)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if err := pub.Wait(ctx); err != nil {
				t.Error(err)
			}
			cancel()
			st := r.Status().Selectors[0]
			if st.Generation != pub.Generation || st.InForce != pub.Generation || st.History[len(st.History)-1].Generation != pub.Generation {
				t.Errorf("after %d: the status says %+v", edge, st)
			}
		}
		r.Close()
	}
}
