package failover_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/failover"
)

// G-09: a move between two available targets waits; leaving a target that's not
// available does not. The delay belongs to one candidate and one start.
func TestG09SwitchDelay(t *testing.T) {
	t.Parallel()
	o := failover.Options{Recovery: -1, SwitchDelay: 500 * ms}
	lost := func(targets ...string) (events []event) { // at 0, all others are up
		for _, name := range targets {
			events = append(events, failed(0, name))
		}
		return events
	}
	runAll(t, []script{
		{
			name: "back to the primary", options: o,
			events: slices.Concat(lost("a"), []event{up(1000, "a")}), end: 9000,
			want: []string{"0 a>b lost", "1500 b>a recovered"},
		},
		{
			name: "no delay by default", options: none,
			events: slices.Concat(lost("a"), []event{up(1000, "a")}), end: 9000,
			want: []string{"0 a>b lost", "1000 b>a recovered"},
		},
		{
			name: "leaving a lost one does not wait", options: o,
			events: []event{up(0, "a"), up(0, "b"), failed(1000, "a")},
			want:   []string{"1000 a>b lost"},
		},
		{
			name: "lost while waiting", options: o,
			events: slices.Concat(lost("a"), []event{up(1000, "a"), failed(1200, "b")}), end: 9000,
			want: []string{"0 a>b lost", "1200 b>a lost"},
		},
		{
			name: "candidate lost while waiting", options: o,
			events: slices.Concat(lost("a"), []event{up(1000, "a"), failed(1200, "a"), up(1400, "a")}), end: 9000,
			want: []string{"0 a>b lost", "1900 b>a recovered"},
		},
		{
			name: "candidate lost when it is due", options: o,
			events: slices.Concat(lost("a"), []event{up(1000, "a"), failed(1500, "a")}), end: 9000,
			want: []string{"0 a>b lost"},
		},
		{
			name: "another candidate starts anew", targets: "a b c", options: o,
			events: slices.Concat(lost("a", "b"), []event{up(1000, "b"), up(1400, "a")}), end: 9000,
			want: []string{"0 a>b lost", "0 b>c lost", "1900 c>a recovered"},
		},
		{
			name: "and so does the first one then", targets: "a b c", options: o,
			events: slices.Concat(lost("a", "b"), []event{up(1000, "b"), up(1400, "a"), failed(1800, "a")}), end: 9000,
			want: []string{"0 a>b lost", "0 b>c lost", "2300 c>b recovered"},
		},
		{
			name: "a worse one does not", targets: "a b c", options: o,
			events: slices.Concat(lost("a", "b"), []event{up(1000, "a"), up(1400, "b")}), end: 9000,
			want: []string{"0 a>b lost", "0 b>c lost", "1500 c>a recovered"},
		},
		{
			name: "the current one removed while waiting", targets: "a b c d", options: o,
			events: slices.Concat(lost("a", "b"), []event{up(1000, "a"), list(1300, "a d b")}), end: 9000,
			want: []string{"0 a>b lost", "0 b>c lost", "1300 c>a removed"},
		},
		{
			name: "another current starts anew", targets: "a b c", options: failover.Options{Recovery: 300 * ms, SwitchDelay: 500 * ms},
			events: []event{failed(0, "a"), failed(0, "b"), up(0, "c"), up(700, "b"), up(1000, "a")}, end: 9000,
			want: []string{"300 a>c lost", "1200 c>b recovered", "1700 b>a recovered"},
		},
		{
			name: "a new list with the same two does not", targets: "a b c", options: o,
			events: slices.Concat(lost("a"), []event{up(1000, "a"), list(1300, "a b"), list(1400, "a b c")}), end: 9000,
			want: []string{"0 a>b lost", "1500 b>a recovered"},
		},
		{
			name: "the wait for uptime counts", options: failover.Options{Recovery: 300 * ms, SwitchDelay: 500 * ms},
			events: slices.Concat(lost("a"), []event{up(1000, "a")}), end: 9000,
			want: []string{"300 a>b lost", "1500 b>a recovered"},
		},
		{
			name: "the longer of both decides", options: failover.Options{Recovery: 800 * ms, SwitchDelay: 500 * ms},
			events: slices.Concat(lost("a"), []event{up(1000, "a")}), end: 9000,
			want: []string{"800 a>b lost", "1800 b>a recovered"},
		},
		{
			name: "one that flaps cannot delay another", targets: "a b c", options: failover.Options{Recovery: 300 * ms, SwitchDelay: 500 * ms},
			events: []event{
				failed(0, "a"), failed(0, "b"), up(0, "c"), up(1000, "b"),
				up(1100, "a"), failed(1150, "a"), up(1250, "a"), failed(1300, "a"), up(1400, "a"), failed(1450, "a"),
			},
			end: 9000, want: []string{"300 a>c lost", "1500 c>b recovered"},
		},
		{
			name: "quiet is still available", options: o,
			events: slices.Concat(lost("a"), []event{up(1000, "a"), dormant(1100, "a"), up(1200, "a")}), end: 9000,
			want: []string{"0 a>b lost", "1500 b>a recovered"},
		},
	})
}

