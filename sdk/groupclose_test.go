package sdk_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// Close ends what a group has under way: a standby that is connecting, a recovery
// that runs, a delayed switch, a pin, probes. Nothing connects afterwards, and nobody
// is told anything.
func TestG23LL02CloseWithAllUnderWay(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback", "standby")
	o := failover.Options{Recovery: 150 * time.Millisecond, MinUptime: -1, SwitchDelay: 150 * time.Millisecond}
	top, gate := gated(t, p, "standby", timed(o, "default", "standby", "main", "fallback"), timed(o, "pinned", "main", "fallback"))
	gate.BlackHole() // the first target is connecting for ever
	var log logBook
	client := dialGroups(t, top, reconnect(10*time.Millisecond, 500*time.Millisecond), log.option(),
		sdk.WithMonitor(health.Options{Interval: 50 * time.Millisecond}))
	book := watchGroup(t, client, "default")
	pinned := watchGroup(t, client, "pinned")
	if err := client.Group("pinned").Pin("fallback", 150*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	_ = one(client, "pinned", time.Second)
	_ = one(client, "default", 20*time.Millisecond)
	p["fallback"].Kill()
	_ = one(client, "pinned", time.Second)
	if err := gate.WaitConnections(within(t, 10*time.Second), 1); err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the ends of the watches", func() bool { return book.ended() && pinned.ended() })
	elements, logged := book.total()+pinned.total(), log.String()
	connections := gate.Connections().Accepted + p["main"].Connections().Accepted
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); { // past all those deadlines
		time.Sleep(10 * time.Millisecond)
	}
	if got := book.total() + pinned.total(); got != elements {
		t.Errorf("%d switches after Close", got-elements)
	}
	if got := log.String(); got != logged {
		t.Errorf("logged after Close: %s", got[len(logged):])
	}
	if got := gate.Connections().Accepted + p["main"].Connections().Accepted; got != connections {
		t.Errorf("%d connections after Close", got-connections)
	}
}

// A client may be closed at once, whatever its targets are.
func TestG23LL02CloseAtOnce(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback")
	p["fallback"].Kill()
	top := p.topology(timed(failover.Options{}, "default", "main", "fallback"), group("other", "fallback", "main"))
	top.Targets = append(top.Targets, sdk.TargetConfig{Name: "silent", URI: "silent:///x"})
	top.Groups = append(top.Groups, group("third", "silent", "main"))
	for range 100 {
		client := dialGroups(t, top, sdk.WithResolvers(silent()))
		for range 3 {
			if err := client.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := client.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// After Close everything is ErrClosed or does nothing.
func TestG23LL02AfterClose(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback")
	top := p.topology(group("default", "main", "fallback"), group("read", "fallback"))
	client := dialGroups(t, top)
	served(t, client, "default", "main")
	served(t, client, "read", "fallback")
	before := client.Group("read")
	stub := before.Conn()
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]*sdk.Group{"from before": before, "from after": client.Group("read"), "default": client.Group("")} {
		if g == nil {
			t.Errorf("%s: no group; a caller who goes on to use it would crash", name)
			continue
		}
		if g.Current() != "" || g.Authority() != "" || g.Name() == "" {
			t.Errorf("%s: %q, %q, %q", name, g.Name(), g.Current(), g.Authority())
		}
		for s := range g.Watch(context.Background()) {
			t.Errorf("%s: watched %+v", name, s)
		}
		for what, err := range map[string]error{"Pin": g.Pin("main", time.Second), "Unpin": g.Unpin()} {
			if !errors.Is(err, sdk.ErrClosed) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		for kind, send := range kinds {
			if _, err := send(within(t, time.Second), g.Conn()); !errors.Is(err, sdk.ErrClosed) || status.Code(err) != codes.Canceled {
				t.Errorf("%s: %s: %v", name, kind, err)
			}
		}
	}
	if _, err := sdktest.NewEcho(stub).Who(within(t, time.Second), ""); !errors.Is(err, sdk.ErrClosed) {
		t.Errorf("a stub from before: %v", err)
	}
	if client.Group("never") != nil {
		t.Error("a group that was never declared")
	}
	_, updateErr := client.UpdateTopology(top)
	_, readyErr := client.WaitReady(within(t, time.Second))
	for what, err := range map[string]error{
		"UpdateTopology": updateErr, "WaitReady": readyErr, "SetTargetEnabled": client.SetTargetEnabled("main", false, ""),
		"RPC": one(client, "read", time.Second).err, "RPC of an unknown group": one(client, "raed", time.Second).err,
	} {
		if !errors.Is(err, sdk.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := client.ValidateTopology(top); err != nil {
		t.Errorf("ValidateTopology: %v", err)
	}
	if s := client.Status(); len(s.Groups) != 2 || len(s.Targets) != 2 || s.UnknownGroups != 0 || s.String() == "" || len(client.Topology().Groups) != 2 {
		t.Errorf("status %v", s)
	}
	for name, b := range p {
		if err := b.WaitLive(within(t, 10*time.Second), 0); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Close may come in the middle of anything: each caller gets an answer or ErrClosed,
// and everything ends.
func TestG23LL02CloseRaces(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback")
	top := p.topology(group("default", "main", "fallback"), group("other", "fallback", "main"))
	narrow := p.topology(group("default", "main", "fallback"))
	for round := range 20 {
		client := dialGroups(t, top, sdk.WithMonitor(health.Options{Interval: 10 * time.Millisecond}))
		g := client.Group("default")
		var all sync.WaitGroup
		started := make(chan struct{}, 100)
		until := func(act func(i int) error) {
			all.Go(func() {
				for i := 0; ; i++ {
					err := act(i)
					if i == 0 {
						started <- struct{}{}
					}
					time.Sleep(200 * time.Microsecond) // lets others in
					switch {
					case errors.Is(err, sdk.ErrClosed):
						return
					case err != nil:
						t.Errorf("round %d: %v", round, err)
						return
					}
				}
			})
		}
		until(func(int) error { return one(client, "default", 5*time.Second).err })
		until(func(int) error {
			_, err := kinds["both ways"](within(t, 5*time.Second), client, sdk.InGroup("other"))
			return err
		})
		until(func(i int) error { return g.Pin([]string{"main", "fallback"}[i%2], time.Millisecond) })
		until(func(int) error { return g.Unpin() })
		until(func(i int) error {
			_, err := client.UpdateTopology([]sdk.Topology{narrow, top}[i%2])
			return err
		})
		until(func(i int) error { return client.SetTargetEnabled("main", i%2 == 1, "") })
		until(func(int) error {
			_, err := client.WaitReady(within(t, 5*time.Second))
			return err
		})
		until(func(int) error {
			_ = client.Status().String()
			_ = g.Authority()
			if g.Current() == "" {
				return sdk.ErrClosed
			}
			return nil
		})
		all.Go(func() {
			for range g.Watch(context.Background()) {
			}
		})
		for range 8 {
			<-started
		}
		closers := make(chan error, 2)
		for range cap(closers) {
			go func() { closers <- client.Close() }()
		}
		for range cap(closers) {
			if err := <-closers; err != nil {
				t.Error(err)
			}
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatalf("round %d: somebody still waits 20 s after Close", round)
		}
	}
}
