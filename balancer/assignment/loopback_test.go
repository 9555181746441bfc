package assignment

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/internal/wire"
)

// Over real gRPC: chunks in many messages, an ack, and the next generation.
func TestLoopback(t *testing.T) {
	next := make(chan struct{})
	svc := newService(func(p peer, first *wire.InitialClientConfig) error {
		for g := first.LatestGeneration + 1; g <= 3; g++ {
			_ = p.Send(chunkOf(nil, part{"m", noEnd, []int32{1}}))
			_ = p.Send(loadConfigOf())
			_ = p.Send(chunkOf([]string{"e0"}))
			_ = p.Send(chunkOf([]string{fmt.Sprint("e1-", g)}, part{"", "m", []int32{0}}))
			if err := p.Send(metadataOf(g)); err != nil {
				return err
			}
			if _, err := p.Recv(); err != nil {
				return err
			}
			<-next
		}
		return hold(p)
	})
	w := NewWatcher(Options{}, nil)
	defer w.Close()
	w.Configure(cfg, dialing(svc.listen(t)))
	for g := 1; g <= 3; g++ {
		eventually(t, "the generation is in force", func() bool { return owner(w, "z") == fmt.Sprint("e1-", g) })
		if got := owner(w, "a"); got != "e0" {
			t.Errorf("owner %q of a, want e0", got)
		}
		next <- struct{}{}
	}
	wantAcks(t, svc, "1 true false", "2 true false", "3 true false")
}

// 2026-08: the ack that refuses an assignment arrives before the stream ends,
// every time.
func TestLoopbackRefusalArrives(t *testing.T) {
	var missing atomic.Int32
	svc := newService(func(p peer, first *wire.InitialClientConfig) error {
		_ = p.Send(chunkOf([]string{"x"}, part{"b", noEnd, []int32{0}}))
		if err := p.Send(metadataOf(1)); err != nil {
			return err
		}
		m, err := p.Recv()
		if err != nil || m.GetAssignmentAck().GetAccepted() || m.GetAssignmentAck().GetErrorMessage() == "" {
			missing.Add(1)
			return err
		}
		return hold(p)
	})
	w := NewWatcher(quick(), nil)
	defer w.Close()
	w.Configure(cfg, dialing(svc.listen(t)))
	eventually(t, "ten streams were refused", func() bool { return svc.streams() > 10 })
	if n := missing.Load(); n > 0 {
		t.Errorf("%d refusals never arrived", n)
	}
	wantPhase(t, w, Waiting)
}

// quick is options with short times, for real sockets.
func quick() Options {
	o := Options{MinStreamGap: 5 * time.Millisecond}
	o.Backoff.BaseDelay, o.Backoff.MaxDelay, o.Backoff.Multiplier = 5*time.Millisecond, 20*time.Millisecond, 1.6
	return o
}

// A message over the bound ends the stream, and the error names the setting.
func TestLoopbackMessageTooLarge(t *testing.T) {
	svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
		_ = p.Send(chunkOf([]string{strings.Repeat("x", 10_000)}, part{"", noEnd, []int32{0}}))
		return hold(p)
	})
	o := quick()
	o.MaxMessageBytes = 5000
	w := NewWatcher(o, nil)
	defer w.Close()
	w.Configure(with(october), dialing(svc.listen(t)))
	eventually(t, "the watcher failed", func() bool { return w.State().Phase == Failed })
	wantText(t, w.State().Err, "5000", "MaxMessageBytes")
}

// A service that sends without end and never reads does not keep Close.
func TestLoopbackFlood(t *testing.T) {
	floods := map[string]script{
		"good generations": func(p peer, first *wire.InitialClientConfig) error {
			for g := first.LatestGeneration + 1; ; g++ {
				_ = p.Send(chunkOf([]string{"x"}, part{"", noEnd, []int32{0}}))
				if err := p.Send(metadataOf(g)); err != nil {
					return err
				}
			}
		},
		"stale generations": func(p peer, _ *wire.InitialClientConfig) error {
			for {
				if err := p.Send(metadataOf(-1)); err != nil {
					return err
				}
			}
		},
		"chunks": func(p peer, _ *wire.InitialClientConfig) error {
			for {
				if err := p.Send(chunkOf([]string{"x"}, part{"", noEnd, []int32{0}})); err != nil {
					return err
				}
			}
		},
		"invalid": func(p peer, _ *wire.InitialClientConfig) error {
			for {
				if err := p.Send(metadataOf(1)); err != nil {
					return err
				}
			}
		},
	}
	for name, flood := range floods {
		for _, revision := range []Revision{Revision202608, Revision202610} {
			t.Run(name+"/"+revision.String(), func(t *testing.T) {
				svc := newService(flood)
				w := NewWatcher(quick(), nil)
				w.Configure(with(func(c *Config) { c.Revision = revision }), dialing(svc.listen(t)))
				eventually(t, "a stream was opened", func() bool { return svc.streams() > 0 })
				time.Sleep(100 * time.Millisecond) // let it flood; any length will do
				began := time.Now()
				w.Close()
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("Close took %v", took)
				}
			})
		}
	}
}

// LL-04 over real channels: closing them is an error for a living stream, so a
// release that comes too early shows as one on the service's side.
func TestLoopbackTenKeys(t *testing.T) {
	svc := newService(func(p peer, first *wire.InitialClientConfig) error { return giveAndHold(1, first.Target)(p, first) })
	address := svc.listen(t)
	var mu sync.Mutex
	released := map[string]int{}
	provider := func(key string) (grpc.ClientConnInterface, func(), error) {
		if key == "5" {
			return nil, nil, status.Error(codes.Unauthenticated, "no credentials")
		}
		cc, release, err := dialing(address)(key)
		return cc, func() {
			mu.Lock()
			defer mu.Unlock()
			released[key]++
			release()
		}, err
	}
	w := NewWatcher(quick(), nil)
	for i := range 10 {
		key := fmt.Sprint(i)
		w.Configure(Config{ChannelKey: key, Target: key}, provider)
		if i == 5 {
			eventually(t, "the failure is noted", func() bool { return strings.Contains(w.Status().LastError, "no credentials") })
			wantPhase(t, w, Assigned)
			continue
		}
		eventually(t, "the owner is the key's", func() bool { return owner(w, "k") == key })
	}
	w.Close()
	for i := range 10 {
		want := 1
		if i == 5 {
			want = 0
		}
		if n := released[fmt.Sprint(i)]; n != want {
			t.Errorf("channel %d was released %d times, want %d", i, n, want)
		}
	}
	if s := w.Status(); strings.Contains(s.LastError, "closing") {
		t.Errorf("a channel was closed under a stream: %s", s.LastError)
	}
}

// A service that dies and comes back: served on throughout, then healed.
func TestLoopbackOutage(t *testing.T) {
	first := newService(giveAndHold(1, "x"))
	second := newService(giveAndHold(2, "y"))
	addresses := []string{first.listen(t), second.listen(t)}
	w := NewWatcher(quick(), nil)
	defer w.Close()
	var at atomic.Int32
	provider := func(key string) (grpc.ClientConnInterface, func(), error) {
		return dialing(addresses[at.Load()])(key)
	}
	w.Configure(cfg, provider)
	eventually(t, "the first service is in charge", func() bool { return owner(w, "k") == "x" })
	at.Store(1)
	w.Configure(keyed("two"), provider)
	eventually(t, "the second service is in charge", func() bool {
		if owner(w, "k") == "" {
			t.Fatal("no owner during the change")
		}
		return owner(w, "k") == "y"
	})
}
