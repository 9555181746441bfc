package assignment

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// what waits and what arrives stays within the bound of one assignment, and
// the stream is read on once a build is over.
func TestA16BoundWhileABuildWaits(t *testing.T) {
	const updates, chunks = 20, 10 // of about 11,000 bytes each update
	for name, tt := range map[string]struct {
		bound       int
		least, most int64
	}{
		"one waits, and a part of the next":           {15_000, chunks + 2, chunks + 6},
		"there is room for two, and the newest waits": {25_000, updates * chunks, updates * chunks},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int64
				svc := newService(reading(func(p peer) {
					for g := range int64(updates) {
						for range chunks {
							_ = p.Send(chunkOf([]string{strings.Repeat("n", 1000)}))
							sent.Add(1)
						}
						offer(p, g+1, "x")
					}
				}))
				d := newDoors()
				close(d.out)
				m := newMemory(svc)
				m.window = 1
				w := NewWatcher(Options{Gate: d, MaxAssignmentBytes: tt.bound}, nil)
				defer w.Close()
				w.Configure(cfg, m.provider())
				synctest.Wait()
				if n := sent.Load(); n < tt.least || n > tt.most {
					t.Errorf("%d chunks were taken, want %d to %d", n, tt.least, tt.most)
				}
				close(d.in)
				synctest.Wait()
				if s := w.Status(); s.Generation != updates || s.StreamsOpened != 1 || s.Accepted+s.Superseded != updates {
					t.Errorf("status %+v", s)
				}
			})
		})
	}
}

// what is being built counts until it is over, however it is.
func TestInboxRoom(t *testing.T) {
	of := func(n int) *assembler { return &assembler{chunks: 1, names: make([]byte, n)} }
	for _, accepted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			in := newInbox(100, 0)
			if !in.room(1000) {
				t.Error("with nothing held there is no room: the assembler has its own bound")
			}
			in.put(1, of(40))
			if build, ok := in.wait(); !build || !ok {
				t.Fatal("there is nothing to build")
			}
			in.put(2, of(50)) // in place of the first
			taken := in.take(true)
			in.put(3, of(30))
			var got atomic.Int64
			go func() { // ends with room, at the latest with close
				for n := 20; in.room(n); n += 50 {
					got.Store(int64(n))
				}
			}()
			synctest.Wait()
			if n := got.Load(); n != 20 {
				t.Errorf("there is room for %d beside 80 of 100, want 20", n)
			}
			in.built(taken[1], accepted)
			synctest.Wait()
			if n := got.Load(); n != 70 {
				t.Errorf("there is room for %d beside 30 of 100, want 70", n)
			}
			in.close()
		})
	}
}

// What becomes stale while it waits is not built.
func TestInboxForgetsStale(t *testing.T) {
	in := newInbox(100, 0)
	in.put(9, &assembler{chunks: 1})
	taken := in.take(true)
	in.put(5, &assembler{chunks: 1, names: make([]byte, 50)})
	in.built(taken[0], true)
	if build, ok := in.wait(); build || !ok || in.held != 0 {
		t.Errorf("a stale one is to be built: %v, decided: %v, holds %d bytes", build, ok, in.held)
	}
}

// A flood of metadata while a build waits is held back, not piled up.
func TestFloodWhileABuildWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const flood = 3 * maxUndecided
		var sent atomic.Int64
		svc := newService(reading(func(p peer) {
			offer(p, 9, "x")
			for range flood {
				_ = p.Send(metadataOf(1))
				sent.Add(1)
			}
		}))
		d := newDoors()
		close(d.out)
		m := newMemory(svc)
		m.window = 1
		w := NewWatcher(Options{Gate: d}, nil)
		defer w.Close()
		w.Configure(cfg, m.provider())
		synctest.Wait()
		if n := sent.Load(); n < maxUndecided-1 || n > maxUndecided+3 {
			t.Errorf("%d were taken, want about %d", n, maxUndecided)
		}
		close(d.in)
		synctest.Wait()
		if s := w.Status(); s.Accepted != 1 || s.Stale != flood {
			t.Errorf("status %+v", s)
		}
	})
}
