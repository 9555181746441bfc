package sdk_test

import (
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/failover"
)

// A primary that is up for 5 ms between outages of 100 ms, for 2 s, with a recovery
// timeout of 150 ms, does not hold the traffic, and gets it back only after it has
// been up for a stable period.
func TestME05FlappingPrimary(t *testing.T) {
	t.Parallel()
	const recovery = 150 * time.Millisecond
	p := startPlaces(t, "main", "fallback")
	client := dialGroups(t, p.topology(timed(failover.Options{Recovery: recovery}, "default", "main", "fallback")),
		reconnect(2*time.Millisecond, time.Second))
	served(t, client, "default", "main")
	eventually(t, "credit", func() bool { return targetState(client, "default", "main").Credit })
	book := watchGroup(t, client, "default")
	l := startLoad(t, client, "default", 2, 5*time.Millisecond, time.Second)
	connections := p["main"].Connections().Accepted

	begun, longestUp := time.Now(), time.Duration(0)
	for time.Since(begun) < 2*time.Second {
		p["main"].Kill()
		time.Sleep(100 * time.Millisecond)
		up := time.Now()
		if err := p["main"].Restart(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
		longestUp = max(longestUp, time.Since(up))
	}
	if longestUp+l.lateness()/2 > recovery*3/4 {
		t.Skipf("the primary was up for %v instead of 5 ms, and goroutines wait for %v here", longestUp, l.lateness())
	}
	flapped := p["main"].Connections().Accepted - connections
	if flapped < 5 {
		t.Errorf("the primary was seen up only %d times", flapped)
	}
	eventually(t, "traffic back on the primary", func() bool { return client.Group("default").Current() == "main" })
	for time.Since(begun) < 5*time.Second {
		time.Sleep(10 * time.Millisecond)
	}
	list := book.after(t, 2)
	if len(list) != 2 {
		t.Fatalf("%d switches in 5 s, want 2: %v", len(list), list)
	}
	away, back := list[0], list[1]
	if after := away.At.Sub(begun); after > time.Second || away.To != "fallback" || away.Reason != failover.Lost {
		t.Errorf("%+v after %v, want to the fallback within 1 s", away, after)
	}
	up := targetState(client, "default", "main").Since
	if stable := back.At.Sub(up); back.Reason != failover.Recovered || stable < recovery || up.Sub(begun) < 1900*time.Millisecond {
		t.Errorf("back after it was up for %v, %v after the start: %+v", stable, up.Sub(begun), back)
	}
	for _, a := range l.end() {
		if a.begun.After(away.At.Add(l.lateness())) && a.err != nil {
			t.Errorf("%v after the start an RPC failed: %v", a.begun.Sub(begun), a.err)
			break
		}
	}
	t.Logf("away %v after the start; up for good after %v, back %v later; %d connections while it flapped",
		away.At.Sub(begun), up.Sub(begun), back.At.Sub(up), flapped)
}

// The first state of a target is never missed, however soon it is reached. Not
// parallel: it is about a second.
func TestME09FirstStateIsSeen(t *testing.T) {
	p := startPlaces(t, "main", "fallback")
	top := p.topology(timed(failover.Options{}, "default", "main", "fallback"), timed(failover.Options{Recovery: -1}, "other", "fallback", "main"))
	stall := startLoad(t, nil, "", 0, 0, 0)
	var slowest time.Duration
	for round := range 300 {
		begun := time.Now()
		client := dialGroups(t, top)
		for name, first := range map[string]string{"default": "main", "other": "fallback"} {
			if a := one(client, name, 10*time.Second); a.err != nil || a.from != first {
				t.Fatalf("round %d: group %q answered by %q, %v", round, name, a.from, a.err)
			}
			eventually(t, "first target ready", func() bool {
				return targetState(client, name, first).State == failover.Ready && client.Group(name).Current() == first
			})
		}
		took := time.Since(begun)
		slowest = max(slowest, took)
		if took > time.Second+stall.lateness() {
			t.Errorf("round %d: the primary was in use after %v", round, took)
		}
		for _, g := range client.Status().Groups {
			if len(g.Switches) > 0 {
				t.Errorf("round %d: group %q switched: %v", round, g.Name, g.Switches)
			}
		}
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("slowest round %v", slowest)
}

// A group whose second target is the only one that lives is there, too, from the
// first state on.
func TestME09FirstFailureIsSeen(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback")
	p["main"].Kill()
	for range 50 {
		client := dialGroups(t, p.topology(group("default", "main", "fallback")))
		served(t, client, "default", "fallback")
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
