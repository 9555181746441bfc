package assignment

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/slicewire/slicewire/internal/wire"
)

// a build waits for its turn while the old assignment serves, ends on the
// newest generation, and is given up when its Watcher closes.
func TestA24BuildsTakeTurns(t *testing.T) {
	more := make(chan struct{})
	var generations atomic.Int64
	svc := newService(func(p peer, _ *wire.InitialClientConfig) error {
		if err := give(p, 1, "first"); err != nil {
			return err
		}
		<-more
		for g := int64(2); g <= 20; g++ {
			if err := give(p, g, fmt.Sprint("owner-", g)); err != nil {
				return err
			}
			generations.Store(g)
		}
		return hold(p)
	})
	w := NewWatcher(Options{}, nil)
	defer w.Close()
	w.Configure(cfg, newMemory(svc).provider())
	eventually(t, "the first assignment", func() bool { return owner(w, "k") == "first" })

	buildGate <- struct{}{} // somebody else builds
	close(more)
	other := NewWatcher(Options{}, nil)
	other.Configure(cfg, newMemory(newService(giveAndHold(1, "x"))).provider())
	eventually(t, "the stream of the other", func() bool { return other.Status().StreamConnected })
	other.Close() // returns, though its build has not had its turn
	if got := owner(w, "k"); got != "first" || generations.Load() != 0 {
		t.Errorf("while another build runs %q serves and generation %d was acked, want the first", got, generations.Load())
	}
	if s := other.State(); s.Phase == Assigned {
		t.Errorf("a closed Watcher was assigned: %+v", s)
	}
	buildGate.Leave()
	eventually(t, "the last of the burst", func() bool { return owner(w, "k") == "owner-20" })
}
