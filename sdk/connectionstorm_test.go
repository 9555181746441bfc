package sdk_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// TestG41EverythingAboutConnectionsAtOnce: settings of connections change each
// millisecond, by all policies in turn, while servers hang up, are gone and allow few
// streams, and endpoints come and go and are disabled. No RPC that waits for ready is
// stuck or fails but with a server that was killed under it, and at the end nothing
// is in flight, no token is kept, and each endpoint has the connections it should.
func TestG41EverythingAboutConnectionsAtOnce(t *testing.T) {
	tokens := newLedger()
	c, r, echo := overRouter(t, []string{"e1", "e2"}, balancer.RouterOptions{
		Admission: tokens, RetireTimeout: 20 * time.Millisecond,
	})
	names := []string{"e1", "e2", "few", "gone"}
	for _, name := range names[2:] {
		if _, err := c.Start(name, sdktest.WithServerOptions(grpc.MaxConcurrentStreams(3))); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Resolve(names...); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	kills, killed, calls := 0, 0, 0
	call := func(i int) {
		ctx, cancel := context.WithTimeout(interceptors.WithKeyString(context.Background(), fmt.Sprint(i%50)), 20*time.Second)
		defer cancel()
		var err error
		if i%5 == 0 {
			var s *sdktest.EchoStream
			if s, err = echo.Talk(ctx, patient); err == nil {
				for range 3 {
					if _, err = s.Ask("hello"); err != nil {
						break
					}
				}
			}
			cancel() // as callers do that have what they want
		} else {
			_, err = echo.Who(ctx, "", patient)
		}
		mu.Lock()
		defer mu.Unlock()
		calls++
		if err == nil {
			return
		}
		if killed++; status.Code(err) != codes.Unavailable || kills == 0 {
			t.Errorf("call %d: %v", i, err)
		}
	}
	for from := range 24 {
		wg.Go(func() {
			for i := from; !done(over); i += 24 {
				call(i)
			}
		})
	}
	each := func(d time.Duration, do func(rng *rand.Rand)) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(d)))
			for !done(over) {
				do(rng)
				time.Sleep(d)
			}
		})
	}
	each(time.Millisecond, func(rng *rand.Rand) {
		n := balancer.Connections{Min: 1 + rng.IntN(3), Streams: 1 + rng.IntN(6), ScaleDownAfter: time.Duration(1 + rng.IntN(20*int(time.Millisecond)))}
		n.Max = n.Min + rng.IntN(4)
		n.MinReady = rng.IntN(5)
		n.MaxAge = time.Duration(rng.IntN(2)) * 100 * time.Millisecond
		n.Unresponsive = balancer.Unresponsive{Deadlines: rng.IntN(2), Window: time.Millisecond}
		if rng.IntN(5) == 0 {
			n = balancer.Connections{}
		}
		if err := r.SetConnections(n); err != nil {
			t.Error(err)
		}
	})
	policies := []selection.Policy{
		selection.P2C(), selection.Ketama(selection.KetamaOptions{}), selection.RoundRobin(), selection.Weighted(nil),
		selection.LeastPending(), selection.Random(),
	}
	at := 0
	each(15*time.Millisecond, func(*rand.Rand) {
		if _, err := r.Selector(balancer.DefaultSelector).Publish(policies[at%len(policies)], balancer.FromCode); err != nil {
			t.Error(err)
		}
		at++
	})
	each(7*time.Millisecond, func(rng *rand.Rand) {
		if err := c.Resolve(names[:1+rng.IntN(len(names))]...); err != nil {
			t.Error(err)
		}
		r.SetEnabled("e2", rng.IntN(2) == 0, "test")
		_ = r.Status()
		for range r.Selector(balancer.DefaultSelector).Order("key") {
		}
	})
	each(40*time.Millisecond, func(*rand.Rand) {
		if err := c.Backend("e2").GoAway(); err != nil {
			t.Error(err)
		}
	})
	each(60*time.Millisecond, func(rng *rand.Rand) {
		b := c.Backend("gone")
		mu.Lock()
		kills++
		mu.Unlock()
		b.Kill()
		if rng.IntN(3) == 0 {
			if err := b.BlackHole(); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(20 * time.Millisecond)
		b.Kill()
		if err := b.Restart(); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(2 * time.Second)
	close(over)
	wg.Wait()
	t.Logf("%d calls, %d were under way to a server that was killed", calls, killed)

	r.SetEnabled("e2", true, "over")
	if err := c.Resolve("e1", "e2", "few"); err != nil {
		t.Error(err)
	}
	if _, err := r.Selector(balancer.DefaultSelector).Publish(selection.RoundRobin(), balancer.FromCode); err != nil {
		t.Error(err)
	}
	if err := r.SetConnections(balancer.Connections{Min: 2}); err != nil {
		t.Error(err)
	}
	eventually(t, "two connections each, and nothing in flight", func() bool {
		_, _ = echo.Who(within(t, 10*time.Second), "", patient)
		for _, e := range r.Status().Endpoints {
			if e.Pending != 0 || e.Connections != (balancer.ConnectionStates{Ready: 2}) {
				return false
			}
		}
		return r.Status().Retiring == 0
	})
	for _, name := range []string{"e1", "e2", "few"} {
		if err := c.Backend(name).WaitLive(within(t, 10*time.Second), 2); err != nil {
			t.Error(err)
		}
	}
	if err := c.Backend("gone").WaitLive(within(t, 10*time.Second), 0); err != nil {
		t.Error(err)
	}
	tokens.balanced(t)
	if _, err := r.Selector(balancer.DefaultSelector).Select("key"); err != nil {
		t.Error(err)
	}
}
