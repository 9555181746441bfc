package assignment

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/internal/wire"
)

// A-21, AP-11: Suspend ends the stream and then releases the channel. The last good
// assignment is not in force meanwhile, and is again with the next Configure,
// whatever the sharding service does then.
func TestSuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(giveAndHold(5, "old"))
		f := &factory{service: func(string) *service { return svc }}
		changes := 0
		w := NewWatcher(Options{}, func() { changes++ })
		defer w.Close()
		w.Suspend() // of a Watcher that watches nothing
		synctest.Wait()
		w.Configure(keyed("a"), f.provide)
		synctest.Wait()
		client := w.current
		before := changes

		w.Suspend()
		if s := w.State(); s.Phase != Unconfigured || s.Assignment != nil {
			t.Errorf("the state is %+v", s)
		}
		synctest.Wait()
		if changes != before+1 {
			t.Errorf("%d changes were told, want one more than %d", changes, before)
		}
		f.made[0].check(t)
		time.Sleep(time.Hour)
		w.received(client, decision{verdict: accepted, publish: &Assignment{Generation: 6}, ack: &wire.AssignmentAck{}})
		w.streamEnded(client, errors.New("late"), true)
		w.Suspend() // again
		synctest.Wait()
		if s := w.Status(); s.StreamConnected || s.StaleFor != 0 || s.Generation != 0 || s.Age != 0 || s.LastError != "" {
			t.Errorf("status %+v", s)
		}
		if n := f.callCount(); n != 1 {
			t.Errorf("the provider was asked %d times", n)
		}

		svc.play(func(peer, *wire.InitialClientConfig) error { return status.Error(codes.Unavailable, "down") })
		w.Configure(keyed("a"), f.provide)
		if got := owner(w, "k"); got != "old" {
			t.Errorf("owner %q as soon as it is configured, want the old assignment", got)
		}
		for range 100 {
			time.Sleep(time.Minute)
			if got := owner(w, "k"); got != "old" {
				t.Fatalf("owner %q while the service is down", got)
			}
		}
		if g := svc.last().LatestGeneration; g != 0 {
			t.Errorf("the new stream announces generation %d, want 0: it is a new client", g)
		}
		if s := w.Status(); s.Generation != 5 || s.StaleFor < time.Hour || s.StaleFor > 101*time.Minute {
			t.Errorf("status %+v", s)
		}
		svc.play(giveAndHold(1, "new")) // a lower generation is as good, of a new client
		time.Sleep(5 * time.Minute)
		if got := owner(w, "k"); got != "new" {
			t.Errorf("owner %q, want the new assignment", got)
		}
		w.Close()
		f.made[1].check(t)
		channels := slices.DeleteFunc(f.journal.events, func(e string) bool { return e == "stream a" })
		if want := []string{"make a", "release a", "make a", "release a"}; !slices.Equal(channels, want) {
			t.Errorf("channels: %v, want %v", channels, want)
		}
	})
}

// TestSuspendAndConfigureAtOnce: what ran before ends all the same, and what the
// client sees between the two is not lost.
func TestSuspendAndConfigureAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(giveAndHold(5, "old"))
		f := &factory{service: func(string) *service { return svc }}
		w := NewWatcher(Options{}, nil)
		defer w.Close()
		w.Configure(keyed("a"), f.provide)
		synctest.Wait()
		svc.play(giveAndHold(6, "new"))
		for range 5 {
			w.Suspend()
			w.Configure(keyed("a"), f.provide)
			if got := owner(w, "k"); got != "old" {
				t.Errorf("owner %q", got)
			}
		}
		time.Sleep(5 * time.Second)
		if got := owner(w, "k"); got != "new" || !w.Status().StreamConnected {
			t.Errorf("owner %q, connected %v", got, w.Status().StreamConnected)
		}
		w.Suspend()
		synctest.Wait()
		for _, m := range f.made {
			m.check(t)
		}
	})
}

// TestSuspendBeforeAnAssignment: the wait for a first assignment starts over, also
// where the one before had failed.
func TestSuspendBeforeAnAssignment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(newService(silence))
		w := NewWatcher(Options{}, nil)
		defer w.Close()
		w.Configure(cfg, m.provider())
		time.Sleep(61 * time.Second)
		wantPhase(t, w, Failed)
		w.Suspend()
		wantPhase(t, w, Unconfigured)
		if p := w.Pending(); p != "" {
			t.Errorf("RPCs wait for %q", p)
		}
		time.Sleep(time.Hour)
		wantPhase(t, w, Unconfigured)
		w.Configure(cfg, m.provider())
		wantPhase(t, w, Waiting)
		time.Sleep(59 * time.Second)
		wantPhase(t, w, Waiting)
		time.Sleep(2 * time.Second)
		wantPhase(t, w, Failed)
	})
}

// TestSuspendDuringProvider: a channel that comes when it is not wanted any more is
// released, and a failure then is nobody's.
func TestSuspendDuringProvider(t *testing.T) {
	for name, refuse := range map[string]error{"comes": nil, "fails": errors.New("no credentials")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(newService(giveAndHold(1, "x")))
				let := make(chan struct{})
				w := NewWatcher(Options{}, nil)
				defer w.Close()
				w.Configure(cfg, func(string) (grpc.ClientConnInterface, func(), error) {
					<-let
					if refuse != nil {
						return nil, nil, refuse
					}
					return m, m.release, nil
				})
				synctest.Wait()
				w.Suspend()
				close(let)
				time.Sleep(time.Hour)
				wantPhase(t, w, Unconfigured)
				if s := w.Status(); s.StreamsOpened != 0 || s.LastError != "" {
					t.Errorf("status %+v", s)
				}
				if refuse == nil {
					m.check(t)
				}
			})
		})
	}
}
