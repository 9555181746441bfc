package assignment

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/internal/wire"
)

// Status: staleness grows in an outage, also in one where every stream is
// opened and ended at once, and falls after it (AP-11, A-15).
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(giveAndHold(3, "x"))
		m := newMemory(svc)
		w := NewWatcher(Options{ClientUUID: "the-uuid"}, nil)
		defer w.Close()
		if s := w.Status(); s.Phase != Unconfigured || s.StaleFor != 0 {
			t.Errorf("status %+v before the first Configure", s)
		}
		w.Configure(cfg, m.provider())
		time.Sleep(time.Minute)
		s := w.Status()
		if s.Phase != Assigned || s.ChannelKey != cfg.ChannelKey || s.Target != cfg.Target || s.ClientUUID != "the-uuid" ||
			s.Generation != 3 || s.Slices != 1 || s.Endpoints != 1 || s.Bytes <= 0 || time.Since(s.ReceivedAt) != time.Minute || s.Age != time.Minute ||
			!s.StreamConnected || time.Since(s.StreamSince) != time.Minute || s.StaleFor != 0 || s.StreamsOpened != 1 || s.Accepted != 1 {
			t.Errorf("status %+v", s)
		}
		if a := s.LastAck; !a.Accepted || a.Generation != 3 || time.Since(a.At) != time.Minute || s.LastRefusal != (Ack{}) || time.Since(s.MessageAt) != time.Minute {
			t.Errorf("acks and messages: %+v", s)
		}
		svc.play(func(peer, *wire.InitialClientConfig) error { return status.Error(codes.Unavailable, "down") })
		m.breakStreams()
		time.Sleep(10 * time.Minute)
		if s := w.Status(); s.StaleFor < 9*time.Minute || s.StreamConnected || s.LastError == "" || s.Phase != Assigned {
			t.Errorf("status in the outage %+v", s)
		}
		svc.play(func(p peer, _ *wire.InitialClientConfig) error {
			_ = give(p, 3, "x")
			return hold(p)
		})
		time.Sleep(5 * time.Minute)
		if s := w.Status(); s.StaleFor != 0 || !s.StreamConnected {
			t.Errorf("status after the outage %+v", s)
		} else if a := s.LastRefusal; a != s.LastAck || a.Accepted || a.Generation != 3 || !strings.Contains(a.Message, "not newer") || !s.MessageAt.Equal(a.At) {
			t.Errorf("the generation that was there already was refused by %+v, last message at %v", a, s.MessageAt)
		}
	})
}

// Keys are personal data: none in acks, logs, errors or the status.
func TestNoKeyIsSaid(t *testing.T) {
	for _, revision := range []Revision{Revision202608, Revision202610} {
		synctest.Test(t, func(t *testing.T) {
			svc := newService(func(p peer, first *wire.InitialClientConfig) error {
				g := first.LatestGeneration
				_ = giveParts(p, g+1, []string{"x"}, part{"secret-b", "secret-a", []int32{0}}, part{"secret-c", "secret-d", []int32{7}})
				_ = giveParts(p, g+2, []string{"x"}, part{"secret-b", "secret-d", []int32{0}}, part{"secret-c", noEnd, []int32{0}}, part{"secret-a", "secret-b", nil})
				return hold(p)
			})
			var log strings.Builder
			w := NewWatcher(Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}, nil)
			w.Configure(with(func(c *Config) { c.Revision = revision }), newMemory(svc).provider())
			time.Sleep(2 * time.Minute)
			w.Close()
			said := log.String() + strings.Join(svc.ackTexts(), "\n") + w.Status().LastError
			if err := w.State().Err; err != nil {
				said += err.Error()
			}
			if len(svc.ackTexts()) == 0 || !strings.Contains(log.String(), "assignment refused") {
				t.Errorf("%v: nothing was said", revision)
			}
			if strings.Contains(said, "secret") {
				t.Errorf("%v: a key is said: %s", revision, said)
			}
		})
	}
}

// AP-09: a silent stream is replaced by exactly one that announces what is held.
func TestRefreshOfSilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int32
		svc := newService(func(p peer, first *wire.InitialClientConfig) error {
			defer ended.Add(1)
			return giveAndHold(11, "x")(p, first)
		})
		m := newMemory(svc)
		var failed atomic.Bool
		var w *Watcher
		w = NewWatcher(Options{RefreshInterval: time.Minute}, func() {
			failed.Store(failed.Load() || w.State().Phase == Failed)
		})
		defer w.Close()
		w.Configure(cfg, m.provider())
		synctest.Wait()
		wantPhase(t, w, Assigned)
		svc.play(giveAndHold(12, "y"))
		time.Sleep(53 * time.Second)
		if svc.streams() != 1 {
			t.Fatal("the stream was replaced too early")
		}
		time.Sleep(14 * time.Second)
		if svc.streams() != 2 || ended.Load() != 1 {
			t.Fatalf("%d streams, %d ended; want one replacement", svc.streams(), ended.Load())
		}
		if g := svc.last().LatestGeneration; g != 11 {
			t.Errorf("the new stream announces %d, want 11", g)
		}
		if got := owner(w, "k"); got != "y" {
			t.Errorf("owner %q, want y", got)
		}
		if s := w.Status(); s.LastError != "" || failed.Load() {
			t.Errorf("a refresh counts as a failure: %q", s.LastError)
		}
		for range 20 { // and silence goes on being no failure
			time.Sleep(time.Minute)
		}
		if n := svc.streams(); n < 18 || n > 26 {
			t.Errorf("%d streams in 21 minutes, want about one a minute", n)
		}
	})
}

