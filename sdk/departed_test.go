package sdk_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/sdk"
)

// TestS25DrainOfOneThatHasLeft: a drain of an endpoint that the name resolver had
// dropped before waits for the streams there, retiring or closed, which go on.
func TestS25DrainOfOneThatHasLeft(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]bool{"closed": false, "retiring": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ring := &slowRing{let: make(chan struct{}, 8)}
			f := startPlain(t, []string{"e1", "e2", "e3"}, selection.RoundRobin(), sdk.WithSelector("e1", pinTo("e1")),
				sdk.WithRetireTimeout(time.Hour), sdk.WithMaxRetiring(1))
			f.whoBy(t, "", "")
			f.allConnected(t)
			if held { // its data holds e1
				if _, err := f.client.AddSelector("ring", selection.CustomBuilt("slow ring", ring, true)); err != nil {
					t.Fatal(err)
				}
				ring.let <- struct{}{}
				f.whoBy(t, "ring", "")
			}
			s, err := f.echo.Talk(bySelector(t, 20*time.Second, "e1"))
			if err != nil {
				t.Fatal(err)
			}
			ask(t, s, "e1")
			if err := f.Resolve("e2", "e3"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "e1 to leave", func() bool { st := f.client.Status(); return len(st.Endpoints) == 2 && st.Retiring == 1 })
			short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			if err := f.client.Drain(short, "e1", "upgrade"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 RPCs") {
				t.Errorf("a drain that does not wait long enough: %v", err)
			}
			drained := make(chan error, 1)
			go func() { drained <- f.client.Drain(within(t, 10*time.Second), "e1", "upgrade") }()
			ask(t, s, "e1")
			if err := s.CloseSend(); err != nil {
				t.Error(err)
			}
			if _, err := s.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("the stream ended with %v", err)
			}
			if err := <-drained; err != nil {
				t.Errorf("drained: %v", err)
			}
			close(ring.let)
			eventually(t, "nothing to retire", func() bool { return f.client.Status().Retiring == 0 })
			if err := f.Backend("e1").WaitLive(within(t, 10*time.Second), 0); err != nil {
				t.Error(err)
			}
			f.oneConnectionEach(t)
		})
	}
	_, err := sdk.Dial("dns:///x:1", sdk.WithTransportCredentials(insecure.NewCredentials()),
		sdk.WithSelector(sdk.DefaultSelector, selection.P2C()), sdk.WithMaxRetiring(-1))
	if err == nil || !strings.Contains(err.Error(), "WithMaxRetiring: -1") {
		t.Errorf("got %v", err)
	}
}
