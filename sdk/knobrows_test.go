package sdk_test

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

var clientKnobs = map[string]knob{
	"client.name": {from: "client: {name: shop}\n", to: "client: {name: other}\n", refused: true},
	"client.drainTimeout": {
		from: "client: {drainTimeout: 1h}\n", to: "client: {drainTimeout: 1ms}\n",
		after: func(w *knobWorld) bool { // a stream on a target that goes is cut
			w.hold(1)
			w.file.save(w.text("client: {drainTimeout: 1ms}\ngroups:\n  - {name: default, targets: [b]}\n"))
			eventually(w, "the target to be gone", func() bool { s := w.client.Status(); return len(s.Targets) == 1 && s.Targets[0].Name == "b" })
			return true
		},
	},
	"client.retireTimeout": { // the selector's data is never built anew, so that it leads to e2 until then
		from: "client: {retireTimeout: 1h}\n" + onCluster, to: "client: {retireTimeout: 50ms}\n" + onCluster,
		run: func(w *knobWorld) { hammer(w) },
		before: func(w *knobWorld) bool {
			return len(w.client.Status().Endpoints) == 2 && w.ring.builds.Load() > 0
		},
		after: func(w *knobWorld) bool {
			for len(w.ring.let) > 0 {
				<-w.ring.let
			}
			must(w, w.cluster.Resolve("e1"))
			eventually(w, "e2 to leave", func() bool { return len(w.client.Status().Endpoints) == 1 })
			eventually(w, "e2 to be over", func() bool { return w.client.Status().Retiring == 0 })
			return true
		},
	},
	"client.keepLastEndpoints": {
		from: onCluster, to: "client: {keepLastEndpoints: true}\n" + onCluster,
		before: func(w *knobWorld) bool { return w.fails(w.plain(), codes.OK) },
		after: func(w *knobWorld) bool {
			w.cluster.SetEndpoints()
			eventually(w, "an empty list", func() bool { return w.client.Status().EmptyUpdates > 0 })
			return w.fails(w.plain(), codes.OK)
		},
	},
	"client.keys": {
		from: sharded, to: "client: {keys: optional}\n" + sharded,
		before: func(w *knobWorld) bool { return w.fails(w.plain(), codes.InvalidArgument) },
		after:  func(w *knobWorld) bool { return w.fails(w.plain(), codes.OK) },
	},
	"client.unknownSelectors": {
		from: "", to: "client: {unknownSelectors: refuse}\n",
		before: func(w *knobWorld) bool { return w.fails(interceptors.WithSelector(w.plain(), "nobody"), codes.OK) },
		after: func(w *knobWorld) bool {
			return w.fails(interceptors.WithSelector(w.plain(), "nobody"), codes.Unavailable)
		},
	},
	"client.unknownGroups": {
		from: "", to: "client: {unknownGroups: refuse}\n",
		before: func(w *knobWorld) bool { return w.fails(interceptors.WithGroup(w.plain(), "nobody"), codes.OK) },
		after: func(w *knobWorld) bool {
			return w.fails(interceptors.WithGroup(w.plain(), "nobody"), codes.InvalidArgument)
		},
	},
	"client.badResults": {
		from: onCluster, to: "client: {badResults: p2c}\n" + onCluster,
		before: func(w *knobWorld) bool {
			return w.fails(interceptors.WithSelector(w.plain(), "bad"), codes.Unavailable)
		},
		after: func(w *knobWorld) bool { return w.fails(interceptors.WithSelector(w.plain(), "bad"), codes.OK) },
	},
	"inCode.groups":           {from: "inCode: {selectors: [bad]}\n", to: "inCode: {groups: [nobody]}\n", refused: true},
	"inCode.selectors":        {from: "inCode: {selectors: [bad]}\n", to: "inCode: {selectors: [nobody]}\n", refused: true},
	"inCode.profiles":         {from: "inCode: {profiles: [counted]}\n", to: "inCode: {profiles: [nobody]}\n", refused: true},
	"inCode.shardingServices": {from: "inCode: {shardingServices: [main]}\n", to: "inCode: {shardingServices: [nobody]}\n", refused: true},
	"keyHeader": {
		from: hashed, to: "keyHeader: x-key\n" + hashed,
		after: func(w *knobWorld) bool {
			return w.goes(w.keyed(), "a") && len(w.places["a"].Keys("x-key")) > 0
		},
	},
}

