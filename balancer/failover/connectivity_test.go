package failover_test

import (
	"slices"
	"testing"

	"github.com/slicewire/slicewire/balancer/failover"
)

var none = failover.Options{Recovery: -1}

// G-05: four states, and what brings a target from one to the other.
func TestG05TargetStates(t *testing.T) {
	t.Parallel()
	o := failover.Options{Recovery: 300 * ms, InitialGrace: 200 * ms}
	// What a second target does, which is not current; the first is idle all along.
	runAll(t, []script{
		{name: "new", options: o, end: 10_000, states: "idle idle"},
		{name: "first connect", options: o, events: []event{trying(10, "b")}, states: "idle recovering"},
		{name: "first connect takes too long", options: o, events: []event{trying(10, "b")}, end: 210, states: "idle down"},
		{name: "first connect just in time", options: o, events: []event{trying(10, "b")}, end: 209, states: "idle recovering"},
		{name: "first connect given up", options: o, events: []event{trying(10, "b"), dormant(60, "b")}, end: 1000, states: "idle idle"},
		{name: "connect after a long sleep has its grace", options: o, events: []event{trying(9000, "b"), failed(9100, "b")}, end: 9199, states: "idle recovering"},
		{name: "and no more than that", options: o, events: []event{trying(9000, "b"), failed(9100, "b")}, end: 9200, states: "idle down"},
		{name: "failure out of the blue has none", options: o, events: []event{failed(9000, "b")}, states: "idle down"},
		{name: "up", options: o, events: []event{trying(10, "b"), up(20, "b")}, end: 5000, states: "idle ready"},
		{name: "gone quiet", options: o, events: []event{up(20, "b"), dormant(50, "b")}, end: 5000, states: "idle idle"},
		{name: "lost", options: o, events: []event{up(20, "b"), failed(50, "b")}, end: 349, states: "idle recovering"},
		{name: "lost for good", options: o, events: []event{up(20, "b"), failed(50, "b")}, end: 350, states: "idle down"},
		{name: "reconnecting", options: o, events: []event{up(20, "b"), dormant(50, "b"), trying(60, "b")}, end: 359, states: "idle recovering"},
		{name: "reconnecting for too long", options: o, events: []event{up(20, "b"), dormant(50, "b"), trying(60, "b")}, end: 360, states: "idle down"},
		{name: "quiet is not up", options: o, events: []event{failed(10, "b"), dormant(300, "b"), trying(310, "b"), dormant(900, "b")}, states: "idle down"},
		{name: "quiet after a failure within the window", options: o, events: []event{up(0, "b"), failed(10, "b"), dormant(50, "b")}, states: "idle recovering"},
		{name: "quiet after a connect that took too long", options: o, events: []event{up(0, "b"), trying(10, "b"), dormant(500, "b")}, states: "idle down"},
		{name: "up again", options: o, events: []event{failed(10, "b"), dormant(500, "b"), up(900, "b"), dormant(901, "b")}, states: "idle idle"},
		{name: "without recovery trying is no evidence", options: none, events: []event{trying(10, "b")}, end: 9000, states: "idle idle"},
		{name: "nor does it undo a failure", options: none, events: []event{failed(10, "b"), trying(20, "b")}, states: "idle down"},
		{name: "without recovery a failure is", options: none, events: []event{trying(10, "b"), failed(500, "b")}, states: "idle down"},
		{name: "without recovery reconnecting is idle", options: none, events: []event{up(10, "b"), trying(20, "b")}, end: 9000, states: "idle idle"},
		{name: "grace without recovery", options: failover.Options{Recovery: -1, InitialGrace: 100 * ms}, events: []event{failed(10, "b")}, end: 99, states: "idle recovering"},
		{name: "recovery without grace", options: failover.Options{InitialGrace: -1}, events: []event{failed(10, "b")}, states: "idle down"},
	})
}

// G-06: a standby that was never used, or was idle for long, takes over within
// recovery and its connect.
func TestG06IdleStandbyTakesOver(t *testing.T) {
	t.Parallel()
	const hours = 3_600_000
	o := failover.Options{Recovery: 300 * ms}
	runAll(t, []script{
		{
			name: "never used", options: o,
			events: []event{up(0, "a"), failed(hours, "a")}, end: 2 * hours,
			want: []string{"3600300 a>b lost"},
		},
		{
			name: "idle for hours", options: o,
			events: []event{up(0, "a"), up(0, "b"), dormant(100, "b"), failed(hours, "a"), trying(hours+301, "b"), up(hours+340, "b")}, end: 2 * hours,
			want:   []string{"3600300 a>b lost"},
			states: "down ready",
		},
		{
			name: "idle, and dead when it is needed", targets: "a b c", options: o,
			events: []event{up(0, "a"), up(0, "c"), failed(hours, "a"), trying(hours+301, "b"), failed(hours+310, "b")}, end: 2 * hours,
			want: []string{"3600300 a>b lost", "3600601 b>c lost"},
		},
		{
			name: "sharded primary that never says ready", options: o,
			events: []event{up(10, "b")}, end: hours,
			states: "idle ready",
		},
	})
}

