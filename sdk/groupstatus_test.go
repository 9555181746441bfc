package sdk_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/sdk"
)

// Status says of each group where it is, since when and why, and of each target how
// it is and why; and so does its string.
func TestG54StatusOfGroups(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback", "alone")
	top := p.topology(group("default", "main", "fallback"), group("read", "fallback", "main"), group("alone", "alone"))
	begun := time.Now()
	client := dialGroups(t, top, reconnect(10*time.Millisecond, time.Second))
	dialled := time.Now()

	s := client.Status()
	if len(s.Groups) != 3 || len(s.Targets) != 3 {
		t.Fatalf("%d groups and %d targets", len(s.Groups), len(s.Targets))
	}
	for i, want := range []struct{ name, current, targets string }{
		{"default", "main", "main fallback"}, {"read", "fallback", "fallback main"}, {"alone", "alone", "alone"},
	} {
		g := s.Groups[i]
		var names []string
		for _, target := range g.Targets {
			names = append(names, target.Name)
			if target.Current != (target.Name == want.current) {
				t.Errorf("group %q: target %q: current %v", want.name, target.Name, target.Current)
			}
			if target.Reason != failover.Start || !target.State.Available() && target.State != failover.Recovering {
				t.Errorf("group %q: target %q is %v for %v before any RPC", want.name, target.Name, target.State, target.Reason)
			}
		}
		if g.Name != want.name || g.Current != want.current || g.Reason != failover.Start || len(g.Switches) != 0 || !g.PinnedUntil.IsZero() ||
			g.Since.Before(begun) || g.Since.After(dialled) || strings.Join(names, " ") != want.targets {
			t.Errorf("group %d is %+v", i, g)
		}
	}
	for i, name := range []string{"main", "fallback", "alone"} {
		if target := s.Targets[i]; target.Name != name || target.URI != "dns:///"+p[name].Addr() || target.Profile != "" ||
			target.Leaving || target.InFlight != 0 || target.ErrorRatio != nil || target.Disabled != "" {
			t.Errorf("target %d is %+v", i, target)
		}
	}

	// A failure, its reason and its time.
	served(t, client, "default", "main")
	served(t, client, "alone", "alone")
	p["fallback"].Hold()
	lost := time.Now()
	p["main"].Kill()
	held := make(chan answer, 1)
	eventually(t, "the fallback", func() bool {
		_ = one(client, "default", 20*time.Millisecond)
		return client.Group("").Current() == "fallback"
	})
	go func() { held <- one(client, "default", 10*time.Second) }()
	eventually(t, "an RPC in flight", func() bool {
		s = client.Status()
		return s.Targets[1].InFlight == 1
	})
	g := s.Groups[0]
	if g.Current != "fallback" || g.Reason != failover.Lost || g.Since.Before(lost) || g.Switches[failover.Lost] != 1 || len(g.Switches) != 1 {
		t.Errorf("after the failure the group is %+v", g)
	}
	if main := g.Targets[0]; main.State != failover.Down || main.Reason != failover.Lost || main.Since.Before(lost) || main.Downtime <= 0 || main.Current {
		t.Errorf("after the failure the target is %+v", main)
	}
	if s.Targets[0].State != connectivity.TransientFailure || s.Targets[1].State != connectivity.Ready || s.Targets[1].InFlight != 1 {
		t.Errorf("the pools are %v; %v with %d RPCs", s.Targets[0].State, s.Targets[1].State, s.Targets[1].InFlight)
	}
	// The status of the whole is that of the default group's current target.
	if s.Status.Target != s.Targets[1].Router.Target || len(s.Endpoints) != 1 || !strings.Contains(fmt.Sprint(s.Endpoints[0]), p["fallback"].Addr()) {
		t.Errorf("the client's status is %v", s.Status)
	}
	text := s.String()
	for _, part := range []string{
		`group "default": "fallback" since ` + g.Since.Format(time.RFC3339) + ` (lost), "main" down, "fallback" ready`,
		`group "read": "fallback" since `, `(start), "fallback" ready, "main" down`,
		`group "alone": "alone" since `, "RPCs in flight",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the string has no %s:\n%s", part, text)
		}
	}
	for name := range p {
		if !strings.Contains(text, p[name].Addr()) {
			t.Errorf("the string does not tell of %q at %s:\n%s", name, p[name].Addr(), text)
		}
	}
	if n := strings.Count(text, "\n") + 1; n != 6 {
		t.Errorf("the string has %d lines, want one for each group and target:\n%s", n, text)
	}
	p["fallback"].Release()
	if a := <-held; a.err != nil {
		t.Error(a.err)
	}

	// And back.
	if err := p["main"].Restart(); err != nil {
		t.Fatal(err)
	}
	served(t, client, "default", "main")
	g = client.Status().Groups[0]
	if g.Reason != failover.Recovered || g.Switches[failover.Recovered] != 1 || g.Switches[failover.Lost] != 1 {
		t.Errorf("after the return the group is %+v", g)
	}
	if main := g.Targets[0]; main.State != failover.Ready || main.Reason != failover.Recovered || !main.Current {
		t.Errorf("after the return the target is %+v", main)
	}
	// What is returned is the caller's.
	g.Switches[failover.Lost], g.Targets[0].Name = 100, "spoilt"
	if again := client.Status().Groups[0]; again.Switches[failover.Lost] != 1 || again.Targets[0].Name != "main" {
		t.Error("a status that the caller changed is in the next one")
	}
}

