package selection

import (
	"slices"
	"testing"
)

// FuzzExclusions: a view excludes what it was told to, counts it once, and finds
// the others by number and by position; the views before stay as they were.
func FuzzExclusions(f *testing.F) {
	f.Add(uint8(3), []byte{0, 1, 2})
	f.Add(uint8(200), []byte{5, 4, 4, 3, 2, 1, 0, 199, 64, 63, 65, 128})
	f.Add(uint8(64), []byte{63, 62, 61, 60, 0, 1, 2, 3, 4, 5})
	f.Add(uint8(10), []byte{9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 77})
	f.Fuzz(func(t *testing.T, size uint8, order []byte) {
		n := int(size)
		ms := make([]*Member, n)
		for i := range ms {
			ms[i] = NewMember("", Info{}, nil)
		}
		v := NewView(ms...)
		inPlace := v
		excluded := map[int]bool{}
		for _, b := range order {
			i := int(b)
			before, had := v.Available(), v.Excluded(min(i, max(0, n-1))) && i < n
			next := v.Excluding(i)
			if v.Available() != before || i < n && v.Excluded(i) != had {
				t.Fatalf("excluding %d changed the view before", i)
			}
			v = next
			inPlace.Exclude(i)
			if i < n {
				excluded[i] = true
			}
			check(t, &v, excluded)
			check(t, &inPlace, excluded)
		}
	})
}

func check(t *testing.T, v *View, excluded map[int]bool) {
	t.Helper()
	var left []int
	for i := range v.Len() {
		if v.Excluded(i) != excluded[i] {
			t.Fatalf("Excluded(%d) = %t with %v excluded", i, v.Excluded(i), excluded)
		}
		if !excluded[i] {
			left = append(left, i)
		}
	}
	if v.Available() != len(left) {
		t.Fatalf("%d are available, want %d", v.Available(), len(left))
	}
	for r, want := range left {
		if got := v.excluded.nth(r); got != want {
			t.Fatalf("number %d is %d, want %d, with %v excluded", r, got, want, excluded)
		}
	}
	for i := range v.Len() {
		want := v.Len()
		if at, _ := slices.BinarySearch(left, i); at < len(left) {
			want = left[at]
		}
		if got := v.excluded.from(i, v.Len()); got != want {
			t.Fatalf("from %d comes %d, want %d, with %v excluded", i, got, want, excluded)
		}
	}
}

// TestExcludeAllocatesOnce: a few for nothing, then one set for all others.
func TestExcludeAllocatesOnce(t *testing.T) {
	ms := make([]*Member, 1000)
	for i := range ms {
		ms[i] = NewMember("", Info{}, nil)
	}
	v := NewView(ms...)
	for _, tc := range []struct{ exclude, want int }{{8, 0}, {9, 1}, {500, 1}} {
		if got := testing.AllocsPerRun(10, func() {
			w := v
			for i := range tc.exclude {
				w.Exclude(i)
			}
		}); got != float64(tc.want) {
			t.Errorf("excluding %d makes %v allocations, want %d", tc.exclude, got, tc.want)
		}
	}
}
