package sdk_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/sdk"
)

// A pin moves the traffic whatever the states, holds against what happens, expires by
// itself, and can be replaced and ended.
func TestG21Pin(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "second", "third")
	client := dialGroups(t, p.topology(group("default", "main", "second", "third"), group("other", "main", "second")))
	served(t, client, "default", "main")
	g := client.Group("default")
	book := watchGroup(t, client, "default")

	begun := time.Now()
	if err := g.Pin("third", 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if a := one(client, "default", time.Second); a.err != nil || a.from != "third" {
		t.Errorf("the RPC after Pin was answered by %q, %v", a.from, a.err)
	}
	if a := one(client, "other", time.Second); a.err != nil || a.from != "main" {
		t.Errorf("the other group was answered by %q, %v", a.from, a.err)
	}
	if s := client.Status(); s.Groups[0].Current != "third" || s.Groups[0].Reason != failover.Pinned ||
		s.Groups[0].PinnedUntil.Sub(begun) < 300*time.Millisecond || !s.Groups[1].PinnedUntil.IsZero() {
		t.Errorf("status %+v", s.Groups)
	}
	eventually(t, "the pin's end", func() bool { return g.Current() == "main" })
	list := book.after(t, 2)
	if len(list) != 2 || list[1].Reason != failover.Unpinned || list[1].At.Sub(begun) < 300*time.Millisecond || list[1].At.Sub(begun) > time.Second {
		t.Errorf("switches %+v", list)
	}
	if s := client.Status().Groups[0]; !s.PinnedUntil.IsZero() {
		t.Errorf("still pinned until %v", s.PinnedUntil)
	}

	// Replaced, and ended.
	for _, to := range []string{"third", "second"} {
		if err := g.Pin(to, time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := g.Current(); got != to {
			t.Errorf("pinned to %q, current is %q", to, got)
		}
	}
	// It holds though the target dies; the errors are that target's own.
	p["second"].Kill()
	eventually(t, "second down", func() bool {
		a := one(client, "default", time.Second)
		return a.err != nil && targetState(client, "default", "second").State == failover.Down
	})
	if a := one(client, "default", time.Second); a.err == nil || !strings.Contains(a.err.Error(), p["second"].Addr()) {
		t.Errorf("pinned to a dead target: %q, %v", a.from, a.err)
	}
	if err := g.Unpin(); err != nil {
		t.Fatal(err)
	}
	if a := one(client, "default", time.Second); a.err != nil || a.from != "main" {
		t.Errorf("the RPC after Unpin was answered by %q, %v", a.from, a.err)
	}
	if err := g.Unpin(); err != nil {
		t.Errorf("a second Unpin: %v", err)
	}
	book.after(t, 5)
	if got := book.path(); got != "main third main third second main" {
		t.Errorf("current targets were %q", got)
	}

	// What is wrong changes nothing, and is said.
	for _, c := range []struct {
		target string
		ttl    time.Duration
		says   []string
	}{
		{"nowhere", time.Hour, []string{`"default"`, `"nowhere"`, "main second third"}},
		{"main", 0, []string{`"default"`, "0s", "above 0"}},
		{"main", -time.Second, []string{"-1s", "above 0"}},
	} {
		err := g.Pin(c.target, c.ttl)
		if err == nil {
			t.Errorf("Pin(%q, %v) was taken", c.target, c.ttl)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("Pin(%q, %v): %v; want %q in it", c.target, c.ttl, err, part)
			}
		}
	}
	if s := client.Status().Groups[0]; s.Current != "main" || !s.PinnedUntil.IsZero() {
		t.Errorf("status %+v", s)
	}
}

// A pin outlives updates that keep its target, and ends with one that does not.
func TestG21PinAndUpdates(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "second", "third")
	client := dialGroups(t, p.topology(group("default", "main", "second")))
	served(t, client, "default", "main")
	if err := client.Group("").Pin("second", time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UpdateTopology(p.topology(group("default", "third", "main", "second"))); err != nil {
		t.Fatal(err)
	}
	if s := client.Status().Groups[0]; s.Current != "second" || s.PinnedUntil.IsZero() {
		t.Errorf("status %+v", s)
	}
	if _, err := client.UpdateTopology(p.topology(group("default", "main", "third"))); err != nil {
		t.Fatal(err)
	}
	if s := client.Status().Groups[0]; s.Current != "main" || !s.PinnedUntil.IsZero() || s.Reason != failover.Removed {
		t.Errorf("status %+v", s)
	}
}