const (
	onCluster = "groups:\n  - {name: default, targets: [c]}\n"
	sharded   = onCluster + "sharding: {serviceKey: main, target: users, keyHeader: x-user}\n"
	hashed    = "selectors:\n  - {name: default, policy: {kind: ketama}}\n"
	two       = "groups:\n  - {name: default, targets: [a, b]"
	twoTarget = "targets:\n  - {name: b, uri: '{b}'}\n  - {name: a, uri: '{a}'"
)

func at(target string) func(*knobWorld) bool {
	return func(w *knobWorld) bool { return w.goes(w.plain(), target) }
}

func in2(group, target string) func(*knobWorld) bool {
	return func(w *knobWorld) bool { return w.goes(interceptors.WithGroup(w.plain(), group), target) }
}

var topologyKnobs = map[string]knob{
	"targets[].name": {
		from: twoTarget + "}\n", to: "targets:\n  - {name: renamed, uri: '{a}'}\ngroups:\n  - {name: default, targets: [renamed]}\n",
		before: at("a"),
		after: func(w *knobWorld) bool {
			s := w.client.Status()
			return w.goes(w.plain(), "a") && len(s.Targets) == 1 && s.Targets[0].Name == "renamed"
		},
	},
	"targets[].uri": {
		from: "targets:\n  - {name: a, uri: '{a}'}\n", to: "targets:\n  - {name: a, uri: '{b}'}\n",
		before: at("a"), after: at("b"),
	},
	"targets[].profile": {
		from: twoTarget + "}\n", to: twoTarget + ", profile: counted}\n",
		before: at("a"),
		after:  func(w *knobWorld) bool { return w.goes(w.plain(), "a") && w.dialled.Load() == 1 },
	},
	"targets[].minReady": {
		from: twoTarget + "}\n", to: twoTarget + ", minReady: 1}\n",
		after: func(w *knobWorld) bool {
			// A channel alone is asleep until somebody wants it.
			_, _ = w.client.WaitReady(within(w, time.Second))
			return w.live("a") == 1 && w.places["a"].Count() == 0
		},
	},
	"groups[].name": {
		from: "groups:\n  - {name: default, targets: [a]}\n  - {name: x, targets: [b]}\n", to: "groups:\n  - {name: default, targets: [a]}\n  - {name: y, targets: [b]}\n",
		before: in2("y", "a"), after: in2("y", "b"),
	},
	"groups[].targets": {from: "", to: "groups:\n  - {name: default, targets: [b]}\n", before: at("a"), after: at("b")},
	"groups[].recovery": {
		from: two + ", recovery: 24h}\n", to: two + ", recovery: 1ms}\n",
		before: func(w *knobWorld) bool {
			ok := w.goes(w.plain(), "a")
			if ok {
				w.places["a"].Kill()
			}
			return ok
		},
		after: at("b"),
	},
	"groups[].switchDelay": {
		from: two + ", switchDelay: 24h, minUptime: 0s, recovery: 0s}\n", to: two + ", switchDelay: 0s, minUptime: 0s, recovery: 0s}\n",
		before: backToFirst, after: at("a"),
	},
	"groups[].minUptime": {
		from: two + ", minUptime: 24h, recovery: 0s}\n", to: two + ", minUptime: 1ms, recovery: 0s}\n",
		before: backToFirst, after: at("a"),
	},
	"groups[].initialGrace": {
		from:   "groups:\n  - {name: default, targets: ['dns:///127.0.0.1:1', b], initialGrace: 24h, recovery: 24h}\n",
		to:     "groups:\n  - {name: default, targets: ['dns:///127.0.0.1:1', b], initialGrace: 1ms, recovery: 24h}\n",
		before: func(w *knobWorld) bool { return w.live("b") == 1 && w.fails(w.plain(), codes.Unavailable) },
		after:  at("b"),
	},
	"groups[].selector": {
		from: onCluster, to: "groups:\n  - {name: default, targets: [c], selector: bad}\n",
		before: answered, after: func(w *knobWorld) bool { return w.fails(w.plain(), codes.Unavailable) },
	},
	"groupsByMethod[].pattern": {
		from: twoGroups + "groupsByMethod:\n  - {pattern: /other.Service/*, group: x}\n", to: twoGroups + "groupsByMethod:\n  - {pattern: /slicewire.test.Echo/*, group: x}\n",
		before: at("a"), after: at("b"),
	},
	"groupsByMethod[].group": {
		from: twoGroups + "groupsByMethod:\n  - {pattern: '*', group: default}\n", to: twoGroups + "groupsByMethod:\n  - {pattern: '*', group: x}\n",
		before: at("a"), after: at("b"),
	},
}