// G-07, ME-04: a target that's lost keeps its traffic for the recovery timeout.
func TestG07ME04Recovery(t *testing.T) {
	t.Parallel()
	o := failover.Options{Recovery: 300 * ms}
	both := []event{up(0, "a"), up(0, "b")}
	runAll(t, []script{
		{name: "short outage", options: o, events: slices.Concat(both, []event{failed(1000, "a"), up(1150, "a")}), end: 9000},
		{
			name: "for good", options: o, events: slices.Concat(both, []event{failed(1000, "a")}), end: 9000,
			want: []string{"1300 a>b lost"},
		},
		{
			name: "repeated reports do not extend", options: o,
			events: slices.Concat(both, []event{
				dormant(1000, "a"), trying(1000, "a"), failed(1100, "a"), trying(1200, "a"), failed(1250, "a"), dormant(1260, "a"), trying(1290, "a"), failed(1299, "a"),
			}),
			end:  9000,
			want: []string{"1300 a>b lost"},
		},
		{
			name: "reports of a stale state", options: o,
			events: slices.Concat(both, []event{failed(1000, "a"), failed(1000, "a"), tick(1100), up(1150, "a"), up(1160, "a"), up(1161, "b")}), end: 9000,
		},
		{
			name: "a higher priority ends the wait", options: o,
			events: []event{failed(0, "a"), up(0, "b"), failed(1000, "b"), up(1100, "a")}, end: 9000,
			want: []string{"300 a>b lost", "1100 b>a recovered"},
		},
		{
			name: "a lower one does not", targets: "a b c", options: o,
			events: []event{failed(0, "a"), up(0, "b"), failed(0, "c"), failed(1000, "b"), up(1100, "c")}, end: 9000,
			want: []string{"300 a>b lost", "1300 b>c lost"},
		},
		{
			name: "higher one that is not stable yet", options: o,
			events: []event{failed(0, "a"), up(0, "b"), up(900, "a"), failed(1000, "b")}, end: 9000,
			want: []string{"300 a>b lost", "1000 b>a lost"},
		},
		{
			name: "timeout none", options: none, events: slices.Concat(both, []event{dormant(999, "a"), trying(999, "a"), failed(1000, "a")}), end: 9000,
			want: []string{"1000 a>b lost"},
		},
		{
			name: "default", events: slices.Concat(both, []event{failed(5000, "a")}), end: 9000,
			want: []string{"6000 a>b lost"},
		},
		{
			name: "best of several", targets: "a b c d", options: o,
			events: []event{up(0, "a"), failed(0, "b"), up(0, "c"), up(0, "d"), failed(1000, "a")}, end: 9000,
			want: []string{"1300 a>c lost"},
		},
		{
			name: "a verdict within the window ends it", options: o,
			events: slices.Concat(both, []event{failed(1000, "a"), bad(1100, "a", failover.ByMonitor)}), end: 9000,
			want: []string{"1100 a>b monitor"},
		},
	})
}

// ME-05: a primary that flaps cannot hold the group hostage, nor pull it back and
// forth.
func TestME05Flapping(t *testing.T) {
	t.Parallel()
	flap := func(down ...func(int, string) event) []event {
		events := []event{up(0, "a"), up(0, "b")}
		for start := 1000; start < 3000; start += 105 { // down 100 of 105 ms for 2 s
			for _, d := range down {
				events = append(events, d(start, "a"))
			}
			events = append(events, up(start+100, "a"))
		}
		return events
	}
	o := failover.Options{Recovery: 150 * ms}
	// The last outage begins at 2995 and ends at 3095.
	runAll(t, []script{
		{name: "failing", options: o, events: flap(failed), end: 6000, want: []string{"1150 a>b lost", "3245 b>a recovered"}},
		{name: "reconnecting", options: o, events: flap(trying), end: 6000, want: []string{"1150 a>b lost", "3245 b>a recovered"}},
		{name: "idle first", options: o, events: flap(dormant, trying), end: 6000, want: []string{"1150 a>b lost", "3245 b>a recovered"}},
		{
			name: "longer uptime wanted", options: failover.Options{Recovery: 150 * ms, MinUptime: 2000 * ms}, events: flap(failed), end: 9000,
			want: []string{"1150 a>b lost", "5095 b>a recovered"},
		},
		{
			name: "without recovery", options: failover.Options{Recovery: -1, MinUptime: 500 * ms}, events: flap(failed), end: 9000,
			want: []string{"1000 a>b lost", "3595 b>a recovered"},
		},
		{
			name: "uptimes do not add up", options: failover.Options{Recovery: 100 * ms, MinUptime: 100 * ms},
			events: []event{
				up(0, "a"), up(0, "b"), failed(1000, "a"), up(1050, "a"), dormant(1130, "a"), up(1140, "a"), failed(1230, "a"),
			},
			end: 2000, want: []string{"1230 a>b lost"},
		},
		{
			name: "credit again after a stable time", options: o,
			events: []event{up(0, "a"), up(0, "b"), failed(1000, "a"), up(1100, "a"), failed(1250, "a"), up(1390, "a")}, end: 9000,
		},
		{
			name: "and not a millisecond before", options: o,
			events: []event{up(0, "a"), up(0, "b"), failed(1000, "a"), up(1100, "a"), failed(1249, "a")}, end: 9000,
			want: []string{"1249 a>b lost"},
		},
		{
			name: "saying it again starts no new uptime", options: o,
			events: []event{up(0, "b"), failed(0, "a"), up(1000, "a"), up(1100, "a"), up(1149, "a")}, end: 1150,
			want: []string{"150 a>b lost", "1150 b>a recovered"},
		},
		{
			name: "nobody else to go to", options: o,
			events: []event{up(0, "a"), failed(0, "b"), failed(1000, "a"), up(1100, "a"), failed(1110, "a"), up(1500, "a")}, end: 9000,
			states: "ready down",
		},
	})
}

