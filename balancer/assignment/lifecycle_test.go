package assignment

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/internal/wire"
)

// a result of the old client that comes after the change is nobody's, and
// the old assignment stays until the new client's first good one.
func TestLateResultOfOldClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(giveAndHold(5, "old"))
		m := newMemory(svc)
		w := NewWatcher(Options{}, nil)
		defer w.Close()
		w.Configure(cfg, m.provider())
		synctest.Wait()
		old := w.current
		svc.play(silence)
		w.Configure(with(func(c *Config) { c.Target = "target-two" }), m.provider())
		synctest.Wait()
		if w.current == old {
			t.Fatal("the client was not replaced")
		}
		w.received(old, decision{verdict: accepted, publish: &Assignment{Generation: 6}, ack: &wire.AssignmentAck{}})
		w.streamEnded(old, errors.New("late"), true)
		w.streamOpened(old)
		if g := w.State().Assignment.Generation; g != 5 {
			t.Errorf("generation %d is in force, want 5", g)
		}
		if s := w.Status(); s.LastError != "" || s.StreamsOpened != 2 || !s.StreamConnected {
			t.Errorf("status %+v counts the old client", s)
		}
		time.Sleep(time.Hour) // and past any timer
		if got := owner(w, "k"); got != "old" {
			t.Errorf("owner %q, want the old assignment", got)
		}
	})
}

// late chunks on the wire after a change of target do nothing, whatever
// the old service still sends.
func TestLateEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(func(p peer, first *wire.InitialClientConfig) error {
			if first.Target != cfg.Target {
				return giveAndHold(1, "new")(p, first)
			}
			_ = give(p, 5, "old")
			<-p.Context().Done()
			down := p.(*notingPeer).peer.(*memoryPeer).down
			down <- marshal(t, chunkOf([]string{"late"}, part{"", noEnd, []int32{0}}))
			down <- marshal(t, metadataOf(6))
			return p.Context().Err()
		})
		m := newMemory(svc)
		var late atomic.Bool
		var w *Watcher
		w = NewWatcher(Options{}, func() {
			if owner(w, "k") == "late" {
				late.Store(true)
			}
		})
		defer w.Close()
		w.Configure(cfg, m.provider())
		synctest.Wait()
		w.Configure(with(func(c *Config) { c.Target = "target-two" }), m.provider())
		synctest.Wait()
		if got := owner(w, "k"); got != "new" || late.Load() {
			t.Errorf("owner %q, late echo %v", got, late.Load())
		}
		if g := w.State().Assignment.Generation; g != 1 {
			t.Errorf("generation %d, want 1: another target counts for itself", g)
		}
	})
}

// the initial timeout starts with a new channel only, follows a changed
// setting, and spares an older assignment.
func TestInitialTimeout(t *testing.T) {
	t.Run("not with a new target", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(newService(silence))
			w := NewWatcher(Options{}, nil)
			defer w.Close()
			w.Configure(cfg, m.provider())
			time.Sleep(40 * time.Second)
			w.Configure(with(func(c *Config) { c.Target = "target-two" }), m.provider())
			time.Sleep(21 * time.Second)
			wantText(t, wantPhase(t, w, Failed).Err, "target-two", "a stream is open")
		})
	})
	t.Run("again with a new key", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &factory{service: func(string) *service { return newService(silence) }}
			w := NewWatcher(Options{}, nil)
			defer w.Close()
			w.Configure(keyed("a"), f.provide)
			time.Sleep(40 * time.Second)
			w.Configure(keyed("b"), f.provide)
			time.Sleep(59 * time.Second)
			wantPhase(t, w, Waiting)
			time.Sleep(2 * time.Second)
			wantPhase(t, w, Failed)
			w.Configure(keyed("c"), f.provide) // 2026-08: a new channel, a new wait
			synctest.Wait()
			wantPhase(t, w, Waiting)
		})
	})
	t.Run("a changed setting moves it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(newService(silence))
			w := NewWatcher(Options{}, nil)
			defer w.Close()
			w.Configure(cfg, m.provider())
			time.Sleep(10 * time.Second)
			w.Configure(with(func(c *Config) { c.InitialTimeout = 15 * time.Second }), m.provider())
			time.Sleep(4 * time.Second)
			wantPhase(t, w, Waiting)
			time.Sleep(2 * time.Second)
			wantText(t, wantPhase(t, w, Failed).Err, "15s")
		})
	})
	t.Run("spares an older assignment", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &factory{service: func(key string) *service {
				if key == "a" {
					return newService(giveAndHold(1, "x"))
				}
				return newService(silence)
			}}
			w := NewWatcher(Options{}, nil)
			defer w.Close()
			w.Configure(keyed("a"), f.provide)
			synctest.Wait()
			w.Configure(keyed("b"), f.provide)
			time.Sleep(time.Hour)
			if got := owner(w, "k"); got != "x" {
				t.Errorf("owner %q, want x", got)
			}
		})
	})
}

// A change of revision alone keeps the stream and counts from the next message.
func TestChangeOfRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan struct{})
		svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
			<-next
			_ = giveParts(p, 1, []string{"x"}, part{"b", noEnd, []int32{0}})
			return hold(p)
		})
		m := newMemory(svc)
		w := NewWatcher(Options{}, nil)
		defer w.Close()
		w.Configure(cfg, m.provider())
		synctest.Wait()
		w.Configure(with(october), m.provider())
		synctest.Wait()
		close(next)
		synctest.Wait()
		wantPhase(t, w, Assigned)
		wantAcks(t, svc, "1 true true")
		if svc.streams() != 1 {
			t.Errorf("%d streams, want 1", svc.streams())
		}
	})
}

