package balancer

import (
	"testing"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/internal/wire"
)

// splitAt is [start, at) with one endpoint and [at, end) with another.
func splitAt(t *testing.T, generation int64, at, left, right string) *assignment.Assignment {
	t.Helper()
	return decodeSlices(t, generation, assignment.Revision202608, []string{left, right}, []*wire.SliceAssignment{
		{Slice: &wire.Slice{EndKey: []byte(at)}, Endpoints: []*wire.PerSliceEndpointState{{EndpointIndex: 0}}},
		{Slice: &wire.Slice{StartKey: []byte(at)}, Endpoints: []*wire.PerSliceEndpointState{{EndpointIndex: 1}}},
	})
}

func TestMovedRanges(t *testing.T) {
	type move struct{ start, end, from, to string }
	for _, tc := range []struct {
		name     string
		old, now *assignment.Assignment
		want     []move
	}{
		{"nothing", splitAt(t, 1, "m", "a", "b"), splitAt(t, 2, "m", "a", "b"), nil},
		{"one slice", splitAt(t, 1, "m", "a", "b"), splitAt(t, 2, "m", "a", "c"), []move{{"m", "", "b", "c"}}},
		{"the bound, down", splitAt(t, 1, "m", "a", "b"), splitAt(t, 2, "f", "a", "b"), []move{{"f", "m", "a", "b"}}},
		{"the bound, up", splitAt(t, 1, "f", "a", "b"), splitAt(t, 2, "m", "a", "b"), []move{{"f", "m", "b", "a"}}},
		{"both", splitAt(t, 1, "m", "a", "b"), splitAt(t, 2, "m", "b", "a"), []move{{"", "m", "a", "b"}, {"m", "", "b", "a"}}},
		{"neighbours to one owner stay apart by where they come from", splitAt(t, 1, "m", "a", "b"), splitAt(t, 2, "f", "c", "c"), []move{{"", "m", "a", "c"}, {"m", "", "b", "c"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []move
			for _, m := range movedRanges(tc.old, tc.now) {
				if m.End == nil && len(m.Start) == 0 && len(tc.want) > 1 {
					t.Errorf("a range over everything: %+v", m)
				}
				got = append(got, move{string(m.Start), string(m.End), m.From[0], m.To[0]})
			}
			if len(got) != len(tc.want) {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
			for i := range got {
				if got[i] != tc.want[i] {
					t.Errorf("got %q, want %q", got[i], tc.want[i])
				}
			}
		})
	}
}

// TestMovesFoldFromTheFirst: two assignments that come before the listener's
// goroutine runs still make an event.
func TestMovesFoldFromTheFirst(t *testing.T) {
	told := make(chan Reassignment, 1)
	m := newMoves(func(r Reassignment) { told <- r })
	defer m.close()
	m.mu.Lock()
	m.first, m.newest = splitAt(t, 1, "m", "a", "b"), splitAt(t, 2, "m", "a", "c")
	m.mu.Unlock()
	m.wake <- struct{}{}
	if r := <-told; r.Generation != 2 || len(r.Moved) != 1 || string(r.Moved[0].Start) != "m" {
		t.Errorf("told %+v", r)
	}
}
