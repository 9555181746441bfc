package assignment

import (
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

var cfg = Config{ChannelKey: "key-one", Target: "target-one", InitialTimeout: time.Minute}

func with(change func(*Config)) Config {
	c := cfg
	change(&c)
	return c
}

func october(c *Config) { c.Revision = Revision202610 }

func wantPhase(t *testing.T, w *Watcher, want Phase) *State {
	t.Helper()
	s := w.State()
	if s.Phase != want {
		t.Fatalf("phase %v (%v), want %v", s.Phase, s.Err, want)
	}
	return s
}

func wantText(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func wantAcks(t *testing.T, s *service, want ...string) {
	t.Helper()
	if got := s.ackList(); !slices.Equal(got, want) {
		t.Errorf("acks %q, want %q", got, want)
	}
}

// AP-01: stale generations are refused and leave nothing behind.
func TestStaleGeneration(t *testing.T) {
	for _, revision := range []Revision{Revision202608, Revision202610} {
		synctest.Test(t, func(t *testing.T) {
			next := make(chan struct{})
			svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
				for _, g := range []struct {
					generation int64
					endpoint   string
				}{{7, "old"}, {7, "x"}, {5, "x"}, {8, "y"}} {
					if err := give(p, g.generation, g.endpoint); err != nil {
						return err
					}
					<-next
				}
				return hold(p)
			})
			w := NewWatcher(Options{}, nil)
			defer w.Close()
			w.Configure(with(func(c *Config) { c.Revision = revision }), newMemory(svc).provider())
			for _, want := range []string{"old", "old", "old"} {
				synctest.Wait()
				if got := owner(w, "k"); got != want {
					t.Errorf("%v: owner %q, want %q", revision, got, want)
				}
				next <- struct{}{}
			}
			synctest.Wait()
			if got := w.State().Assignment.Endpoints; !slices.Equal(got, []string{"y"}) {
				t.Errorf("%v: endpoints %q, want only y", revision, got)
			}
			close(next)
			wantAcks(t, svc, "7 true false", "7 false true", "5 false true", "8 true false")
			if s := w.Status(); s.Stale != 2 || s.Accepted != 2 || s.StreamsOpened != 1 || s.Generation != 8 {
				t.Errorf("status %+v", s)
			}
		})
	}
}

// AP-04, A-19, A-33: a reconnecting client announces the last accepted
// generation and the same UUID.
func TestReconnectAnnouncesLastAccepted(t *testing.T) {
	for _, revision := range []Revision{Revision202608, Revision202610} {
		synctest.Test(t, func(t *testing.T) {
			svc := newService(func(p peer, first *wire.InitialClientConfig) error {
				if first.LatestGeneration == 0 {
					if err := give(p, 1, "x"); err != nil {
						return err
					}
					if err := giveParts(p, 2, nil, part{"", noEnd, []int32{5}}); err != nil {
						return err
					}
					return status.Error(codes.Unavailable, "broken")
				}
				return hold(p)
			})
			w := NewWatcher(Options{}, nil)
			defer w.Close()
			w.Configure(with(func(c *Config) { c.Revision = revision }), newMemory(svc).provider())
			time.Sleep(10 * time.Second)
			if svc.streams() != 2 {
				t.Fatalf("%d streams, want 2", svc.streams())
			}
			if first := svc.last(); first.LatestGeneration != 1 || first.ClientUuid != svc.firsts[0].ClientUuid || first.ClientUuid == "" || first.Target != cfg.Target {
				t.Errorf("second stream begins with %v after %v", first, svc.firsts[0])
			}
			wantAcks(t, svc, "1 true false", "2 false true")
			if got := owner(w, "k"); got != "x" {
				t.Errorf("owner %q, want x", got)
			}
		})
	}
}

