package assignment

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/internal/wire"
)

// doors is a Gate that a test stands at: before a build begins, or when it is
// over and nobody knows yet, which is as a long build looks from outside.
type doors struct {
	gate
	in, out chan struct{} // closed when the test lets builds in and out
	entered atomic.Int64
	firsts  atomic.Int64
}

func newDoors() *doors {
	return &doors{gate: make(gate, 1), in: make(chan struct{}), out: make(chan struct{})}
}

func (d *doors) Enter(ctx context.Context, first bool) error {
	select {
	case <-d.in:
	case <-ctx.Done():
		return ctx.Err()
	}
	d.entered.Add(1)
	if first {
		d.firsts.Add(1)
	}
	return d.gate.Enter(ctx, first)
}

func (d *doors) Leave() {
	<-d.out
	d.gate.Leave()
}

// offer sends a whole-keyspace assignment and reads no ack; of an endpoint that
// is "" the metadata alone, of "bad" one without a usable slice.
func offer(p peer, generation int64, endpoint string) {
	parts := part{"", noEnd, []int32{0}}
	if endpoint == "bad" {
		parts.owners[0] = 7
	}
	if endpoint != "" {
		_ = p.Send(chunkOf([]string{endpoint}, parts))
	}
	_ = p.Send(metadataOf(generation))
}

// reading is a script that sends while it reads acks, as a service does.
func reading(send func(p peer)) script {
	return func(p peer, _ *wire.InitialClientConfig) error {
		sent := make(chan struct{})
		go func() { // ends at the latest with the stream, on which sends then fail
			defer close(sent)
			send(p)
		}()
		err := hold(p)
		<-sent
		return err
	}
}

type offered struct {
	generation int64
	endpoint   string
}

// inBothRevisions runs a test in a bubble of virtual time.
func inBothRevisions(t *testing.T, test func(t *testing.T, revision Revision)) {
	for _, revision := range []Revision{Revision202608, Revision202610} {
		t.Run(revision.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, revision) })
		})
	}
}

// of what comes whole while a build waits or runs only the newest is
// built. Each has its ack, in order, and being overtaken is no fault.
func TestA24SupersededAssignments(t *testing.T) {
	tests := []struct {
		name string
		// runs are complete, and the first of them is being built, when the others come.
		runs, waits []offered
		acks        []string
		texts       []string // parts of the acks' texts
		inForce     []int64  // what was put in force, in order
		status      Status
	}{
		{
			name:    "all wait",
			waits:   []offered{{1, "a"}, {2, "b"}, {3, "c"}, {7, "d"}},
			acks:    []string{"1 false true", "2 false true", "3 false true", "7 true false"},
			texts:   []string{"by generation 2 before", "by generation 3", "by generation 7", ""},
			inForce: []int64{7},
			status:  Status{Accepted: 1, Superseded: 3},
		},
		{
			name:    "one runs",
			runs:    []offered{{1, "a"}},
			waits:   []offered{{2, "b"}, {3, "c"}, {4, "d"}},
			acks:    []string{"1 true false", "2 false true", "3 false true", "4 true false"},
			texts:   []string{"", "by generation 3", "by generation 4", ""},
			inForce: []int64{1, 4},
			status:  Status{Accepted: 2, Superseded: 2},
		},
		{
			name:    "older ones among them",
			waits:   []offered{{7, "a"}, {5, "b"}, {7, "c"}, {0, "d"}, {8, "e"}, {6, "f"}, {8, "g"}, {-1, "h"}},
			acks:    []string{"7 false true", "5 false true", "7 false true", "0 false true", "8 true false", "6 false true", "8 false true", "-1 false true"},
			texts:   []string{"by generation 8", "by generation 7", "by generation 7", "not positive", "", "not newer than 8", "not newer than 8", "not positive"},
			inForce: []int64{8},
			status:  Status{Accepted: 1, Superseded: 3, Stale: 4},
		},
		{
			name:    "older than the one that runs",
			runs:    []offered{{9, "a"}},
			waits:   []offered{{5, "b"}, {9, "c"}},
			acks:    []string{"9 true false", "5 false true", "9 false true"},
			texts:   []string{"", "not newer than 9", "not newer than 9"},
			inForce: []int64{9},
			status:  Status{Accepted: 1, Stale: 2},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBothRevisions(t, func(t *testing.T, revision Revision) {
				more := make(chan struct{})
				svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
					for _, o := range tt.runs {
						offer(p, o.generation, o.endpoint)
					}
					<-more
					for _, o := range tt.waits {
						offer(p, o.generation, o.endpoint)
					}
					return hold(p)
				})
				d := newDoors()
				var w *Watcher
				var inForce []int64 // of the builder
				w = NewWatcher(Options{Gate: d}, func() {
					if s := w.State(); s.Phase == Assigned {
						inForce = append(inForce, s.Assignment.Generation)
					} else if s.Phase == Failed {
						t.Errorf("failed: %v", s.Err)
					}
				})
				defer w.Close()
				w.Configure(with(func(c *Config) { c.Revision = revision }), newMemory(svc).provider())
				if len(tt.runs) > 0 {
					close(d.in)
				}
				synctest.Wait()
				close(more)
				synctest.Wait()
				if got := svc.ackList(); len(got) > 0 || w.State().Phase != Waiting {
					t.Fatalf("acks %q before any build is over", got)
				}
				if len(tt.runs) == 0 {
					close(d.in)
				}
				close(d.out)
				synctest.Wait()
				wantAcks(t, svc, tt.acks...)
				for i, text := range svc.ackTexts() {
					if !strings.Contains(text, tt.texts[i]) {
						t.Errorf("ack %d says %q, want %q in it", i, text, tt.texts[i])
					}
				}
				if !slices.Equal(inForce, tt.inForce) || d.entered.Load() != int64(len(tt.inForce)) || d.firsts.Load() != 1 {
					t.Errorf("in force were %v after %d builds, %d of them first; want %v", inForce, d.entered.Load(), d.firsts.Load(), tt.inForce)
				}
				if s := w.Status(); s.Accepted != tt.status.Accepted || s.Superseded != tt.status.Superseded || s.Stale != tt.status.Stale || s.Invalid != 0 || s.StreamsOpened != 1 || !s.StreamConnected {
					t.Errorf("status %+v, want %+v", s, tt.status)
				}
				if s := w.Status(); s.LastError != "" && tt.status.Stale == 0 {
					t.Errorf("an error is reported: %s", s.LastError)
				}
			})
		})
	}
}