// G-08: a new target has its initial grace, counted from its start.
func TestG08InitialGrace(t *testing.T) {
	t.Parallel()
	o := failover.Options{Recovery: 5000 * ms}
	runAll(t, []script{
		{
			name: "dead primary at start costs the grace", options: o,
			events: []event{trying(0, "a"), trying(0, "b"), up(20, "b"), failed(30, "a"), trying(500, "a"), failed(700, "a")}, end: 9000,
			want: []string{"1000 a>b lost"},
		},
		{
			name: "a black hole as well", options: o,
			events: []event{trying(0, "a"), trying(0, "b"), up(20, "b")}, end: 9000,
			want: []string{"1000 a>b lost"},
		},
		{
			name: "failure at half the grace", options: o,
			events: []event{up(20, "b"), failed(600, "a")}, end: 9000,
			want: []string{"1000 a>b lost"},
		},
		{
			name: "never above recovery by default", options: failover.Options{Recovery: 200 * ms},
			events: []event{up(20, "b"), failed(30, "a")}, end: 9000,
			want: []string{"200 a>b lost"},
		},
		{
			name: "of its own length", options: failover.Options{InitialGrace: 3000 * ms},
			events: []event{up(20, "b"), failed(30, "a")}, end: 9000,
			want: []string{"3000 a>b lost"},
		},
		{
			name: "none", options: failover.Options{InitialGrace: -1},
			events: []event{up(20, "b"), failed(30, "a")}, end: 9000,
			want: []string{"30 a>b lost"},
		},
		{name: "up within it", options: o, events: []event{up(20, "b"), failed(30, "a"), up(900, "a")}, end: 9000},
		{
			name: "both dead, one returns", options: o,
			events: []event{failed(20, "a"), failed(20, "b"), up(3000, "b")}, end: 9000,
			want: []string{"3000 a>b lost"},
		},
		{
			name: "new target, added later", options: o,
			events: []event{up(0, "a"), up(0, "b"), list(4000, "n a b"), trying(4000, "n"), failed(4200, "n")}, end: 4999,
			states: "recovering ready ready",
		},
		{
			name: "new target, down after its grace", options: o,
			events: []event{up(0, "a"), up(0, "b"), list(4000, "n a b"), trying(4000, "n"), failed(4200, "n")}, end: 5000,
			states: "down ready ready",
		},
		{
			name: "a first connect does not use up the recovery", options: failover.Options{Recovery: 300 * ms},
			events: []event{trying(0, "a"), up(10, "a"), up(10, "b"), failed(50, "a"), up(340, "a")}, end: 9000,
		},
		{
			name: "a first failure does", options: failover.Options{Recovery: 300 * ms},
			events: []event{failed(0, "a"), up(0, "b"), up(200, "a"), failed(301, "a")}, end: 9000,
			want: []string{"301 a>b lost"},
		},
	})
}

// ME-12, the machine's part: a primary that drops packets is left by the first
// connect that times out, and retries say nothing new.
func TestME12BlackHole(t *testing.T) {
	t.Parallel()
	retries := []event{up(0, "a"), up(0, "b"), dormant(1000, "a"), trying(1000, "a"), failed(1500, "a")}
	for at := 2000; at < 9000; at += 1000 {
		retries = append(retries, trying(at, "a"), failed(at+500, "a"))
	}
	runAll(t, []script{
		{name: "recovery none", options: none, events: retries, want: []string{"1500 a>b lost"}},
		{name: "default", events: retries, want: []string{"2000 a>b lost"}},
		{name: "at start", options: none, events: retries[3:], want: []string{"1500 a>b lost"}},
	})
}