// AP-07 and spec a119: a stream error before the first assignment ends the wait
// at once in 2026-10, and does not in 2026-08. Later assignments heal.
func TestStreamErrorBeforeFirstAssignment(t *testing.T) {
	fail := func(p peer, _ *wire.InitialClientConfig) error {
		time.Sleep(100 * time.Millisecond)
		return status.Error(codes.Unavailable, "on fire")
	}
	bad := func(p peer, _ *wire.InitialClientConfig) error {
		if err := giveParts(p, 1, nil, part{"", noEnd, []int32{0}}); err != nil {
			return err
		}
		return hold(p)
	}
	empty := func(p peer, _ *wire.InitialClientConfig) error {
		if err := p.Send(metadataOf(1)); err != nil {
			return err
		}
		return hold(p)
	}
	tests := []struct {
		name, cause string
		script      script
	}{{"stream fails", "on fire", fail}, {"no usable slice", "endpoint index", bad}, {"metadata without chunk", "without any chunk", empty}}
	for _, tt := range tests {
		for revision, early := range map[Revision]Phase{Revision202608: Waiting, Revision202610: Failed} {
			t.Run(tt.name+"/"+revision.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					svc := newService(tt.script)
					w := NewWatcher(Options{}, nil)
					defer w.Close()
					w.Configure(with(func(c *Config) { c.Revision = revision }), newMemory(svc).provider())
					time.Sleep(time.Second)
					s := wantPhase(t, w, early)
					if early == Failed {
						wantText(t, s.Err, tt.cause, `"key-one"`, `"target-one"`)
					}
					time.Sleep(time.Minute)
					s = wantPhase(t, w, Failed)
					wantText(t, s.Err, tt.cause, `"key-one"`, `"target-one"`)
					if early == Waiting {
						wantText(t, s.Err, "1m0s")
					}
					svc.play(giveAndHold(9, "healed"))
					if revision == Revision202610 && tt.name != "stream fails" {
						return // the stream stays as it is
					}
					time.Sleep(2 * time.Minute)
					wantPhase(t, w, Assigned)
				})
			})
		}
	}
}

// AP-08, A-13: with no service to connect to only the timer decides, and an
// assignment that comes after it is in force.
func TestUnreachableService(t *testing.T) {
	for _, revision := range []Revision{Revision202608, Revision202610} {
		synctest.Test(t, func(t *testing.T) {
			svc := newService(giveAndHold(1, "x"))
			m := newMemory(svc)
			m.ready = make(chan struct{})
			var changes atomic.Int32
			w := NewWatcher(Options{}, func() { changes.Add(1) })
			defer w.Close()
			w.Configure(Config{ChannelKey: "key-one", Target: "target-one", Revision: revision}, m.provider())
			wantPhase(t, w, Waiting) // before Configure returned
			synctest.Wait()
			wantPhase(t, w, Waiting)
			if changes.Load() != 1 {
				t.Errorf("onChange was called %d times for waiting", changes.Load())
			}
			time.Sleep(59 * time.Second)
			wantPhase(t, w, Waiting)
			time.Sleep(2 * time.Second)
			s := wantPhase(t, w, Failed)
			wantText(t, s.Err, "1m0s", `"key-one"`, `"target-one"`, "no stream could be opened")
			close(m.ready)
			synctest.Wait()
			wantPhase(t, w, Assigned)
		})
	}
}

// AP-11, A-15, A-34: with an assignment in force nothing that the service does
// changes it, except a better one.
func TestLastGoodAssignmentStays(t *testing.T) {
	for _, revision := range []Revision{Revision202608, Revision202610} {
		t.Run(revision.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				svc := newService(giveAndHold(4, "x"))
				m := newMemory(svc)
				var bad atomic.Bool
				var w *Watcher
				w = NewWatcher(Options{RefreshInterval: 10 * time.Second}, func() {
					if owner(w, "k") == "" && w.State().Phase != Waiting {
						bad.Store(true)
					}
				})
				defer w.Close()
				w.Configure(with(func(c *Config) { c.Revision = revision }), m.provider())
				synctest.Wait()
				misdeeds := []script{
					func(peer, *wire.InitialClientConfig) error { return status.Error(codes.Unavailable, "down") },
					func(p peer, _ *wire.InitialClientConfig) error { _ = p.Send(metadataOf(9)); return hold(p) },
					func(p peer, _ *wire.InitialClientConfig) error {
						_ = giveParts(p, 10, nil, part{"b", "a", nil}, part{"", noEnd, []int32{-1}})
						return hold(p)
					},
					func(p peer, _ *wire.InitialClientConfig) error {
						_ = p.Send(chunkOf([]string{string([]byte("z"))}, part{"", noEnd, []int32{0}}))
						return hold(p) // never any metadata
					},
				}
				for i, s := range misdeeds {
					svc.play(s)
					time.Sleep(5 * time.Minute)
					if got := owner(w, "k"); got != "x" || bad.Load() {
						t.Fatalf("misdeed %d: owner %q, want x", i, got)
					}
				}
				svc.play(func(p peer, _ *wire.InitialClientConfig) error {
					_ = p.Send(chunkOf([]string{"y"}))
					_ = p.Send(loadConfigOf())
					_ = p.Send(&wire.WatchShardingAssignmentResponse{})
					_ = p.Send(chunkOf(nil, part{"", "m", []int32{0}}))
					_ = p.Send(loadConfigOf())
					_ = p.Send(chunkOf(nil, part{"m", noEnd, []int32{0}}))
					_ = p.Send(metadataOf(20))
					return hold(p)
				})
				time.Sleep(5 * time.Minute)
				if got := owner(w, "k"); got != "y" {
					t.Errorf("owner %q, want y", got)
				}
			})
		})
	}
}