// What is not usable supersedes nothing that it need not: a metadata alone never,
// and an older generation is built after a newer one that was refused.
func TestSupersededByNothing(t *testing.T) {
	t.Run("metadata alone", func(t *testing.T) {
		inBothRevisions(t, func(t *testing.T, revision Revision) {
			svc := newService(func(p peer, first *wire.InitialClientConfig) error {
				if first.LatestGeneration == 0 {
					offer(p, 5, "x")
					offer(p, 6, "")
				}
				return hold(p)
			})
			d := newDoors()
			close(d.out)
			w := NewWatcher(Options{Gate: d}, nil)
			defer w.Close()
			w.Configure(with(func(c *Config) { c.Revision = revision }), newMemory(svc).provider())
			synctest.Wait()
			close(d.in)
			time.Sleep(time.Minute)
			wantAcks(t, svc, "5 true false", "6 false true")
			if s := w.Status(); s.Generation != 5 || s.Invalid != 1 || s.Superseded != 0 || (s.StreamsOpened == 2) != (revision == Revision202608) {
				t.Errorf("status %+v", s)
			}
			if svc.last().LatestGeneration == 0 && revision == Revision202608 {
				t.Error("the second stream announces nothing")
			}
		})
	})
	t.Run("metadata alone, overtaken itself", func(t *testing.T) {
		inBothRevisions(t, func(t *testing.T, revision Revision) {
			svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
				offer(p, 5, "x")
				offer(p, 6, "")
				offer(p, 7, "y")
				return hold(p)
			})
			d := newDoors()
			close(d.out)
			w := NewWatcher(Options{Gate: d}, nil)
			defer w.Close()
			w.Configure(with(func(c *Config) { c.Revision = revision }), newMemory(svc).provider())
			synctest.Wait()
			close(d.in)
			time.Sleep(time.Minute)
			wantAcks(t, svc, "5 false true", "6 false true", "7 true false")
			if s := w.Status(); s.Invalid != 0 || s.StreamsOpened != 1 {
				t.Errorf("status %+v", s)
			}
		})
	})
	// 2026-08 ends the stream with the refusal, and what comes after it is never
	// decided on; the service has it sent again by what the next stream announces.
	t.Run("a refused one", func(t *testing.T) {
		inBothRevisions(t, func(t *testing.T, revision Revision) {
			more := make(chan struct{})
			svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
				offer(p, 1, "x")
				<-more
				offer(p, 9, "bad")
				<-more
				offer(p, 5, "y")
				return hold(p)
			})
			d := newDoors()
			close(d.in)
			w := NewWatcher(Options{Gate: d}, nil)
			defer w.Close()
			w.Configure(with(func(c *Config) { c.Revision = revision }), newMemory(svc).provider())
			d.out <- struct{}{} // of 1
			more <- struct{}{}
			synctest.Wait() // 9 is being built
			svc.play(silence)
			close(more)
			synctest.Wait()
			close(d.out)
			time.Sleep(time.Minute)
			want := []string{"1 true false", "9 false true"}
			if revision == Revision202610 {
				want = append(want, "5 true false")
			}
			wantAcks(t, svc, want...)
			if revision == Revision202608 && (svc.streams() != 2 || svc.last().LatestGeneration != 1 || owner(w, "k") != "x") {
				t.Errorf("%d streams, the last announces %d", svc.streams(), svc.last().LatestGeneration)
			}
		})
	})
}

