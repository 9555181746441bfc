package assignment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

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
				if got := svc.ackList(); len(got) > 0 && len(tt.runs) > 0 || w.State().Phase != Waiting {
					t.Fatalf("acks %q before any build is over", got) // those that only wait may have theirs
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

// EC-06: 200 whole assignments a second, each of which takes as long to build as
// ten to come. All are answered in order, few are built, something new comes into
// force all the time, and the last one does.
func TestEC06BurstEndsOnTheLast(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, revision Revision) {
		const updates, apart, build = 1000, 5 * time.Millisecond, 50 * time.Millisecond
		svc := newService(reading(func(p peer) {
			for g := range int64(updates) {
				offer(p, g+1, fmt.Sprint("owner-", g+1))
				time.Sleep(apart)
			}
		}))
		d := &slow{gate: make(gate, 1), build: build}
		var mu sync.Mutex
		var last time.Time
		var longest time.Duration
		w := NewWatcher(Options{Gate: d}, func() {
			mu.Lock()
			defer mu.Unlock()
			if !last.IsZero() {
				longest = max(longest, time.Since(last))
			}
			last = time.Now()
		})
		defer w.Close()
		w.Configure(with(func(c *Config) { c.Revision = revision }), newMemory(svc).provider())
		time.Sleep(updates*apart + 2*build)
		if got := owner(w, "k"); got != fmt.Sprint("owner-", updates) {
			t.Errorf("%q is in force, want the last", got)
		}
		s := w.Status()
		if s.Accepted != d.builds.Load() || s.Accepted < 95 || s.Accepted > 105 || s.Accepted+s.Superseded != updates || s.StreamsOpened != 1 {
			t.Errorf("%d builds of %d updates; status %+v", d.builds.Load(), updates, s)
		}
		if longest > build+apart {
			t.Errorf("nothing new for %v, a build takes %v", longest, build)
		}
		acks := svc.ackList()
		if len(acks) != updates {
			t.Fatalf("%d acks, want %d", len(acks), updates)
		}
		for g, ack := range acks {
			if !strings.HasPrefix(ack, fmt.Sprint(g+1, " ")) {
				t.Fatalf("ack %d is %q", g+1, ack)
			}
		}
	})
}

// slow is a Gate that makes a build take a while.
type slow struct {
	gate
	build  time.Duration
	builds atomic.Int64
}

func (s *slow) Leave() {
	time.Sleep(s.build)
	s.builds.Add(1)
	s.gate.Leave()
}

// The same over real gRPC, as fast as the service can.
func TestEC06LoopbackBurst(t *testing.T) {
	const updates = 300
	var chunks []*wire.WatchShardingAssignmentResponse
	for _, frame := range even(t, 2000, 1000, 16) {
		m := &wire.WatchShardingAssignmentResponse{}
		if err := proto.Unmarshal(frame, m); err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, m)
	}
	svc := newService(reading(func(p peer) {
		for g := range int64(updates) {
			for _, c := range chunks {
				_ = p.Send(c)
			}
			_ = p.Send(metadataOf(g + 1))
		}
	}))
	w := NewWatcher(quick(), nil)
	defer w.Close()
	w.Configure(cfg, dialing(svc.listen(t)))
	eventually(t, "the last is in force", func() bool { return w.Status().Generation == updates })
	eventually(t, "all are acked", func() bool { return len(svc.ackList()) == updates })
	for g, ack := range svc.ackList() {
		if !strings.HasPrefix(ack, fmt.Sprint(g+1, " ")) {
			t.Fatalf("ack %d is %q", g+1, ack)
		}
	}
	if s := w.Status(); s.Accepted+s.Superseded != updates || s.StreamsOpened != 1 || s.LastError != "" {
		t.Errorf("status %+v", s)
	}
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

// P-14: closing and replacing interrupt a build, and give its turn back.
func TestA24CloseDuringBuild(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	n := 300_000
	if testing.Short() {
		n = 50_000
	}
	frames := shuffle(t, even(t, n, 10_000, 16))
	asm := gathered(t, frames)
	began := time.Now()
	if a, message := asm.build(t.Context(), 1, Revision202608); a == nil {
		t.Fatal(message)
	}
	whole := time.Since(began)

	for name, end := range map[string]func(*Watcher, Provider){
		"close": func(w *Watcher, _ Provider) { w.Close() },
		"replace": func(w *Watcher, p Provider) {
			w.Configure(with(func(c *Config) { c.Target = "target-two" }), p)
		},
	} {
		t.Run(name, func(t *testing.T) {
			quickest := time.Hour
			for range 3 {
				svc := newService(func(p peer, first *wire.InitialClientConfig) error {
					if first.Target != cfg.Target {
						return hold(p)
					}
					down := p.(*notingPeer).peer.(*memoryPeer).down
					for _, f := range frames {
						down <- f
					}
					down <- marshal(t, metadataOf(1))
					return hold(p)
				})
				g := &noted{gate: make(gate, 1), entered: make(chan struct{}), left: make(chan struct{})}
				w := NewWatcher(Options{Gate: g}, nil)
				m := newMemory(svc)
				w.Configure(cfg, m.provider())
				<-g.entered
				began := time.Now()
				end(w, m.provider())
				<-g.left
				quickest = min(quickest, time.Since(began))
				if s := w.Status(); s.Accepted != 0 || s.Invalid != 0 || s.LastError != "" {
					t.Errorf("status %+v, want nothing decided", s)
				}
				w.Close()
				if acks := svc.ackList(); len(acks) > 0 {
					t.Errorf("acks %q", acks)
				}
			}
			t.Logf("a build of %v ended %v after its end was asked for", whole, quickest)
			if quickest > whole/4 {
				t.Errorf("it took %v to interrupt a build of %v", quickest, whole)
			}
		})
	}
}

// noted is a Gate that tells of one build.
type noted struct {
	gate
	entered, left chan struct{}
}

func (n *noted) Enter(ctx context.Context, first bool) error {
	err := n.gate.Enter(ctx, first)
	close(n.entered)
	return err
}

func (n *noted) Leave() {
	n.gate.Leave()
	close(n.left)
}
