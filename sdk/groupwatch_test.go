package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/sdk"
)

// Watch says first where the group is, and then each switch once, in order, to each
// who watches; the names and counts agree with Status and the log.
func TestG19WatchInOrder(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b", "c")
	var log logBook
	client := dialGroups(t, p.topology(group("default", "a", "b", "c"), group("other", "c", "a")), log.option())
	g := client.Group("default")
	first, second, other := watchGroup(t, client, "default"), watchGroup(t, client, "default"), watchGroup(t, client, "other")
	begun := time.Now()
	want := "a"
	for i := range 100 {
		to := []string{"b", "c", "a"}[i%3]
		if err := g.Pin(to, time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := g.Current(); got != to {
			t.Fatalf("pinned to %q, current is %q", to, got)
		}
		want += " " + to
	}
	late := watchGroup(t, client, "default")
	eventually(t, "all switches", func() bool { return first.total() == 101 && second.total() == 101 })
	for _, b := range []*switchBook{first, second} {
		if got := b.path(); got != want {
			t.Errorf("current targets were %q, want %q", got, want)
		}
		from, at := "a", begun
		for i, s := range b.switches() {
			if s.From != from || s.Group != "default" || s.Reason != failover.Pinned || s.At.Before(at) {
				t.Fatalf("switch %d is %+v, after one to %q at %v", i, s, from, at)
			}
			from, at = s.To, s.At
		}
	}
	if s := first.all[0]; s.From != "" || s.To != "a" || s.Group != "default" || s.Reason != failover.Start || s.At.IsZero() {
		t.Errorf("the first element is %+v", s)
	}
	if s := late.all[0]; s.From != "" || s.To != g.Current() || s.Reason != failover.Pinned {
		t.Errorf("the first element of one who came late is %+v", s)
	}
	if n := other.total(); n != 1 {
		t.Errorf("the other group's watch has %d elements, want 1", n)
	}
	if n := client.Status().Groups[0].Switches[failover.Pinned]; n != 100 {
		t.Errorf("Status counts %d switches, want 100", n)
	}
	const line = "a group of targets switched"
	// Of a storm of records the log has the first 20, then one a second (WithLogger).
	eventually(t, "log lines", func() bool { return strings.Count(log.String(), line) >= 20 })
	if n, most := strings.Count(log.String(), line), 21+int(time.Since(begun)/time.Second); n > most {
		t.Errorf("%d lines were logged, want 20 and one a second", n)
	}
}

// Who watches and is too far behind misses the oldest switches, and is then in step
// again.
func TestG19WatchFarBehind(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	client := dialGroups(t, p.topology(group("default", "a", "b")))
	g := client.Group("")
	n := 0
	last, ctx := "", within(t, 20*time.Second)
	for s := range g.Watch(ctx) {
		if n++; n == 1 {
			for i := range 1001 {
				if err := g.Pin([]string{"b", "a"}[i%2], time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		if last != "" && s.From != last {
			t.Fatalf("element %d is %+v, after one to %q", n, s, last)
		}
		if last = s.To; n == 257 {
			break
		}
	}
	if n != 257 || last != "b" || g.Current() != "b" {
		t.Errorf("%d elements, the last to %q; current is %q", n, last, g.Current())
	}
}

// The loop over switches may read the group, send RPCs, pin, update the topology, and
// watch: nothing of it deadlocks, and every switch is told in order.
func TestME11G19LoopCallsBack(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback", "third")
	top := p.topology(group("default", "main", "fallback"))
	wider := p.topology(group("default", "main", "fallback"), group("more", "third", "main"))
	client := dialGroups(t, top)
	served(t, client, "default", "main")
	book := watchGroup(t, client, "default")
	ctx, cancel := context.WithCancel(within(t, 20*time.Second))
	defer cancel()
	told := make(chan sdk.Switch)
	done := make(chan struct{})
	go func() {
		defer close(done)
		updates := []sdk.Topology{wider, top}
		n := 0
		for s := range client.Group("").Watch(ctx) {
			if got := client.Group("default").Current(); got != "main" && got != "fallback" {
				t.Errorf("current target %q", got)
			}
			if a := one(client, "default", 5*time.Second); a.err != nil && a.from == "" && !strings.Contains(a.err.Error(), "refused") {
				t.Errorf("an RPC in the loop: %v", a.err)
			}
			if _, err := client.UpdateTopology(updates[n%2]); err != nil {
				t.Errorf("an update in the loop: %v", err)
			}
			if err := client.ValidateTopology(top); err != nil {
				t.Error(err)
			}
			for first := range client.Group("default").Watch(ctx) { // one within the other
				if first.To == "" || first.From != "" {
					t.Errorf("%+v", first)
				}
				break
			}
			_ = client.Group("default").Authority()
			_ = client.Status().String()
			if _, err := client.WaitReady(ctx); err != nil {
				t.Errorf("WaitReady in the loop: %v", err)
			}
			if err := client.SetTargetEnabled("fallback", true, ""); err != nil {
				t.Error(err)
			}
			if err := client.Group("default").Unpin(); err != nil {
				t.Error(err)
			}
			n++
			told <- s
		}
	}()
	<-told
	for range 5 {
		p["main"].Kill()
		eventually(t, "the fallback", func() bool {
			a := one(client, "default", time.Second)
			return a.from == "fallback"
		})
		if s := <-told; s.From != "main" || s.To != "fallback" || s.Reason != failover.Lost {
			t.Errorf("told of %+v", s)
		}
		if err := p["main"].Restart(); err != nil {
			t.Fatal(err)
		}
		served(t, client, "default", "main")
		if s := <-told; s.From != "fallback" || s.To != "main" || s.Reason != failover.Recovered {
			t.Errorf("told of %+v", s)
		}
	}
	if got, want := book.path(), "main"+strings.Repeat(" fallback main", 5); got != want {
		t.Errorf("current targets were %q, want %q", got, want)
	}
	cancel()
	<-done
}

// Watch ends when its context is done, when the group is gone, and when the client
// is closed, also from within its loop.
func TestG19WatchEnds(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	both := p.topology(group("default", "a", "b"), group("other", "b", "a"))
	ends := map[string]func(*sdk.Client, context.CancelFunc) error{
		"context": func(_ *sdk.Client, cancel context.CancelFunc) error { cancel(); return nil },
		"removal": func(c *sdk.Client, _ context.CancelFunc) error {
			_, err := c.UpdateTopology(p.topology(group("default", "a", "b")))
			return err
		},
		"close": func(c *sdk.Client, _ context.CancelFunc) error { return c.Close() },
	}
	for name, end := range ends {
		for _, inside := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " inside ", inside), func(t *testing.T) {
				t.Parallel()
				client := dialGroups(t, both)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				first, done := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(done)
					n := 0
					for range client.Group("other").Watch(ctx) {
						if n++; n > 1 {
							t.Error("another element")
						}
						if inside {
							if err := end(client, cancel); err != nil {
								t.Error(err)
							}
						}
						close(first)
					}
				}()
				<-first
				if !inside {
					if err := end(client, cancel); err != nil {
						t.Error(err)
					}
				}
				select {
				case <-done:
				case <-time.After(10 * time.Second):
					t.Fatal("the loop did not end within 10 s")
				}
			})
		}
	}
	t.Run("gone before", func(t *testing.T) {
		t.Parallel()
		client := dialGroups(t, both)
		g := client.Group("other")
		if err := ends["removal"](client, nil); err != nil {
			t.Fatal(err)
		}
		for s := range g.Watch(context.Background()) {
			t.Errorf("an element: %+v", s)
		}
		if g.Current() != "" || g.Authority() != "" || g.Name() != "other" {
			t.Errorf("a group that is gone: %q, %q, %q", g.Name(), g.Current(), g.Authority())
		}
		for _, err := range []error{g.Pin("a", time.Second), g.Unpin()} {
			if err == nil || errors.Is(err, sdk.ErrClosed) || !strings.Contains(err.Error(), `"other"`) {
				t.Errorf("%v, want an error that names the group", err)
			}
		}
		if client.Group("other") != nil || client.Group("never") != nil {
			t.Error("a group that is not declared is there")
		}
	})
	t.Run("cancelled before", func(t *testing.T) {
		t.Parallel()
		client := dialGroups(t, both)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for s := range client.Group("other").Watch(ctx) {
			t.Errorf("an element: %+v", s)
		}
	})
}

// A group that is removed and declared again is a new one: who watched the old one is
// done.
func TestG19GroupDeclaredAgain(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	both, one := p.topology(group("default", "a", "b"), group("other", "b", "a")), p.topology(group("default", "a", "b"))
	client := dialGroups(t, both)
	book := watchGroup(t, client, "other")
	if _, err := client.UpdateTopology(one); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end", book.ended)
	if _, err := client.UpdateTopology(both); err != nil {
		t.Fatal(err)
	}
	again := watchGroup(t, client, "other")
	if err := client.Group("other").Pin("a", time.Hour); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the switch", func() bool { return again.path() == "b a" })
	if got := book.path(); got != "b" {
		t.Errorf("the watch of the old group was told %q", got)
	}
}