// 2026-08: nothing that comes after a refused assignment ends the stream before
// the ack can have gone out.
func TestRefusalOutlivesGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lived atomic.Int64
		svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
			_ = giveParts(p, 1, nil, part{"b", noEnd, nil})
			began := time.Now()
			for range 3 * maxUndecided {
				offer(p, 2, "x")
			}
			p.(*notingPeer).peer.(*memoryPeer).down <- []byte{0x12, 0xff}
			<-p.Context().Done()
			lived.Store(int64(time.Since(began)))
			return p.Context().Err()
		})
		w := NewWatcher(Options{}, nil)
		w.Configure(cfg, newMemory(svc).provider())
		time.Sleep(lingerTime + time.Millisecond)
		w.Close()
		synctest.Wait()
		if got := time.Duration(lived.Load()); got != lingerTime {
			t.Errorf("the stream lived %v after the ack, want %v", got, lingerTime)
		}
		wantText(t, errors.New(w.Status().LastError), "gap(s) in the keyspace")
		wantAcks(t, svc, "1 false true")
	})
}

// A refusal outranks the way in which its stream happened to end.
func TestStreamBreaksWithRefusalPending(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, revision Revision) {
		svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
			offer(p, 1, "bad")
			return status.Error(codes.Unavailable, "broken")
		})
		d := newDoors()
		close(d.out)
		w := NewWatcher(Options{Gate: d}, nil)
		defer w.Close()
		w.Configure(with(func(c *Config) { c.Revision = revision }), newMemory(svc).provider())
		synctest.Wait()
		close(d.in)
		synctest.Wait()
		want := map[Revision]string{Revision202608: "endpoint index", Revision202610: "broken"}[revision]
		if s := w.Status(); s.Invalid != 1 || !strings.Contains(s.LastError, want) {
			t.Errorf("status %+v, want the error to say %q", s, want)
		}
	})
}

// AP-04, A-16: a stream breaks while its assignments wait. What came whole is put
// in force and announced, though nobody can be told; the chunks after it are gone.
func TestAP04StreamBreaksWithPendingBuild(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, revision Revision) {
		svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
			offer(p, 3, "x")
			offer(p, 4, "y")
			_ = p.Send(chunkOf([]string{"dead"}, part{"", "m", []int32{0}}))
			return status.Error(codes.Unavailable, "broken")
		})
		d := newDoors()
		close(d.out)
		var w *Watcher
		w = NewWatcher(Options{Gate: d}, func() {
			if s := w.State(); s.Phase == Failed {
				t.Errorf("failed: %v", s.Err)
			}
		})
		defer w.Close()
		w.Configure(with(func(c *Config) { c.Revision = revision }), newMemory(svc).provider())
		time.Sleep(10 * time.Second)
		svc.play(silence)
		if svc.streams() != 1 {
			t.Fatalf("%d streams before it is known what to announce", svc.streams())
		}
		close(d.in)
		time.Sleep(10 * time.Second)
		if got := owner(w, "k"); got != "y" || d.entered.Load() != 1 {
			t.Errorf("owner %q after %d builds, want y after one", got, d.entered.Load())
		}
		if svc.streams() != 2 || svc.last().LatestGeneration != 4 {
			t.Errorf("%d streams, the last announces %d, want 4", svc.streams(), svc.last().LatestGeneration)
		}
		wantAcks(t, svc)
		if s := w.Status(); s.Accepted != 1 || s.Superseded != 1 || s.Invalid != 0 || !strings.Contains(s.LastError, "broken") {
			t.Errorf("status %+v", s)
		}
	})
}
