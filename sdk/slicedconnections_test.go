package sdk_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// TestG31SlicedGrows: owners of slices have several connections, and keys stay with
// their owner: those above the mark wait for its next connection. Servers that allow
// no more streams than the mark are never asked for more, and nothing fails or is
// left, idle mode and GOAWAYs included.
func TestG31SlicedGrows(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), nil, quick(), idleAfter(time.Second),
		sdk.WithConnections(balancer.Connections{Max: 3, Streams: 4, ScaleDownAfter: 100 * time.Millisecond, MaxAge: 200 * time.Millisecond}))
	names := []string{"e1", "e2"}
	for _, name := range names {
		if _, err := f.Start(name, sdktest.WithServerOptions(grpc.MaxConcurrentStreams(4))); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Resolve(names...); err != nil {
		t.Fatal(err)
	}
	f.AssignEven(testTarget)
	keys := make([]string, 20)
	owner := make(map[string]string)
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i*37)
		owner[keys[i]] = f.who(t, keys[i])
	}
	for range 2 {
		tr := f.flow(t, 30, time.Millisecond, keys...)
		for range 5 {
			had := tr.total()
			eventually(t, "calls go on", func() bool { return tr.total() > had+200 })
			if err := f.Backend("e2").GoAway(); err != nil {
				t.Fatal(err)
			}
		}
		tr.mustBeClean(t)
		for key, name := range owner {
			if now := f.who(t, key); now != name {
				t.Errorf("%q moved from %s to %s", key, name, now)
			}
		}
		f.nothingPending(t)
		f.idles(t)
	}
	if c := f.client.Status().Connections; c.ScaledUp == 0 || c.Closed["max_age"] == 0 {
		t.Errorf("nothing grew, or grew old: %+v", c)
	}
	for _, name := range names {
		if err := f.Backend(name).WaitLive(within(t, 10*time.Second), 0); err != nil {
			t.Error(err)
		}
	}
}