const twoGroups = "groups:\n  - {name: default, targets: [a]}\n  - {name: x, targets: [b]}\n"

// backToFirst has the first target die and return, and the group stay at the second.
func backToFirst(w *knobWorld) bool {
	eventually(w, "the first target", func() bool { return w.goes(w.plain(), "a") })
	w.places["a"].Kill()
	eventually(w, "the second target", func() bool { return w.goes(w.plain(), "b") })
	must(w, w.places["a"].Restart())
	must(w, w.places["a"].WaitLive(within(w, 10*time.Second), 1))
	return w.goes(w.plain(), "b")
}

func ratio(fields string) string {
	return "targets:\n  - {name: a, uri: '{a}', errorRatio: {" + fields + "}}\n  - {name: b, uri: '{b}'}\n" + two + "}\n"
}

// failing has all calls to a fail.
func failing(code codes.Code) func(*knobWorld) {
	return func(w *knobWorld) {
		eventually(w, "the first target", func() bool { return w.goes(w.plain(), "a") })
		w.places["a"].FailCalls(code)
		hammer(w)
	}
}

func condemned(w *knobWorld) bool { return w.condemned("a") }

func spared(w *knobWorld) bool { return w.places["a"].Count() > 100 && !w.condemned("a") }

var ratioKnobs = map[string]knob{
	"targets[].errorRatio.ratio": {
		from: ratio("minFailures: 5, ratio: 1"), to: ratio("minFailures: 5, ratio: 0.3"), run: func(w *knobWorld) {
			eventually(w, "the first target", func() bool { return w.goes(w.plain(), "a") })
			w.forever(time.Millisecond, func() {
				w.poke()
				w.places["a"].FailNext(1, codes.Unavailable)
				w.poke()
			})
		}, before: spared, after: condemned,
	},
	"targets[].errorRatio.minFailures": {from: ratio("minFailures: 100000"), to: ratio("minFailures: 2, ratio: 0.1"), run: failing(codes.Unavailable), before: spared, after: condemned},
	"targets[].errorRatio.codes":       {from: ratio("ratio: 0.1"), to: ratio("ratio: 0.1, codes: [NOT_FOUND]"), run: failing(codes.NotFound), before: spared, after: condemned},
	"targets[].errorRatio.window": { // failures that are further apart than the window never meet
		from: ratio("minFailures: 3, ratio: 0.1, window: 1s"), to: ratio("minFailures: 3, ratio: 0.1, window: 1h"), run: func(w *knobWorld) {
			eventually(w, "the first target", func() bool { return w.goes(w.plain(), "a") })
			w.places["a"].FailCalls(codes.Unavailable)
			w.forever(600*time.Millisecond, w.poke)
		},
		before: func(w *knobWorld) bool { return w.places["a"].Count() > 4 && !w.condemned("a") }, after: condemned,
	},
	"targets[].errorRatio.hold": {
		from: ratio("minFailures: 2, ratio: 0.1, hold: 24h"), to: ratio("minFailures: 2, ratio: 0.1, window: 1s, hold: 2s"), run: failing(codes.Unavailable), before: condemned,
		after: func(w *knobWorld) bool {
			s := w.client.Status().Targets[0].ErrorRatio
			return s.Hold == 2*time.Second || !s.Condemned
		},
	},
	"targets[].errorRatio.probes": {
		from: ratio("minFailures: 2, ratio: 0.1, window: 1s, probes: 1000"), to: ratio("minFailures: 2, ratio: 0.1, window: 1s, probes: 1"), run: condemnedThenWell,
		before: condemned, after: func(w *knobWorld) bool { return !w.condemned("a") },
	},
	"targets[].errorRatio.onTrial": {
		from: ratio("minFailures: 2, ratio: 0.1, window: 1s, probes: 1000"), to: ratio("minFailures: 2, ratio: 0.1, window: 1s, probes: 1000, onTrial: true"), run: condemnedThenWell,
		before: condemned, after: func(w *knobWorld) bool { return !w.condemned("a") },
	},
}

// condemnedThenWell has a fail until it is condemned.
func condemnedThenWell(w *knobWorld) {
	eventually(w, "the first target", func() bool { return w.goes(w.plain(), "a") })
	w.places["a"].FailCalls(codes.Unavailable)
	eventually(w, "a verdict", func() bool { w.poke(); return w.condemned("a") })
	w.places["a"].Heal()
}

