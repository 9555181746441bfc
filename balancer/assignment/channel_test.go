package assignment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
)

// factory is a counting provider: a channel of its own for every call, failing
// for keys in refuse.
type factory struct {
	service func(key string) *service
	journal journal

	mu     sync.Mutex
	refuse map[string]bool
	calls  int
	made   []*memory
}

func (f *factory) provide(key string) (grpc.ClientConnInterface, func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.refuse[key] {
		return nil, nil, errors.New("no credentials")
	}
	m := newMemory(f.service(key))
	m.name, m.journal = key, &f.journal
	f.made = append(f.made, m)
	f.journal.note("make " + key)
	return m, m.release, nil
}

func (f *factory) setRefuse(key string, refuse bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse == nil {
		f.refuse = map[string]bool{}
	}
	f.refuse[key] = refuse
}

func (f *factory) callCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func keyed(key string) Config { return with(func(c *Config) { c.ChannelKey = key }) }

// A-21, A119: new channel, new client, then the old client closes, then the old
// channel is released; generations start again at 0, the UUID stays.
func TestOrderOfChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(giveAndHold(5, "x"))
		f := &factory{service: func(string) *service { return svc }}
		w := NewWatcher(Options{}, nil)
		w.Configure(keyed("a"), f.provide)
		synctest.Wait()
		w.Configure(keyed("b"), f.provide)
		synctest.Wait()
		want := []string{"make a", "stream a", "make b", "stream b", "release a"}
		got := slices.Clone(f.journal.events)
		// The new client's stream and the end of the old client race: both come
		// after the new channel, and the release comes after the old stream's end.
		slices.Sort(got[3:])
		slices.Sort(want[3:])
		if !slices.Equal(got, want) {
			t.Errorf("order %q, want %q", f.journal.events, want)
		}
		if g := svc.last().LatestGeneration; g != 0 {
			t.Errorf("after a new key generation %d is announced, want 0", g)
		}
		w.Configure(with(func(c *Config) { c.ChannelKey, c.Target = "b", "target-two" }), f.provide)
		synctest.Wait()
		if first := svc.last(); first.LatestGeneration != 0 || first.Target != "target-two" || first.ClientUuid != svc.firsts[0].ClientUuid {
			t.Errorf("after a new target the stream begins with %v", first)
		}
		if f.callCount() != 2 {
			t.Errorf("%d channels, a new target needs none", f.callCount())
		}
		w.Configure(with(func(c *Config) { c.ChannelKey, c.Target = "b", "target-two" }), f.provide)
		synctest.Wait()
		if svc.streams() != 3 || f.callCount() != 2 {
			t.Errorf("an equal config does something: %d streams, %d calls", svc.streams(), f.callCount())
		}
		w.Close()
		for _, m := range f.made {
			m.check(t)
		}
	})
}

// LL-04: ten changes of key, one of which fails, and a close: each channel is
// released exactly once, never while its stream lives; the failed change leaves
// the old client serving and is tried again.
func TestTenKeys(t *testing.T) {
	for _, settle := range []bool{true, false} { // let each change settle, or not
		t.Run(fmt.Sprintf("settle %v", settle), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &factory{service: func(key string) *service { return newService(giveAndHold(1, key)) }}
				f.setRefuse("key-5", true)
				w := NewWatcher(Options{}, nil)
				for i := range 10 {
					w.Configure(keyed(fmt.Sprint("key-", i)), f.provide)
					if !settle {
						continue
					}
					synctest.Wait()
					want := fmt.Sprint("key-", i)
					if i == 5 {
						want = "key-4"
					}
					if got := owner(w, "k"); got != want {
						t.Errorf("after key %d the owner is %q, want %q", i, got, want)
					}
				}
				synctest.Wait()
				if got := owner(w, "k"); got != "key-9" {
					t.Errorf("owner %q, want that of the last key", got)
				}
				w.Close()
				for _, m := range f.made {
					m.check(t)
				}
			})
		})
	}
}

// LL-04: a provider that fails is asked again with backoff and on the next
// Configure, equal or not.
func TestProviderFails(t *testing.T) {
	t.Run("with nothing held", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &factory{service: func(key string) *service { return newService(giveAndHold(1, key)) }}
			f.setRefuse("a", true)
			var changes atomic.Int32
			w := NewWatcher(Options{}, func() { changes.Add(1) })
			defer w.Close()
			w.Configure(keyed("a"), f.provide)
			synctest.Wait()
			s := wantPhase(t, w, Failed)
			wantText(t, s.Err, "no credentials", `"a"`, `"target-one"`, "check the channel key")
			if f.callCount() != 1 {
				t.Fatalf("%d calls", f.callCount())
			}
			w.Configure(keyed("a"), f.provide)
			synctest.Wait()
			if f.callCount() != 2 {
				t.Errorf("%d calls, want the equal Configure to try again", f.callCount())
			}
			time.Sleep(10 * time.Second)
			if n := f.callCount(); n < 4 || n > 8 {
				t.Errorf("%d calls in 10 s, want them spaced by backoff", n)
			}
			f.setRefuse("a", false)
			time.Sleep(30 * time.Second)
			wantPhase(t, w, Assigned)
			if changes.Load() < 3 {
				t.Errorf("onChange was called %d times, want waiting, failed and assigned", changes.Load())
			}
		})
	})
	t.Run("with an assignment held", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &factory{service: func(key string) *service { return newService(giveAndHold(1, key)) }}
			f.setRefuse("b", true)
			w := NewWatcher(Options{}, nil)
			defer w.Close()
			w.Configure(keyed("a"), f.provide)
			synctest.Wait()
			before := w.State()
			w.Configure(keyed("b"), f.provide)
			time.Sleep(time.Hour)
			if w.State() != before {
				t.Errorf("state %+v, want it unchanged", w.State())
			}
			if s := w.Status(); !s.StreamConnected || s.ChannelKey != "a" || !strings.Contains(s.LastError, "no credentials") {
				t.Errorf("status %+v, want the old client serving", s)
			}
			f.setRefuse("b", false)
			time.Sleep(3 * time.Minute) // the most that backoff waits
			if got := owner(w, "k"); got != "b" {
				t.Errorf("owner %q, want b", got)
			}
		})
	})
	t.Run("and the config goes back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := &factory{service: func(string) *service { return newService(silence) }}
			f.setRefuse("b", true)
			w := NewWatcher(Options{}, nil)
			defer w.Close()
			w.Configure(keyed("a"), f.provide)
			synctest.Wait()
			w.Configure(keyed("b"), f.provide)
			synctest.Wait()
			wantPhase(t, w, Failed)
			w.Configure(keyed("a"), f.provide)
			synctest.Wait()
			wantPhase(t, w, Waiting)
			calls := f.callCount()
			time.Sleep(30 * time.Second)
			if f.callCount() != calls {
				t.Error("the provider is still asked for the key that is not wanted any more")
			}
		})
	})
	t.Run("odd providers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := NewWatcher(Options{}, nil)
			defer w.Close()
			w.Configure(cfg, nil)
			synctest.Wait()
			wantText(t, wantPhase(t, w, Failed).Err, "no provider")
			w.Configure(cfg, func(string) (grpc.ClientConnInterface, func(), error) { return nil, nil, nil })
			synctest.Wait()
			wantText(t, wantPhase(t, w, Failed).Err, "neither a channel nor an error")
			m := newMemory(newService(giveAndHold(1, "x")))
			w.Configure(cfg, func(string) (grpc.ClientConnInterface, func(), error) { return m, nil, nil })
			synctest.Wait()
			wantPhase(t, w, Assigned)
		})
	})
}