// chunks of a stream that broke never meet those of the next.
func TestChunksOfDeadStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
			_ = p.Send(chunkOf([]string{"dead"}, part{"", "m", []int32{0}}))
			return status.Error(codes.Unavailable, "broken")
		})
		w := NewWatcher(Options{}, nil)
		defer w.Close()
		w.Configure(cfg, newMemory(svc).provider())
		synctest.Wait()
		svc.play(giveAndHold(1, "alive"))
		time.Sleep(10 * time.Second)
		if s := wantPhase(t, w, Assigned); !slices.Equal(s.Assignment.Endpoints, []string{"alive"}) || s.Assignment.Slices() != 1 {
			t.Errorf("endpoints %q in %d slices", s.Assignment.Endpoints, s.Assignment.Slices())
		}
		if s := w.Status(); s.Invalid != 0 || s.StreamsOpened != 2 {
			t.Errorf("status %+v, want the second stream to be good at once", s)
		}
	})
}

// what a service may make us buffer is bounded, and the error says how.
func TestBoundOnBufferedBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
			for {
				if err := p.Send(chunkOf(nil, part{strings.Repeat("k", 100), noEnd, nil})); err != nil {
					return err
				}
				sent.Add(1)
			}
		})
		w := NewWatcher(Options{MaxAssignmentBytes: 50_000}, nil)
		defer w.Close()
		w.Configure(with(october), newMemory(svc).provider())
		time.Sleep(10 * time.Second)
		s := wantPhase(t, w, Failed)
		wantText(t, s.Err, "50000", "MaxAssignmentBytes")
		if n := svc.streams(); n < 2 || n > 6 {
			t.Errorf("%d streams in 10 s, want them spaced by backoff", n)
		}
		if n := sent.Load(); n > int64(svc.streams())*1500 {
			t.Errorf("%d chunks were taken on %d streams", n, svc.streams())
		}
	})
}

// Garbage on the wire ends the stream, with backoff.
func TestGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
			p.(*notingPeer).peer.(*memoryPeer).down <- []byte{0x12, 0xff}
			return hold(p)
		})
		w := NewWatcher(Options{}, nil)
		defer w.Close()
		w.Configure(with(october), newMemory(svc).provider())
		time.Sleep(10 * time.Second)
		s := wantPhase(t, w, Failed)
		wantText(t, s.Err, "not valid protobuf")
		if !errors.Is(s.Err, errWire) {
			t.Error("the cause is not wrapped")
		}
		if n := svc.streams(); n < 2 || n > 6 {
			t.Errorf("%d streams in 10 s, want them spaced by backoff", n)
		}
	})
}

// 2026-08: an invalid assignment is refused with an ack, the stream ended and
// opened again; the last good one stays. 2026-10: the rest is put in force.
func TestInvalidAssignment(t *testing.T) {
	parts := []part{{"", "m", []int32{0}}, {"n", noEnd, []int32{0}}}
	for revision, want := range map[Revision]struct {
		ack     string
		streams int
		slices  int
	}{
		Revision202608: {"2 false true", 2, 1},
		Revision202610: {"2 true true", 1, 3},
	} {
		t.Run(revision.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				svc := newService(func(p peer, first *wire.InitialClientConfig) error {
					if first.LatestGeneration == 0 {
						_ = give(p, 1, "x")
						_ = giveParts(p, 2, []string{"y"}, parts...)
					}
					return hold(p)
				})
				w := NewWatcher(Options{}, nil)
				defer w.Close()
				w.Configure(with(func(c *Config) { c.Revision = revision }), newMemory(svc).provider())
				time.Sleep(time.Minute)
				wantAcks(t, svc, "1 true false", want.ack)
				if n := svc.streams(); n != want.streams {
					t.Errorf("%d streams, want %d", n, want.streams)
				}
				a := wantPhase(t, w, Assigned).Assignment
				if a.Slices() != want.slices {
					t.Errorf("%d slices, want %d", a.Slices(), want.slices)
				}
				if revision == Revision202610 && a.Kind(a.Index.Find("mm")) != Gap {
					t.Error("the gap is no slice of Kind Gap")
				}
			})
		})
	}
}