// A target that an operator took out is left by all its groups at once, however well
// it is, and says why; it is used again when it is put back.
func TestSetTargetEnabled(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback", "third")
	top := p.topology(group("default", "main", "fallback"), group("read", "fallback", "main"), group("third", "third"))
	client := dialGroups(t, top)
	served(t, client, "default", "main")
	served(t, client, "read", "fallback")
	l := startLoad(t, client, "default", 2, time.Millisecond, 5*time.Second)
	if err := client.SetTargetEnabled("main", false, "the region is being moved"); err != nil {
		t.Fatal(err)
	}
	if a := one(client, "default", time.Second); a.err != nil || a.from != "fallback" {
		t.Errorf("answered by %q, %v", a.from, a.err)
	}
	s := client.Status()
	if g := s.Groups[0]; g.Current != "fallback" || g.Reason != failover.Disabled || g.Switches[failover.Disabled] != 1 {
		t.Errorf("group %+v", g)
	}
	for _, name := range []string{"default", "read"} {
		if st := targetState(client, name, "main"); st.State != failover.Down || st.Reason != failover.Disabled {
			t.Errorf("in group %q the target is %v for %v", name, st.State, st.Reason)
		}
	}
	disabled := func(name string) string {
		for _, t := range client.Status().Targets {
			if t.Name == name {
				return t.Disabled
			}
		}
		return "no such target"
	}
	if got := disabled("main"); got != "the region is being moved" {
		t.Errorf("disabled for %q", got)
	}
	// It outlives an update, and holds in groups that begin to list it.
	wider := p.topology(append(top.Groups, group("new", "main", "third"))...)
	if _, err := client.UpdateTopology(wider); err != nil {
		t.Fatal(err)
	}
	if got := client.Group("new").Current(); got != "third" {
		t.Errorf("the new group is at %q", got)
	}
	// Nobody left: the group stays.
	if err := client.SetTargetEnabled("fallback", false, ""); err != nil {
		t.Fatal(err)
	}
	if got, why := client.Group("default").Current(), disabled("fallback"); got != "fallback" || why == "" {
		t.Errorf("with all out the group is at %q, disabled for %q", got, why)
	}
	for _, name := range []string{"fallback", "main"} {
		if err := client.SetTargetEnabled(name, true, ""); err != nil {
			t.Fatal(err)
		}
		if got := disabled(name); got != "" {
			t.Errorf("%q is still out: %q", name, got)
		}
	}
	served(t, client, "default", "main")
	for _, a := range l.end() {
		if a.err != nil {
			t.Errorf("an RPC failed: %v", a.err)
			break
		}
	}
	if err := client.SetTargetEnabled("nowhere", false, ""); err == nil ||
		!strings.Contains(err.Error(), `"nowhere"`) || !strings.Contains(err.Error(), "main fallback third") {
		t.Errorf("an unknown target: %v", err)
	}
}

// WaitReady waits for the target that is current, also when that becomes another one
// while it waits.
func TestWaitReadyFollowsASwitch(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "good")
	top := p.topology(group("default", "silent", "good"))
	top.Targets = append(top.Targets, sdk.TargetConfig{Name: "silent", URI: "silent:///x"})
	for name, move := range map[string]func(*sdk.Client) error{
		"pin": func(c *sdk.Client) error { return c.Group("").Pin("good", time.Hour) },
		"out": func(c *sdk.Client) error { return c.SetTargetEnabled("silent", false, "") },
		"update": func(c *sdk.Client) error {
			_, err := c.UpdateTopology(p.topology(group("default", "good")))
			return err
		},
		"new default group": func(c *sdk.Client) error {
			both := top
			both.Groups = []sdk.GroupConfig{group("first", "good"), group("default", "silent", "good")}
			_, err := c.UpdateTopology(both)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := dialGroups(t, top, sdk.WithResolvers(silent()))
			if _, err := client.WaitReady(within(t, 20*time.Millisecond)); err == nil || !strings.Contains(err.Error(), `"silent"`) {
				t.Errorf("%v, want an error that names the target", err)
			}
			waited := make(chan error, 1)
			go func() {
				_, err := client.WaitReady(within(t, 10*time.Second))
				waited <- err
			}()
			if err := move(client); err != nil {
				t.Fatal(err)
			}
			if err := <-waited; err != nil {
				t.Error(err)
			}
		})
	}
}