// AP-09: any message, also one that is ignored, is a sign of life.
func TestNoRefreshOfLivelyStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
			for {
				if err := p.Send(loadConfigOf()); err != nil {
					return err
				}
				select {
				case <-time.After(50 * time.Second):
				case <-p.Context().Done():
				}
			}
		})
		w := NewWatcher(Options{RefreshInterval: time.Minute}, nil)
		defer w.Close()
		w.Configure(cfg, newMemory(svc).provider())
		time.Sleep(time.Hour)
		if n := svc.streams(); n != 1 {
			t.Errorf("%d streams, want 1", n)
		}
	})
}

// 2026-08: the stream outlives the ack that refuses an assignment by a bounded
// moment, so that the ack goes out, and by less if the service ends it.
func TestRefusalLingers(t *testing.T) {
	for _, hangUp := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var lived atomic.Int64
			svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
				_ = giveParts(p, 1, nil, part{"b", noEnd, nil})
				if hangUp {
					return nil
				}
				began := time.Now()
				<-p.Context().Done()
				lived.Store(int64(time.Since(began)))
				return p.Context().Err()
			})
			w := NewWatcher(Options{}, nil)
			defer w.Close()
			w.Configure(cfg, newMemory(svc).provider())
			if hangUp {
				synctest.Wait()
			} else {
				time.Sleep(lingerTime + time.Millisecond)
			}
			if s := w.Status(); s.StreamConnected || s.Invalid != 1 {
				t.Errorf("status %+v, want the stream ended", s)
			}
			if got := time.Duration(lived.Load()); !hangUp && got != lingerTime {
				t.Errorf("the stream lived %v after the ack, want %v", got, lingerTime)
			}
		})
	}
}

// Acks to a service that never reads block the stream for a bounded time only,
// and never Close.
func TestServiceThatNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(func(p peer, first *wire.InitialClientConfig) error {
			for g := first.LatestGeneration + 1; ; g++ {
				if err := p.Send(chunkOf([]string{"x"}, part{"", noEnd, []int32{0}})); err != nil {
					return err
				}
				if err := p.Send(metadataOf(g)); err != nil {
					return err
				}
			}
		})
		m := newMemory(svc)
		m.window = 3
		w := NewWatcher(Options{}, nil)
		w.Configure(cfg, m.provider())
		synctest.Wait()
		wantPhase(t, w, Assigned)
		time.Sleep(sendTimeout + 5*time.Second)
		if n := svc.streams(); n != 2 {
			t.Errorf("%d streams, want the stuck one to be replaced", n)
		}
		wantText(t, errors.New(w.Status().LastError), "did not read")
		w.Close()
		m.check(t)
	})
}

// a service that answers and hangs up sees few streams, spread.
func TestAnswerAndHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		generation := int64(0)
		svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
			generation++
			return give(p, generation, "x")
		})
		w := NewWatcher(Options{}, nil)
		defer w.Close()
		w.Configure(cfg, newMemory(svc).provider())
		time.Sleep(10 * time.Second)
		if n := svc.streams(); n < 4 || n > 15 {
			t.Errorf("%d streams in 10 s, want 4 to 15", n)
		}
		starts := svc.startTimes()
		for i := 1; i < len(starts); i++ {
			if gap := starts[i].Sub(starts[i-1]); gap < time.Second || gap > 2*time.Second {
				t.Errorf("streams %v apart, want 1 s to 2 s", gap)
			}
		}
	})
}

// streams without a good assignment are spaced by growing backoff.
func TestBackoffGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(func(peer, *wire.InitialClientConfig) error { return status.Error(codes.Internal, "no") })
		w := NewWatcher(Options{}, nil)
		defer w.Close()
		w.Configure(cfg, newMemory(svc).provider())
		time.Sleep(3 * time.Hour)
		starts := svc.startTimes()
		want := float64(time.Second)
		for i := 1; i < 20; i++ {
			gap := float64(starts[i].Sub(starts[i-1]))
			if least := max(0.79*want, float64(time.Second)); gap < least || gap > 1.21*want {
				t.Errorf("gap %d is %v, want %v ± 20%%", i, time.Duration(gap), time.Duration(want))
			}
			want = min(want*1.6, float64(120*time.Second))
		}
	})
}

// eager is a channel that goes on giving out what has arrived after the stream was
// cancelled, as gRPC may.
type eager struct{ *memory }

func (e eager) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, o ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := e.memory.NewStream(ctx, d, method, o...)
	if err != nil {
		return nil, err
	}
	return eagerStream{s.(*memoryStream)}, nil
}

type eagerStream struct{ *memoryStream }

func (s eagerStream) RecvMsg(m any) error {
	time.Sleep(time.Millisecond) // virtual: the service gets ahead
	select {
	case b := <-s.down:
		m.(*wire.Frame).Bytes = b
		return nil
	default:
		return s.memoryStream.RecvMsg(m)
	}
}

// after a frame that is no protobuf nothing on its stream is believed, above
// all not that the chunks around it are an assignment.
func TestNothingIsBelievedAfterGarbage(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, revision Revision) {
		svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
			_ = p.Send(chunkOf([]string{"x"}, part{"", noEnd, []int32{0}}))
			p.(*notingPeer).peer.(*memoryPeer).down <- []byte{0x12, 0xff}
			_ = p.Send(metadataOf(1))
			return hold(p)
		})
		m := newMemory(svc)
		w := NewWatcher(Options{}, nil)
		defer w.Close()
		w.Configure(with(func(c *Config) { c.Revision = revision }), func(string) (grpc.ClientConnInterface, func(), error) { return eager{m}, m.release, nil })
		time.Sleep(time.Minute)
		wantAcks(t, svc)
		if s := w.Status(); s.Accepted != 0 || !strings.Contains(s.LastError, "not valid protobuf") {
			t.Errorf("status %+v", s)
		}
	})
}
