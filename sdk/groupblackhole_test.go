package sdk_test

import (
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// gated puts a gate before the backend of a name, and declares all as targets.
func gated(t testing.TB, p places, name string, groups ...sdk.GroupConfig) (sdk.Topology, *sdktest.Gate) {
	t.Helper()
	g, err := sdktest.StartGate(p[name].Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	top := p.topology(groups...)
	for i := range top.Targets {
		if top.Targets[i].Name == name {
			top.Targets[i].URI = "dns:///" + g.Addr()
		}
	}
	return top, g
}

// A primary that drops packets costs the deadlines of the first second, and none
// after that: its further attempts to connect do not slow RPCs.
func TestME12G22BlackHoledPrimary(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback")
	top, gate := gated(t, p, "main", timed(failover.Options{Recovery: -1}, "default", "main", "fallback"))
	gate.BlackHole()
	client := dialGroups(t, top, reconnect(20*time.Millisecond, 500*time.Millisecond))
	begun := time.Now()
	l := startLoad(t, client, "default", 4, 5*time.Millisecond, time.Second)
	served(t, client, "default", "fallback")
	if err := gate.WaitConnections(within(t, 10*time.Second), 3); err != nil { // attempts go on
		t.Fatal(err)
	}
	for time.Since(begun) < 2500*time.Millisecond {
		time.Sleep(10 * time.Millisecond)
	}
	early, late, slowest := 0, 0, time.Duration(0)
	for _, a := range l.end() {
		if a.begun.Sub(begun) < time.Second+l.lateness() {
			early++
			continue
		}
		late++
		slowest = max(slowest, a.took)
		if a.err != nil || a.from != "fallback" {
			t.Errorf("%v after the start: answered by %q, %v", a.begun.Sub(begun), a.from, a.err)
		}
	}
	if most := 100*time.Millisecond + l.lateness(); slowest > most {
		t.Errorf("the slowest RPC took %v, want at most %v", slowest, most)
	}
	if early == 0 || late < 100 {
		t.Errorf("%d RPCs in the first second and %d later", early, late)
	}
	// The way back.
	gate.Heal()
	served(t, client, "default", "main")
}

// A primary that begins to drop packets while it is connected is found out by the
// monitor, whose probes go over the live connection, and is taken back when they
// pass.
func TestME12G18BlackHoleWhileConnected(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback")
	top, gate := gated(t, p, "main", timed(failover.Options{Recovery: -1, MinUptime: 100 * time.Millisecond}, "default", "main", "fallback"))
	client := dialGroups(t, top, reconnect(20*time.Millisecond, 500*time.Millisecond),
		sdk.WithMonitor(health.Options{Interval: 100 * time.Millisecond, Timeout: 100 * time.Millisecond, FailAfter: 2}))
	served(t, client, "default", "main")
	book := watchGroup(t, client, "default")
	l := startLoad(t, client, "default", 4, 5*time.Millisecond, time.Second)
	hole := time.Now()
	gate.BlackHole()
	served(t, client, "default", "fallback")
	for time.Since(hole) < 2*time.Second {
		time.Sleep(10 * time.Millisecond)
	}
	list := book.after(t, 1)
	if len(list) == 0 || list[0].Reason != failover.Monitor || list[0].To != "fallback" {
		t.Fatalf("switches %v", list)
	}
	if after := list[0].At.Sub(hole); after > 600*time.Millisecond+l.lateness() {
		t.Errorf("the monitor found out after %v (late by at most %v here)", after, l.lateness())
	}
	if len(list) != 1 {
		t.Errorf("%d switches, want 1: %v", len(list), list)
	}
	for _, a := range l.end() {
		if a.begun.Sub(hole) > time.Second+l.lateness() && (a.err != nil || a.from != "fallback") {
			t.Errorf("%v after the hole: answered by %q, %v", a.begun.Sub(hole), a.from, a.err)
			break
		}
	}
	if s := targetState(client, "default", "main"); s.State != failover.Down || s.Reason != failover.Monitor {
		t.Errorf("the primary is %v for %v", s.State, s.Reason)
	}
	gate.Heal()
	served(t, client, "default", "main")
	if list := book.after(t, 2); len(list) != 2 || list[1].Reason != failover.Recovered {
		t.Errorf("switches %v", list)
	}
}

// The connect timeout is a target's own, by its dial profile.
func TestG22ConnectTimeoutOfATarget(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback")
	top, gate := gated(t, p, "main", timed(failover.Options{Recovery: -1}, "default", "main", "fallback"))
	gate.BlackHole()
	for i := range top.Targets {
		if top.Targets[i].Name == "main" {
			top.Targets[i].Profile = "impatient"
		}
	}
	begun := time.Now()
	client := dialGroups(t, top, reconnect(20*time.Millisecond, time.Minute),
		sdk.WithDialProfile("impatient", reconnect(20*time.Millisecond, 200*time.Millisecond)))
	book := watchGroup(t, client, "default")
	l := startLoad(t, client, "default", 1, 5*time.Millisecond, time.Second)
	if after := book.after(t, 1)[0].At.Sub(begun); after < 200*time.Millisecond || after > 400*time.Millisecond+l.lateness() {
		t.Errorf("left after %v, want 200 to 400 ms (late by at most %v here)", after, l.lateness())
	}
	served(t, client, "default", "fallback")
}