// Of each target the status counts connections, and of each endpoint by what they do:
// not one by one, so that it does not grow with them. What was opened and is not
// closed is there.
func TestG24G40StatusOfConnections(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback")
	client := dialGroups(t, p.topology(group("default", "main", "fallback")), reconnect(10*time.Millisecond, time.Second),
		sdk.WithConnections(balancer.Connections{Min: 3}))
	served(t, client, "default", "main")
	has := func(target, ready int) sdk.TargetStatus {
		t.Helper()
		var s sdk.TargetStatus
		eventually(t, fmt.Sprintf("%d READY connections", ready), func() bool {
			s = client.Status().Targets[target]
			return len(s.Router.Endpoints) == 1 && s.Router.Endpoints[0].Connections.Ready == ready
		})
		return s
	}
	balance := func(c balancer.ConnectionCounts) (open uint64) {
		open = c.Opened
		for _, n := range c.Closed {
			open -= n
		}
		return open
	}
	for i := range 2 { // the standby as well
		s := has(i, 3)
		if c := s.Router.Connections; c.Opened != 3 || balance(c) != 3 || c.ScaledUp != 0 || c.Unresponsive != 0 {
			t.Errorf("target %q: %+v", s.Name, c)
		}
	}
	p["main"].Kill()
	served(t, client, "default", "fallback")
	if c := has(0, 0).Router.Connections; balance(c) != 0 || c.Closed["lost"] != 3 {
		t.Errorf("with its server dead the target counts %+v", c)
	}
	if err := p["main"].Restart(); err != nil {
		t.Fatal(err)
	}
	served(t, client, "default", "main")
	if c := has(0, 3).Router.Connections; balance(c) != 3 || c.Opened != 6 {
		t.Errorf("with its server back the target counts %+v", c)
	}
	if c := has(1, 3).Router.Connections; c.Opened != 3 {
		t.Errorf("the other target counts %+v", c)
	}
}

// A client of a single target has a group of it, whose status is in one line.
func TestStatusOfASingleTarget(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main")
	client, err := sdk.Dial(p["main"].Addr(), plain, sdk.WithKeyHeader("x-key"), sdk.WithSelector(sdk.DefaultSelector, pinTo("main")))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s := client.Status()
	if len(s.Groups) != 1 || s.Groups[0].Name != sdk.DefaultGroup || s.Groups[0].Current != p["main"].Addr() || strings.Contains(s.String(), "\n") {
		t.Errorf("%+v\n%v", s.Groups, s)
	}
}
