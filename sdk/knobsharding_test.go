package sdk_test

import (
	"time"

	"google.golang.org/grpc/codes"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/assignment"
)

// shardings are rows for the sharding of the client, or of its target.
func shardings(path string, text func(fields string) string) map[string]knob {
	row := func(from, to string, is func(*balancer.Config) bool) knob {
		return knob{from: text(from), to: text(to), before: lbConfig(func(c *balancer.Config) bool { return !is(c) }), after: lbConfig(is)}
	}
	return map[string]knob{
		path + "serviceKey": row("serviceKey: main, target: users, keyHeader: x-user", "serviceKey: backup, target: users, keyHeader: x-user",
			func(c *balancer.Config) bool { return c.ChannelFactoryKey == "backup" }),
		path + "target": row("serviceKey: main, target: users, keyHeader: x-user", "serviceKey: main, target: orders, keyHeader: x-user",
			func(c *balancer.Config) bool { return c.SlicingTarget == "orders" }),
		path + "keyHeader": row("serviceKey: main, target: users, keyHeader: x-user", "serviceKey: main, target: users, keyHeader: x-order",
			func(c *balancer.Config) bool { return c.KeyHeader == "x-order" }),
		path + "fallback": row("serviceKey: main, target: users, keyHeader: x-user", "serviceKey: main, target: users, keyHeader: x-user, fallback: true",
			func(c *balancer.Config) bool { return c.EnableFallback }),
		path + "initialTimeout": row("serviceKey: main, target: users, keyHeader: x-user", "serviceKey: main, target: users, keyHeader: x-user, initialTimeout: 3s",
			func(c *balancer.Config) bool { return c.InitialAssignmentTimeout == 3*time.Second }),
		path + "specRevision": row("serviceKey: main, target: users, keyHeader: x-user", "serviceKey: main, target: users, keyHeader: x-user, specRevision: 2026-10",
			func(c *balancer.Config) bool { return c.Revision == assignment.Revision202610 }),
	}
}

// streams is how many streams the sharding service has seen.
func streams(n int) func(*knobWorld) bool {
	return func(w *knobWorld) bool { w.poke(); return len(w.cluster.Sharding().FirstMessages()) >= n }
}

func stream(fields string) string { return sharded + "shardingStream: {" + fields + "}\n" }

func services(service, key string) string {
	return onCluster + "shardingServices:\n  - {" + service + "}\nsharding: {serviceKey: " + key + ", target: users, keyHeader: x-user}\n"
}

func answered(w *knobWorld) bool { return w.fails(w.plain(), codes.OK) }

func keyedOK(w *knobWorld) bool { return w.fails(w.keyed(), codes.OK) }

// unknownTarget has the sharding service refuse every stream.
func refusedStreams(w *knobWorld) {
	w.cluster.Sharding().Refuse(codes.Unavailable, "not now")
	hammer(w)
}

var streamKnobs = map[string]knob{
	"shardingServices[].key": {
		from: services("key: x, uri: '{S1}'", "x"), to: services("key: y, uri: '{S1}'", "y"), before: keyedOK,
		after: func(w *knobWorld) bool { return keyedOK(w) && w.client.Status().Config.ChannelFactoryKey == "y" },
	},
	"shardingServices[].uri": {
		from: services("key: x, uri: '{S1}'", "x"), to: services("key: x, uri: '{S2}'", "x"), before: keyedOK,
		after: func(w *knobWorld) bool {
			return keyedOK(w) && w.other.Streams().Live == 1 && w.cluster.Sharding().Streams().Live == 0
		},
	},
	"shardingServices[].profile": {
		from: services("key: x, uri: '{S1}'", "x"), to: services("key: x, uri: '{S1}', profile: counted", "x"), before: keyedOK,
		after: func(w *knobWorld) bool { return keyedOK(w) && w.dialled.Load() == 1 },
	},
	"shardingStream.refreshInterval": {from: stream("minGap: 1ms"), to: stream("minGap: 1ms, refreshInterval: 20ms"), before: keyedOK, after: streams(5)},
	"shardingStream.minGap": {
		from: stream("minGap: 1h, refreshInterval: 20ms"), to: stream("minGap: 1ms, refreshInterval: 20ms"), before: keyedOK, after: streams(5),
	},
	"shardingStream.backoff.baseDelay": {
		from: stream("minGap: 1ms, backoff: {baseDelay: 1h, maxDelay: 1h}"), to: stream("minGap: 1ms, backoff: {baseDelay: 1ms, maxDelay: 1h, multiplier: 1}"),
		run: refusedStreams, after: attempts(8),
	},
	"shardingStream.backoff.maxDelay": {
		from: stream("minGap: 1ms, backoff: {baseDelay: 1ms, multiplier: 100, maxDelay: 1h}"), to: stream("minGap: 1ms, backoff: {baseDelay: 1ms, multiplier: 100, maxDelay: 2ms}"),
		run: refusedStreams, after: attempts(8),
	},
	"shardingStream.backoff.multiplier": {
		from: stream("minGap: 1ms, backoff: {baseDelay: 1ms, multiplier: 100, maxDelay: 1h}"), to: stream("minGap: 1ms, backoff: {baseDelay: 1ms, multiplier: 1, maxDelay: 1h}"),
		run: refusedStreams, after: attempts(8),
	},
	"shardingStream.backoff.jitter": { // without it no two streams are closer than 100 ms
		from: stream("minGap: 1ms, backoff: {baseDelay: 100ms, multiplier: 1, jitter: 0}"), to: stream("minGap: 1ms, backoff: {baseDelay: 100ms, multiplier: 1, jitter: 1}"),
		run: refusedStreams, after: closeAttempts(60 * time.Millisecond),
	},
	"shardingStream.maxAssignmentBytes": {
		from: stream("minGap: 1ms"), to: stream("minGap: 1ms, maxAssignmentBytes: 1024"), before: keyedOK,
		prepare: large, after: noAssignment,
	},
	"shardingStream.maxMessageBytes": {
		from: stream("minGap: 1ms"), to: stream("minGap: 1ms, maxMessageBytes: 1024"), before: keyedOK,
		prepare: large, after: noAssignment,
	},
}
