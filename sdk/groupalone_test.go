package sdk_test

import (
	"testing"

	"github.com/slicewire/slicewire/balancer/failover"
)

// A target that was for a while the only one of its group, and came up meanwhile, is
// known to be up when it has others beside it again: it is not left for them.
func TestG12AloneForAWhile(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "fallback")
	both, alone := p.topology(group("default", "main", "fallback")), p.topology(group("default", "main"))
	client := dialGroups(t, both)
	served(t, client, "default", "main")
	p["main"].Kill()
	served(t, client, "default", "fallback")
	if _, err := client.UpdateTopology(alone); err != nil {
		t.Fatal(err)
	}
	if err := p["main"].Restart(); err != nil {
		t.Fatal(err)
	}
	served(t, client, "default", "main")
	book := watchGroup(t, client, "default")
	if _, err := client.UpdateTopology(both); err != nil {
		t.Fatal(err)
	}
	if s := targetState(client, "default", "main"); s.State != failover.Ready {
		t.Errorf("main is %v", s.State)
	}
	served(t, client, "default", "main")
	if list := book.switches(); len(list) > 0 {
		t.Errorf("switches %v", list)
	}
}

// A group that is new finds its best target in one step, whatever is known of those
// before it.
func TestG12NewGroupOfKnownTargets(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b", "c")
	client := dialGroups(t, p.topology(group("default", "a", "b", "c")))
	p["a"].Kill()
	p["b"].Kill()
	served(t, client, "default", "c")
	if _, err := client.UpdateTopology(p.topology(group("default", "a", "b", "c"), group("new", "a", "b", "c"))); err != nil {
		t.Fatal(err)
	}
	g := client.Status().Groups[1]
	if g.Current != "c" || len(g.Switches) != 1 || g.Switches[failover.Lost] != 1 {
		t.Errorf("the new group is at %q after switches %v", g.Current, g.Switches)
	}
}