func named(policy string) string {
	return "selectors:\n  - {name: s, policy: {" + policy + "}}\n"
}

func sliced(in string) string {
	return sharded + "selectors:\n  - {name: default, policy: {kind: sliced" + in + "}}\n"
}

var selectorKnobs = map[string]knob{
	"selectors[].name": {
		from: "client: {unknownSelectors: refuse}\n" + named("kind: random"), to: "client: {unknownSelectors: refuse}\nselectors:\n  - {name: r, policy: {kind: random}}\n",
		before: func(w *knobWorld) bool { return w.fails(interceptors.WithSelector(w.plain(), "s"), codes.OK) },
		after: func(w *knobWorld) bool {
			return w.fails(interceptors.WithSelector(w.plain(), "r"), codes.OK) && w.fails(interceptors.WithSelector(w.plain(), "s"), codes.Unavailable)
		},
	},
	"selectors[].policy.kind":            {from: named("kind: random"), to: named("kind: round_robin"), before: says("s", selection.Random()), after: says("s", selection.RoundRobin())},
	"selectors[].policy.penalty":         {from: named("kind: p2c"), to: named("kind: p2c, penalty: 3s"), before: says("s", selection.P2C()), after: says("s", selection.P2C().WithPenalty(3*time.Second))},
	"selectors[].policy.pointsPerWeight": {from: named("kind: ketama"), to: named("kind: ketama, pointsPerWeight: 40"), after: says("s", selection.Ketama(selection.KetamaOptions{PointsPerWeight: 40}))},
	"selectors[].policy.maxPoints":       {from: named("kind: ketama"), to: named("kind: ketama, maxPoints: 1000"), after: says("s", selection.Ketama(selection.KetamaOptions{MaxPoints: 1000}))},
	"selectors[].policy.seed":            {from: named("kind: ketama"), to: named("kind: ketama, seed: 7"), after: says("s", selection.Ketama(selection.KetamaOptions{Seed: 7}))},
	"selectors[].policy.inSlice.kind":    {from: sliced(""), to: sliced(", inSlice: {kind: random}"), after: says("default", selection.Sliced(selection.Random()))},
	"selectors[].policy.inSlice.penalty": {
		from: sliced(", inSlice: {kind: p2c}"), to: sliced(", inSlice: {kind: p2c, penalty: 3s}"),
		after: says("default", selection.Sliced(selection.P2C().WithPenalty(3*time.Second))),
	},
	"selectorsByMethod[].pattern": {
		from: onCluster + "selectorsByMethod:\n  - {pattern: /other.Service/*, selector: bad}\n", to: onCluster + "selectorsByMethod:\n  - {pattern: /slicewire.test.Echo/Who, selector: bad}\n",
		before: answered, after: func(w *knobWorld) bool { return w.fails(w.plain(), codes.Unavailable) },
	},
	"selectorsByMethod[].selector": {
		from: onCluster + "selectorsByMethod:\n  - {pattern: '*', selector: default}\n", to: onCluster + "selectorsByMethod:\n  - {pattern: '*', selector: bad}\n",
		before: answered, after: func(w *knobWorld) bool { return w.fails(w.plain(), codes.Unavailable) },
	},
}