// A-35, LL-02: Close twice, at once, early, and what comes after it.
func TestClose(t *testing.T) {
	t.Run("never configured", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := NewWatcher(Options{}, nil)
			w.Close()
			w.Close()
			w.Configure(cfg, newMemory(newService(silence)).provider())
			wantPhase(t, w, Unconfigured)
		})
	})
	t.Run("while waiting for a connection", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(newService(silence))
			m.ready = make(chan struct{})
			w := NewWatcher(Options{}, nil)
			w.Configure(cfg, m.provider())
			synctest.Wait()
			w.Close()
			m.check(t)
		})
	})
	t.Run("while waiting for backoff", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(newService(func(peer, *wire.InitialClientConfig) error { return status.Error(codes.Internal, "no") }))
			w := NewWatcher(Options{}, nil)
			w.Configure(cfg, m.provider())
			synctest.Wait()
			before := time.Now()
			w.Close()
			if time.Since(before) > 0 {
				t.Error("Close waits for a timer")
			}
			m.check(t)
		})
	})
	t.Run("with a failure published", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(newService(silence))
			var changes atomic.Int32
			w := NewWatcher(Options{}, func() { changes.Add(1) })
			w.Configure(cfg, m.provider())
			time.Sleep(2 * time.Minute)
			said, state := changes.Load(), wantPhase(t, w, Failed) // which says that a stream is open
			w.Close()
			if changes.Load() != said || w.State() != state {
				t.Error("the end of the stream is published though it is Close's doing")
			}
		})
	})
	t.Run("while the provider makes a channel", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(newService(silence))
			slow := func(string) (grpc.ClientConnInterface, func(), error) {
				time.Sleep(time.Second)
				return m, m.release, nil
			}
			w := NewWatcher(Options{}, nil)
			w.Configure(cfg, slow)
			synctest.Wait()
			w.Close()
			m.check(t)
		})
	})
	t.Run("by many at once, and use after it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			svc := newService(giveAndHold(1, "x"))
			m := newMemory(svc)
			var changes atomic.Int32
			w := NewWatcher(Options{}, func() { changes.Add(1) })
			w.Configure(cfg, m.provider())
			synctest.Wait()
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(w.Close)
				wg.Go(func() { w.Configure(with(func(c *Config) { c.Target = "late" }), m.provider()) })
				wg.Go(func() { w.Status() })
			}
			wg.Wait()
			m.check(t)
			said, state := changes.Load(), w.State()
			w.Configure(keyed("later"), m.provider())
			time.Sleep(time.Hour)
			if changes.Load() != said || w.State() != state {
				t.Error("something is published after Close")
			}
			if s := w.Status(); s.StreamConnected || s.Phase != Assigned {
				t.Errorf("status %+v after Close", s)
			}
		})
	})
}

// No onChange comes after Close has returned, with a service that never stops.
func TestNoCallbackAfterClose(t *testing.T) {
	for range 20 {
		svc := newService(func(p peer, first *wire.InitialClientConfig) error {
			for g := first.LatestGeneration + 1; ; g++ {
				if err := give(p, g, "x"); err != nil {
					return err
				}
			}
		})
		m := newMemory(svc)
		var closed, after atomic.Bool
		w := NewWatcher(Options{}, func() {
			if closed.Load() {
				after.Store(true)
			}
		})
		w.Configure(cfg, m.provider())
		eventually(t, "an assignment is in force", func() bool { return w.State().Phase == Assigned })
		w.Close()
		closed.Store(true)
		time.Sleep(time.Millisecond)
		if after.Load() {
			t.Fatal("onChange was called after Close returned")
		}
		m.check(t)
	}
}

// onChange may ask the Watcher anything but Close, and configure it.
func TestOnChangeMayConfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(newService(giveAndHold(1, "x")))
		var w *Watcher
		ready := make(chan struct{})
		w = NewWatcher(Options{}, func() {
			<-ready
			w.State()
			w.Status()
			w.Configure(with(func(c *Config) { c.Target = "other" }), m.provider())
		})
		defer w.Close()
		w.Configure(cfg, m.provider())
		close(ready)
		synctest.Wait()
		wantPhase(t, w, Assigned)
		if got := w.Status().Target; got != "other" {
			t.Errorf("target %q, want other", got)
		}
	})
}

// EC-06: a storm of changes ends on the last one.
func TestStormOfChanges(t *testing.T) {
	svc := newService(func(p peer, first *wire.InitialClientConfig) error { return giveAndHold(1, first.Target)(p, first) })
	f := &factory{service: func(string) *service { return svc }}
	w := NewWatcher(Options{}, nil)
	for i := range 300 {
		w.Configure(Config{ChannelKey: fmt.Sprint(i % 3), Target: fmt.Sprint(i % 7)}, f.provide)
	}
	w.Configure(Config{ChannelKey: "last", Target: "last"}, f.provide)
	eventually(t, "the last target is in force", func() bool { return owner(w, "k") == "last" })
	w.Close()
	for _, m := range f.made {
		m.check(t)
	}
}
