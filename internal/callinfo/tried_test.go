package callinfo_test

import (
	"sync"
	"testing"

	"github.com/slicewire/slicewire/internal/callinfo"
)

func TestTried(t *testing.T) {
	for _, tt := range []struct {
		name     string
		add      []uint32
		has, not []uint32
	}{
		{"empty", nil, nil, []uint32{1}},
		{"one", []uint32{7}, []uint32{7}, []uint32{1, 8}},
		{"more than gRPC's retries", []uint32{1, 2, 3, 4, 5, 6}, []uint32{1, 2, 3, 4, 5, 6}, []uint32{7}},
		{"full", []uint32{1, 2, 3, 4, 5, 6, 7, 8}, []uint32{1, 8}, []uint32{9}},
		{"the newest stay", []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}, []uint32{2, 8, 9}, []uint32{1}},
		{"one tried over and over pushes none out", []uint32{1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3}, []uint32{1, 2, 3}, []uint32{4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var set callinfo.Tried
			for _, id := range tt.add {
				set.Add(id)
			}
			if set.Any() != (len(tt.add) > 0) {
				t.Errorf("Any says %v", set.Any())
			}
			for _, id := range tt.has {
				if !set.Has(id) {
					t.Errorf("lost %d", id)
				}
			}
			for _, id := range tt.not {
				if set.Has(id) {
					t.Errorf("has %d", id)
				}
			}
		})
	}
}

func TestTriedOfNobody(t *testing.T) {
	var set *callinfo.Tried
	set.Add(1)
	if set.Any() || set.Has(1) {
		t.Errorf("nil remembers an endpoint")
	}
}

// Attempts of a hedged call pick at the same time (race detector).
func TestTriedConcurrently(t *testing.T) {
	var set callinfo.Tried
	var wg sync.WaitGroup
	for id := range uint32(4) {
		wg.Go(func() {
			for range 100 {
				set.Add(id + 1)
				if !set.Any() || !set.Has(id+1) {
					t.Errorf("%d is not there after it was added", id+1)
				}
			}
		})
	}
	wg.Wait()
}

func TestTriedAllocatesNothing(t *testing.T) {
	var set callinfo.Tried
	if n := testing.AllocsPerRun(100, func() { set.Add(1); set.Any(); set.Has(2) }); n != 0 {
		t.Errorf("%v allocations; the picker does this in each pick", n)
	}
}
