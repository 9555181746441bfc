package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

const (
	noWait = "No RPC attempt waited"
	noCall = "No call waited before its first attempt"
)

var delays = board{
	name: "delays", title: "delays",
	about: "What RPCs wait for before they are sent (gRFC A121).",
	own:   []variable{grpcTargetOf},
	rows: []row{
		{"RPC attempts", []panel{
			{title: "Attempts that waited", kind: areas, unit: units.RequestsPerSecond, noData: noWait, queries: []query{
				{"sum by (grpc_delay_type) (rate({{grpc.client.attempt.delay.duration:count}}[$__rate_interval]))", "{{grpc_delay_type}}"},
			}},
			{title: "Attempts that wait at a time", kind: areas, unit: units.Short, noData: noWait, about: "Seconds waited in each second, by what for: how many attempts wait at a time, on average.", queries: []query{
				{"sum by (grpc_delay_type) (rate({{grpc.client.attempt.delay.duration:sum}}[$__rate_interval]))", "{{grpc_delay_type}}"},
			}},
			{title: "How long, median", unit: units.Seconds, noData: noWait, queries: []query{quantile(0.5, "grpc.client.attempt.delay.duration", "grpc_delay_type")}},
			{title: "How long, 99th percentile", unit: units.Seconds, noData: noWait, queries: []query{quantile(0.99, "grpc.client.attempt.delay.duration", "grpc_delay_type")}},
			{title: "By target, 99th percentile", width: 24, unit: units.Seconds, noData: noWait, queries: []query{quantile(0.99, "grpc.client.attempt.delay.duration", "grpc_target")}},
		}},
		{"Calls, before their first attempt", []panel{
			{title: "Calls that waited", kind: areas, unit: units.RequestsPerSecond, noData: noCall, queries: []query{
				{"sum by (grpc_target, grpc_delay_type) (rate({{grpc.client.call.delay.duration:count}}[$__rate_interval]))", "{{grpc_target}} {{grpc_delay_type}}"},
			}},
			{title: "How long", unit: units.Seconds, noData: noCall, queries: []query{
				quantile(0.5, "grpc.client.call.delay.duration", "grpc_delay_type"),
				quantile(0.99, "grpc.client.call.delay.duration", "grpc_delay_type"),
			}},
		}},
		{"What they wait for", []panel{
			{title: "Picks that queued", unit: units.RequestsPerSecond, noData: noPicks, queries: []query{
				{`sum by (target, selector) (rate({{slicewire.picks|result="queued"}}[$__rate_interval]))`, "{{target}} {{selector}}"},
			}},
			{title: "Endpoints that are not ready", kind: areas, unit: units.Short, noData: "No client knows an endpoint", queries: []query{
				{`sum by (target, state) ({{slicewire.endpoints|state!="ready"}})`, "{{target}} {{state}}"},
			}},
		}},
	},
}
