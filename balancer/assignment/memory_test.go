package assignment

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// onDisk keeps frames out of the heap that is measured. Each comes back in a
// buffer of its own, as from a stream.
func onDisk(t *testing.T, frames [][]byte) iter.Seq[[]byte] {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "frames"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	var lengths []int
	for _, f := range frames {
		if _, err := file.Write(f); err != nil {
			t.Fatal(err)
		}
		lengths = append(lengths, len(f))
	}
	return func(yield func([]byte) bool) {
		at := int64(0)
		for _, n := range lengths {
			frame := make([]byte, n)
			if _, err := file.ReadAt(frame, at); err != nil {
				t.Error(err)
				return
			}
			at += int64(n)
			if !yield(frame) {
				return
			}
		}
	}
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMemory: a slice with three owners retains at most 40 bytes besides its
// key, index included; replacing an assignment never has more than 2.5 of them
// alive; Bytes tells the truth.
func TestMemory(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 100_000
	}
	const keyBytes = 16
	frames := onDisk(t, even(t, n, 10_000, keyBytes))
	asm := &assembler{maxBytes: 1 << 30}
	feed := func(after func()) *Assignment {
		for frame := range frames {
			if _, _, err := asm.frame(frame); err != nil {
				t.Fatal(err)
			}
			after()
		}
		a, message := asm.complete().build(context.Background(), 1, Revision202608)
		if a == nil {
			t.Fatal(message)
		}
		return a
	}
	base := liveHeap()
	old := feed(func() {})
	retained := liveHeap() - base
	perSlice := float64(retained)/float64(n) - keyBytes
	t.Logf("retained: %.1f bytes a slice besides its key of %d", perSlice, keyBytes)
	if perSlice > 40 {
		t.Errorf("%.1f bytes a slice are retained, want at most 40", perSlice)
	}
	if told := float64(old.Bytes()); told < 0.95*float64(retained) || told > 1.05*float64(retained) {
		t.Errorf("Bytes() = %v, retained are %d", told, retained)
	}

	var peak uint64
	step := 0
	next := feed(func() {
		if step++; step%10 == 0 {
			peak = max(peak, liveHeap()-base)
		}
	})
	peak = max(peak, liveHeap()-base)
	runtime.KeepAlive(old)
	runtime.KeepAlive(next)
	t.Logf("peak of live heap while replacing: %.2f of one", float64(peak)/float64(retained))
	if float64(peak) > 2.5*float64(retained) {
		t.Errorf("peak of live heap is %.2f of one assignment, want at most 2.5", float64(peak)/float64(retained))
	}

	// With garbage, for the log only: it depends on when the collector runs.
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	old = next
	next = nil
	runtime.GC()
	sampled := make(chan uint64)
	stop := make(chan struct{})
	go func() { // ends with stop, below
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		most := uint64(0)
		for {
			select {
			case <-stop:
				sampled <- most
				return
			case <-time.After(time.Millisecond):
				metrics.Read(sample)
				most = max(most, sample[0].Value.Uint64())
			}
		}
	}()
	next = feed(func() {})
	close(stop)
	t.Logf("peak with garbage: %.2f of one", float64(<-sampled-base)/float64(retained))
	runtime.KeepAlive(old)
	runtime.KeepAlive(next)
}

// LL-05: 2,000 generations leave the heap as one does.
func TestFlatMemory(t *testing.T) {
	frames := even(t, 5000, 5000, 12)
	asm := &assembler{maxBytes: 1 << 30}
	var held *Assignment
	generation := func(g int64) {
		for _, f := range frames {
			if _, _, err := asm.frame(f); err != nil {
				t.Fatal(err)
			}
		}
		if held, _ = asm.complete().build(context.Background(), g, Revision202608); held == nil {
			t.Fatal("refused")
		}
	}
	generations := int64(2000)
	if testing.Short() {
		generations = 200
	}
	generation(1)
	first := liveHeap()
	for g := range generations {
		generation(g + 2)
	}
	if last := liveHeap(); last > first+20<<20 {
		t.Errorf("heap grew from %d to %d bytes", first, last)
	}
	runtime.KeepAlive(held)
}