// G-10: nobody available, keep the current one; the first to return is used at once.
func TestG10NobodyAvailable(t *testing.T) {
	t.Parallel()
	o := failover.Options{Recovery: 300 * ms, SwitchDelay: 5000 * ms}
	down := []event{up(0, "a"), up(0, "b"), up(0, "c"), failed(500, "c"), failed(1000, "b"), failed(1100, "a")}
	runAll(t, []script{
		{name: "keep", targets: "a b c", options: o, events: down, end: 9000, states: "down down down"},
		{
			name: "lowest first", targets: "a b c", options: o, events: slices.Concat(down, []event{up(5000, "c")}),
			want: []string{"5000 a>c lost"},
		},
		{
			name: "current first", targets: "a b c", options: o, events: slices.Concat(down, []event{up(5000, "a"), up(5000, "c")}), end: 20000,
		},
		{
			name: "highest first", options: o, events: []event{failed(0, "a"), up(0, "b"), failed(4000, "b"), up(6000, "a")},
			want: []string{"300 a>b lost", "6000 b>a recovered"},
		},
		{
			name: "all condemned", targets: "a b", options: o,
			events: []event{up(0, "a"), up(0, "b"), bad(10, "b", failover.ByErrorRatio), bad(20, "a", failover.ByMonitor), good(50, "b", failover.ByErrorRatio)},
			want:   []string{"50 a>b monitor"},
		},
		{
			name: "a recovering one is not available", options: o,
			events: []event{up(0, "a"), up(0, "b"), failed(1000, "a"), failed(1200, "b")}, end: 9000,
		},
	})
}

// G-11: the current target is no longer in the list.
func TestG11CurrentRemoved(t *testing.T) {
	t.Parallel()
	o := failover.Options{Recovery: 300 * ms, SwitchDelay: 5000 * ms}
	up3 := []event{up(0, "a"), up(0, "b"), up(0, "c")}
	runAll(t, []script{
		{
			name: "first available", targets: "a b c", options: o, events: slices.Concat(up3, []event{failed(500, "b"), list(1000, "b c")}), end: 9000,
			want: []string{"1000 a>c removed"},
		},
		{
			name: "top if none is", targets: "a b c", options: o, events: slices.Concat(up3, []event{failed(500, "b"), failed(500, "c"), list(1000, "c b")}), end: 9000,
			want: []string{"1000 a>c removed"},
		},
		{
			name: "all others are new", options: o, events: slices.Concat(up3[:2], []event{list(1000, "x y")}), end: 9000,
			want: []string{"1000 a>x removed"},
		},
		{
			name: "new ones and one that is up", options: o, events: slices.Concat(up3[:2], []event{list(1000, "x b")}), end: 9000,
			want: []string{"1000 a>x removed"},
		},
		{name: "another is removed", targets: "a b c", options: o, events: slices.Concat(up3, []event{list(1000, "a c")}), end: 9000},
		{
			name: "what is known stays", targets: "a b c", options: o,
			events: slices.Concat(up3, []event{failed(1000, "a"), list(1150, "b a c")}), end: 1300,
			want: []string{"1150 a>b reordered"},
		},
		{
			name: "a window goes on", targets: "a b", options: o,
			events: slices.Concat(up3[:2], []event{failed(1000, "a"), list(1150, "a b c"), list(1200, "a c b")}), end: 1300,
			want: []string{"1300 a>c lost"},
		},
		{
			name: "removed and back is new", targets: "a b", options: o,
			events: slices.Concat(up3[:2], []event{failed(1000, "a"), list(2000, "b"), list(2100, "b a")}), end: 9000,
			want: []string{"1300 a>b lost"}, states: "ready idle",
		},
	})
}