var breakerKnobs = map[string]knob{
	"breaker.minThroughput": {from: "breaker: {minThroughput: 1000000}\n", to: "breaker: {minThroughput: 2}\n", run: failing(codes.Unavailable), before: called, after: opened},
	"breaker.ratio": {
		from: "breaker: {minThroughput: 4, ratio: 1}\n", to: "breaker: {minThroughput: 4, ratio: 0.25}\n", run: func(w *knobWorld) {
			w.forever(time.Millisecond, func() {
				w.poke()
				w.places["a"].FailNext(1, codes.Unavailable)
				w.poke()
			})
		}, before: called, after: opened,
	},
	"breaker.window": { // failures that are further apart than the window never meet
		from: "breaker: {minThroughput: 3, window: 1s}\n", to: "breaker: {minThroughput: 3, window: 1h}\n", run: func(w *knobWorld) {
			w.places["a"].FailCalls(codes.Unavailable)
			w.forever(600*time.Millisecond, w.poke)
		},
		before: func(w *knobWorld) bool { return w.places["a"].Count() > 3 && w.refusedFor() == 0 }, after: opened,
	},
	"breaker.open": {
		from: "breaker: {minThroughput: 2, open: 24h}\n", to: "breaker: {minThroughput: 2, open: 1m}\n", run: failing(codes.Unavailable),
		before: func(w *knobWorld) bool { return w.refusedFor() > time.Hour },
		after:  func(w *knobWorld) bool { d := w.refusedFor(); return d > 0 && d <= time.Minute },
	},
	"breaker.halfOpen": {
		from: "breaker: {minThroughput: 2, open: 1ms}\n", to: "breaker: {minThroughput: 2, open: 1ms, halfOpen: 3}\n",
		run: func(w *knobWorld) { eventually(w, "an answer", func() bool { return w.goes(w.plain(), "a") }) },
		after: func(w *knobWorld) bool { // three trial calls at once
			w.places["a"].FailCalls(codes.Unavailable)
			for range 10 {
				w.poke()
			}
			w.places["a"].Heal()
			w.places["a"].Hold()
			defer w.places["a"].Release()
			had := w.places["a"].Count()
			ctx, cancel := context.WithCancel(context.Background())
			for range 5 {
				w.background(func() { _, _ = sdktest.NewEcho(w.client).Who(ctx, "", patient) })
			}
			w.Cleanup(cancel)
			eventually(w, "three trial calls", func() bool { return w.places["a"].Count() >= had+3 })
			return true
		},
	},
	"breaker.codes": {from: "breaker: {minThroughput: 2}\n", to: "breaker: {minThroughput: 2, codes: [NOT_FOUND]}\n", run: failing(codes.NotFound), before: called, after: opened},
}

func called(w *knobWorld) bool { return w.places["a"].Count() > 50 && w.refusedFor() == 0 }

func opened(w *knobWorld) bool { return w.refusedFor() > 0 }

func conns(fields string) string { return "connections: {" + fields + "}\n" }

func connected(n int) func(*knobWorld) bool {
	return func(w *knobWorld) bool { w.poke(); return w.live("a") == n }
}

var connectionKnobs = map[string]knob{
	"connections.min": {from: conns("min: 1"), to: conns("min: 2"), before: connected(1), after: connected(2)},
	"connections.max": {
		from: conns("streams: 1"), to: conns("streams: 1, max: 3"), before: connected(1), after: func(w *knobWorld) bool {
			w.hold(3)
			eventually(w, "three connections", func() bool { return connected(3)(w) })
			return true
		},
	},
	"connections.streams": {
		from: conns("max: 3"), to: conns("max: 3, streams: 1"), run: func(w *knobWorld) { w.hold(3); w.forever(10*time.Millisecond, w.poke) }, before: connected(1), after: connected(3),
	},
	"connections.scaleDownAfter": {
		from: conns("max: 3, streams: 1, scaleDownAfter: 24h"), to: conns("max: 3, streams: 1, scaleDownAfter: 20ms"), run: func(w *knobWorld) {
			ctx, cancel := context.WithCancel(context.Background())
			for range 3 {
				w.holdIn(ctx)
			}
			eventually(w, "three connections", func() bool { w.poke(); return w.live("a") == 3 })
			cancel()
		}, after: func(w *knobWorld) bool { return w.live("a") == 1 },
	},
	"connections.maxAge": {
		from: "", to: conns("maxAge: 100ms"), before: connected(1),
		after: func(w *knobWorld) bool { w.poke(); return w.places["a"].Connections().Accepted >= 3 },
	},
	"connections.minReady": {
		from: onCluster, to: conns("minReady: 2") + onCluster,
		after: func(w *knobWorld) bool {
			_, _ = w.client.WaitReady(within(w, time.Second))
			n := 0
			for _, b := range w.cluster.Backends() {
				n += b.Connections().Live
			}
			return n == 2
		},
	},
	"connections.unresponsive.deadlines": {
		from: conns("unresponsive: {deadlines: 1000000, window: 10ms}"), to: conns("unresponsive: {deadlines: 2, window: 10ms}"), run: silentServer, after: replaced,
	},
	"connections.unresponsive.window": {
		from: conns("unresponsive: {deadlines: 2, window: 1h}"), to: conns("unresponsive: {deadlines: 2, window: 10ms}"), run: silentServer, after: replaced,
	},
}

// silentServer answers one call and then none.
func silentServer(w *knobWorld) {
	eventually(w, "an answer", func() bool { return w.goes(w.plain(), "a") })
	w.places["a"].Hold()
	w.Cleanup(w.places["a"].Release)
	hammer(w)
}

func replaced(w *knobWorld) bool { return w.client.Status().Connections.Unresponsive > 0 }
