package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

// What empty panels say.
const (
	noPicks  = "No RPC was picked"
	noGroups = "No client has groups of targets"
	noShards = "No client uses a sharding service"
)

var overview = board{
	name: "overview", title: "overview",
	about: "Where RPCs go, whether they get there, and what changed. Start here; the links lead to the parts.",
	rows: []row{
		{"Is it well?", []panel{
			{
				title: "Picks", kind: number, unit: units.RequestsPerSecond, noData: noPicks,
				about:   "Picks that ended: queued ones, which are picked again, are left out.",
				wrong:   "Far from what callers do: retries multiply, or callers do not get this far; compare with their own counts.",
				queries: []query{{`sum (rate({{slicewire.picks|result!="queued"}}[$__rate_interval]))`, "picks"}},
			},
			{
				title: "Fallback share", kind: number, unit: units.PercentUnit, noData: noPicks, bad: 0.05,
				about:   "Share of picks that went to any endpoint because nobody serves the key's slice.",
				wrong:   "See Fallbacks by reason below: it says whether the sharding service, the names or the owners are at fault.",
				queries: []query{{`sum (rate({{slicewire.picks|result="fallback"}}[$__rate_interval])) / (sum (rate({{slicewire.picks|result!="queued"}}[$__rate_interval])) > 0)`, "fallback"}},
			},
			{
				title: "Failed share", kind: number, unit: units.PercentUnit, noData: noPicks, bad: 0.01,
				about:   "Share of picks that failed their RPC or dropped it.",
				wrong:   "Read the errors of the RPCs: they name target, slice and endpoint. Then Endpoints by state.",
				queries: []query{{`sum (rate({{slicewire.picks|result=~"failed|dropped"}}[$__rate_interval])) / (sum (rate({{slicewire.picks|result!="queued"}}[$__rate_interval])) > 0)`, "failed"}},
			},
			{
				title: "Endpoints in failure", kind: number, unit: units.PercentUnit, noData: "No client knows an endpoint", bad: 0.2,
				about:   "Share of endpoints whose connection fails, over all clients.",
				queries: []query{{`sum ({{slicewire.endpoints|state="transient_failure"}}) / sum ({{slicewire.endpoints}})`, "failing"}},
			},
			{
				title: "Streams connected", kind: number, unit: units.PercentUnit, noData: noShards, bad: 0.9, goodAbove: true,
				about:   "Share of clients whose stream to the sharding service is open. A client that makes no RPCs goes idle after half an hour and closes it.",
				queries: []query{{`avg ({{slicewire.sharding.stream.connected}})`, "connected"}},
			},
			{
				title: "Slices without owner", kind: number, unit: units.Short, noData: noShards, bad: 1,
				queries: []query{{`max ({{slicewire.assignment.uncovered_slices}})`, "slices"}},
			},
		}},
		{"Where RPCs go", []panel{
			{title: "Picks by result", kind: areas, unit: units.RequestsPerSecond, noData: noPicks, queries: []query{rate("slicewire.picks", "result")}},
			{title: "Fallbacks by reason", kind: areas, unit: units.RequestsPerSecond, noData: "No pick fell back", queries: []query{rate("slicewire.fallbacks", "reason")}},
			{title: "Endpoints by state", kind: areas, unit: units.Short, noData: "No client knows an endpoint", queries: []query{total("slicewire.endpoints", "state")}},
			{
				title: "RPCs that wait", unit: units.Short, noData: "No RPC attempt waited",
				about: "How many RPC attempts wait at a time, on average, by what for. Of all clients: gRPC's metrics name none.",
				queries: []query{
					{"sum by (grpc_delay_type) (rate({{grpc.client.attempt.delay.duration:sum}}[$__rate_interval]))", "{{grpc_delay_type}}"},
				},
			},
		}},
		{"What changed", []panel{
			{
				title: "Control events", kind: bars, unit: units.Short, noData: "Nothing changed",
				about: "Assignments, switches of groups, policies and configurations, at about the time when they came.",
				wrong: "Look at what happened just before things went wrong, and then at the dashboard of that part.",
				queries: []query{
					happened("slicewire.assignment.updates", "result").named("assignment"),
					began("slicewire.group.switches", "reason").named("switch"),
					began("slicewire.policy.publications", "result").named("policy"),
					began("slicewire.config.applies", "result").named("config"),
				},
			},
			{title: "Current targets", kind: areas, unit: units.Short, noData: noGroups, about: "How many clients send a group's RPCs to each target.", queries: []query{total("slicewire.group.current", "group, target")}},
		}},
		{"Fleet and callers", []panel{
			{title: "Versions", kind: areas, unit: units.Short, noData: "No process is scraped", about: "Processes by version of Slicewire.", queries: []query{total("slicewire.build_info", "version")}},
			{title: "Calls without a key", unit: units.RequestsPerSecond, noData: "No call was refused for want of a key", queries: []query{rate("slicewire.key.missing", "client, selector")}},
			{title: "Length of keys", unit: units.BytesIEC, noData: "No call had a key", queries: []query{
				quantile(0.5, "slicewire.key.size", "selector"),
				quantile(0.99, "slicewire.key.size", "selector"),
			}},
		}},
	},
}