// A new list that keeps the current target: the order decides as always.
func TestG11NewOrder(t *testing.T) {
	t.Parallel()
	o := failover.Options{Recovery: 300 * ms, SwitchDelay: 500 * ms}
	runAll(t, []script{
		{
			name: "after the delay", options: o, events: []event{up(0, "a"), up(0, "b"), list(5000, "b a")}, end: 9000,
			want: []string{"5500 a>b reordered"},
		},
		{
			name: "undone in time", options: o, events: []event{up(0, "a"), up(0, "b"), list(5000, "b a"), list(5400, "a b"), list(5500, "b a")}, end: 9000,
			want: []string{"6000 a>b reordered"},
		},
		{
			name: "lost and up again", options: o, events: []event{up(0, "a"), up(0, "b"), list(5000, "b a"), failed(5100, "b"), up(5200, "b")}, end: 9000,
			want: []string{"5700 a>b recovered"},
		},
		{
			name: "a healthy target does not yield to one never seen", options: failover.Options{},
			events: []event{up(0, "a"), list(5000, "n a"), trying(5010, "n"), failed(5500, "n")}, end: 9000,
		},
		{
			name: "until it is up", options: failover.Options{},
			events: []event{up(0, "a"), list(5000, "n a"), trying(5010, "n"), up(5050, "n")}, end: 9000,
			want: []string{"5050 a>n recovered"},
		},
		{
			name: "or its grace is over and it did not fail", options: failover.Options{},
			events: []event{up(0, "a"), list(5000, "n a")}, end: 9000,
			want: []string{"6000 a>n reordered"},
		},
		{
			name: "not while it is connecting", options: failover.Options{Recovery: -1},
			events: []event{up(0, "a"), trying(1, "b"), list(5000, "b a"), failed(5500, "b")}, end: 9000,
		},
		{
			name: "a lost target yields to one never seen", options: failover.Options{},
			events: []event{up(0, "a"), failed(4900, "a"), list(5000, "n a")}, end: 9000,
			want: []string{"5000 a>n reordered"},
		},
		{
			name: "that was before another target", options: failover.Options{},
			events: []event{up(0, "a"), list(5000, "x y a"), up(5050, "x"), pin(5100, "a", 5200), failed(5150, "x")}, end: 9000,
			want: []string{"5050 a>x reordered", "5100 x>a pinned", "6000 a>y recovered"},
		},
		{
			name: "that was undone", options: failover.Options{}, targets: "a",
			events: []event{up(0, "a"), list(5000, "x y a"), list(5010, "a x y"), failed(5050, "a"), pin(5100, "y", 5200)}, end: 9000,
			want: []string{"5100 a>y pinned", "6000 y>x recovered"},
		},
		{
			name: "a flapping one must be stable", options: failover.Options{},
			events: []event{up(0, "b"), failed(0, "a"), up(3000, "a")}, end: 9000,
			want: []string{"1000 a>b lost", "4000 b>a recovered"},
		},
		{
			name: "quiet before it was stable", options: failover.Options{},
			events: []event{up(0, "b"), failed(0, "a"), up(3000, "a"), dormant(3500, "a")}, end: 9000,
			want: []string{"1000 a>b lost"}, states: "idle ready",
		},
	})
}

// G-21: an operator chooses the target, for a while.
func TestG21Pin(t *testing.T) {
	t.Parallel()
	o := failover.Options{Recovery: 300 * ms, SwitchDelay: 5000 * ms}
	both := []event{up(0, "a"), up(0, "b")}
	runAll(t, []script{
		{
			name: "moves and returns", options: o, events: slices.Concat(both, []event{pin(1000, "b", 3000)}), end: 9000,
			want: []string{"1000 a>b pinned", "3000 b>a unpinned"},
		},
		{
			name: "with other timings at its end", options: o, events: slices.Concat(both, []event{pin(1000, "b", 3000), timings(3000, o)}), end: 9000,
			want: []string{"1000 a>b pinned", "3000 b>a unpinned"},
		},
		{
			name: "by hand", options: o, events: slices.Concat(both, []event{pin(1000, "b", 3000), unpin(2000), unpin(2100)}), end: 9000,
			want: []string{"1000 a>b pinned", "2000 b>a unpinned"},
		},
		{
			name: "a down one", options: o, events: []event{up(0, "a"), failed(0, "b"), pin(1000, "b", 3000), bad(1500, "b", failover.ByOperator)}, end: 9000,
			want: []string{"1000 a>b pinned", "3000 b>a unpinned"},
		},
		{
			name: "lost while pinned", options: o, events: slices.Concat(both, []event{pin(1000, "b", 3000), failed(1500, "b")}), end: 9000,
			want: []string{"1000 a>b pinned", "3000 b>a unpinned"},
		},
		{
			name: "the other is lost meanwhile", options: o, events: slices.Concat(both, []event{pin(1000, "b", 3000), failed(1500, "a")}), end: 9000,
			want: []string{"1000 a>b pinned"},
		},
		{
			name: "and back, but not stable yet", options: failover.Options{},
			events: slices.Concat(both, []event{pin(1000, "b", 3000), failed(1500, "a"), up(2500, "a")}), end: 9000,
			want: []string{"1000 a>b pinned", "3500 b>a recovered"},
		},
		{
			name: "the current one, against its loss", options: o, events: slices.Concat(both, []event{pin(1000, "a", 3000), failed(1500, "a")}), end: 9000,
			want: []string{"3000 a>b unpinned"},
		},
		{
			name: "longer", options: o, events: slices.Concat(both, []event{pin(1000, "b", 3000), pin(2500, "b", 4000)}), end: 9000,
			want: []string{"1000 a>b pinned", "4000 b>a unpinned"},
		},
		{
			name: "another", targets: "a b c", options: o, events: slices.Concat(both, []event{pin(1000, "b", 3000), pin(2500, "c", 2600)}), end: 9000,
			want: []string{"1000 a>b pinned", "2500 b>c pinned", "2600 c>a unpinned"},
		},
		{
			name: "removed", targets: "a b c", options: o, events: slices.Concat(both, []event{pin(1000, "c", 9000), list(2000, "b a"), up(2500, "a")}), end: 9000,
			want: []string{"1000 a>c pinned", "2000 c>b removed"},
		},
		{
			name: "another is removed", targets: "a b c", options: o, events: slices.Concat(both, []event{pin(1000, "c", 3000), list(2000, "b c")}), end: 9000,
			want: []string{"1000 a>c pinned", "3000 c>b unpinned"},
		},
		{
			name: "ends while nobody is available", options: o,
			events: slices.Concat(both, []event{pin(1000, "b", 3000), failed(1500, "a"), failed(1500, "b"), up(5000, "a")}), end: 9000,
			want: []string{"1000 a>b pinned", "5000 b>a recovered"},
		},
	})
}

func TestG21PinRefused(t *testing.T) {
	t.Parallel()
	m, err := failover.New([]string{"a", "b"}, failover.Options{}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Pin("c", at(50), at(0)); err == nil || !strings.Contains(err.Error(), `"c"`) || !strings.Contains(err.Error(), `"a", "b"`) {
		t.Errorf("pin of a target that's not in the group: %v", err)
	}
	if _, err := m.Pin("b", at(50), at(50)); err == nil {
		t.Error("a pin that has ended is no error")
	}
	m.Tick(at(100))
	if _, err := m.Pin("b", at(50), at(0)); err == nil {
		t.Error("a pin that has ended by an earlier time is no error")
	}
	if target, _, ok := m.Pinned(); ok || m.Current() != "a" {
		t.Errorf("pinned %q, current %q after refused pins", target, m.Current())
	}
	must(m.Pin("b", at(500), at(100)))
	if target, until, ok := m.Pinned(); !ok || target != "b" || !until.Equal(at(500)) {
		t.Errorf("pinned %q until %v, %v", target, until, ok)
	}
	if last := m.Last(); last != (failover.Switch{From: "a", To: "b", Reason: failover.Pinned, At: at(100)}) {
		t.Errorf("last switch is %v", last)
	}
}

// The other signals: down at once, with a reason of their own, and back to what
// connectivity says. Whoever gives the verdict has its own hysteresis.
func TestG51Signals(t *testing.T) {
	t.Parallel()
	both := []event{up(0, "a"), up(0, "b")}
	runAll(t, []script{
		{
			name: "error ratio", events: slices.Concat(both, []event{bad(1000, "a", failover.ByErrorRatio), bad(1500, "a", failover.ByErrorRatio), good(5000, "a", failover.ByErrorRatio)}),
			end: 9000, want: []string{"1000 a>b error_ratio", "5000 b>a recovered"},
		},
		{
			name: "monitor", events: slices.Concat(both, []event{bad(1000, "a", failover.ByMonitor), good(5000, "a", failover.ByMonitor)}),
			end: 9000, want: []string{"1000 a>b monitor", "5000 b>a recovered"},
		},
		{
			name: "operator", events: slices.Concat(both, []event{bad(1000, "a", failover.ByOperator), good(5000, "a", failover.ByOperator)}),
			end: 9000, want: []string{"1000 a>b disabled", "5000 b>a recovered"},
		},
		{
			name: "all must agree", events: slices.Concat(both, []event{
				bad(1000, "a", failover.ByMonitor), bad(1000, "a", failover.ByErrorRatio), good(2000, "a", failover.ByMonitor),
				failed(2500, "a"), good(3000, "a", failover.ByErrorRatio), up(5000, "a"),
			}),
			end: 9000, want: []string{"1000 a>b monitor", "6000 b>a recovered"},
		},
		{
			name: "after a delay", options: failover.Options{SwitchDelay: 700 * ms},
			events: slices.Concat(both, []event{bad(1000, "a", failover.ByErrorRatio), good(5000, "a", failover.ByErrorRatio)}),
			end:    9000, want: []string{"1000 a>b error_ratio", "5700 b>a recovered"},
		},
		{
			name: "a standby", events: slices.Concat(both, []event{bad(1000, "b", failover.ByMonitor), failed(2000, "a"), good(7000, "b", failover.ByMonitor)}),
			end: 9000, want: []string{"7000 a>b lost"},
		},
		{
			name: "an idle one", events: []event{bad(1000, "a", failover.ByOperator)}, want: []string{"1000 a>b disabled"}, states: "down idle",
		},
		{
			name: "unknown", events: slices.Concat(both, []event{bad(1000, "x", failover.ByOperator), bad(1000, "a", 9), failed(1000, "x")}),
			states: "ready ready",
		},
		{
			name: "no such connectivity", events: []event{failed(0, "a"), up(0, "b"), up(2000, "a"), observe(2500, "a", 9), up(2600, "a")},
			end: 9000, want: []string{"1000 a>b lost", "3000 b>a recovered"},
		},
	})
}

// ME-08, the machine's part: changed timings hold for what is under way.
func TestME08Timings(t *testing.T) {
	t.Parallel()
	o := failover.Options{Recovery: 300 * ms}
	lost := []event{up(0, "a"), up(0, "b"), failed(1000, "a")}
	back := []event{failed(0, "a"), up(0, "b"), up(1000, "a")}
	with := func(recovery, uptime, grace, delay int) failover.Options {
		return failover.Options{Recovery: ms * time.Duration(recovery), MinUptime: ms * time.Duration(uptime), InitialGrace: ms * time.Duration(grace), SwitchDelay: ms * time.Duration(delay)}
	}
	runAll(t, []script{
		{name: "longer window", options: o, events: slices.Concat(lost, []event{timings(1200, with(600, 0, 0, 0))}), end: 9000, want: []string{"1600 a>b lost"}},
		{name: "shorter window", options: o, events: slices.Concat(lost, []event{timings(1100, with(150, 0, 0, 0))}), end: 9000, want: []string{"1150 a>b lost"}},
		{name: "over already", options: o, events: slices.Concat(lost, []event{timings(1200, with(150, 0, 0, 0))}), end: 9000, want: []string{"1200 a>b lost"}},
		{name: "none", options: o, events: slices.Concat(lost, []event{timings(1200, with(-1, 0, 0, 0))}), end: 9000, want: []string{"1200 a>b lost"}},
		{name: "not opened again", options: o, events: slices.Concat(lost, []event{timings(1400, with(9000, 0, 0, 0))}), end: 9000, want: []string{"1300 a>b lost"}},
		{name: "due when it changes", options: o, events: slices.Concat(lost, []event{timings(1300, with(9000, 0, 0, 0))}), end: 9000, want: []string{"1300 a>b lost"}},
		{name: "longer uptime", options: o, events: slices.Concat(back, []event{timings(1100, with(300, 900, 0, 0))}), end: 9000, want: []string{"300 a>b lost", "1900 b>a recovered"}},
		{name: "shorter uptime", options: o, events: slices.Concat(back, []event{timings(1100, with(300, 50, 0, 0))}), end: 9000, want: []string{"300 a>b lost", "1100 b>a recovered"}},
		{name: "longer grace", options: o, events: slices.Concat(back[:2], []event{timings(200, with(300, 0, 500, 0))}), end: 9000, want: []string{"500 a>b lost"}},
		{name: "a delay now", options: o, events: slices.Concat(back, []event{timings(1100, with(300, 0, 0, 700))}), end: 9000, want: []string{"300 a>b lost", "1700 b>a recovered"}},
		{
			name: "shorter delay", options: with(-1, 0, 0, 5000), events: slices.Concat(back, []event{timings(1100, with(-1, 0, 0, 700))}), end: 9000,
			want: []string{"0 a>b lost", "1700 b>a recovered"},
		},
		{
			name: "delay gone", options: with(-1, 0, 0, 5000), events: slices.Concat(back, []event{timings(1100, none)}), end: 9000,
			want: []string{"0 a>b lost", "1100 b>a recovered"},
		},
	})
}
