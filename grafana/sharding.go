package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

var sharding = board{
	name: "sharding", title: "sharding",
	about: "Whether assignments come, are fresh and are whole.",
	rows: []row{
		{"The sharding service", []panel{
			{title: "Streams connected", unit: units.PercentUnit, noData: noShards, about: "Share of clients whose stream to the sharding service is open, by target. A client that makes no RPCs goes idle after half an hour and closes it.", queries: []query{
				{"avg by (target) ({{slicewire.sharding.stream.connected}})", "{{target}}"},
			}},
			{title: "Streams opened", kind: bars, unit: units.Short, noData: noShards, queries: []query{happened("slicewire.sharding.streams", "target")}},
			{title: "Assignments that came", kind: bars, unit: units.Short, noData: noShards, queries: []query{happened("slicewire.assignment.updates", "target, result")}},
			{title: "Acks", kind: bars, unit: units.Short, noData: noShards, queries: []query{happened("slicewire.sharding.acks", "target, result")}},
		}},
		{"Is it fresh?", []panel{
			{title: "Age of the oldest assignment", unit: units.Seconds, noData: "No client has an assignment", queries: []query{greatest("slicewire.assignment.age", "target, selector")}},
			{
				title: "Generations apart", unit: units.Short, noData: "No client has an assignment",
				about: "How far the newest and the oldest generation that clients hold are apart, by target.",
				queries: []query{
					greatest("slicewire.assignment.generation", "target, selector").named("newest"),
					least("slicewire.assignment.generation", "target, selector").named("oldest"),
				},
			},
		}},
		{"Is it whole?", []panel{
			{title: "Slices without owner", unit: units.Short, noData: "No client has an assignment", queries: []query{greatest("slicewire.assignment.uncovered_slices", "target, selector")}},
			{title: "Slices", unit: units.Short, noData: "No client has an assignment", queries: []query{greatest("slicewire.assignment.slices", "target, selector")}},
			{title: "Endpoints: assigned and resolved", unit: units.Short, noData: "No client has an assignment", queries: []query{
				greatest("slicewire.assignment.endpoints", "target, selector").named("assigned"),
				{"max by (target) (sum by (client, instance, target) ({{slicewire.endpoints}}))", "resolved {{target}}"},
			}},
			{title: "Fallbacks by reason", kind: areas, unit: units.RequestsPerSecond, noData: "No pick fell back", queries: []query{rate("slicewire.fallbacks", "target, reason")}},
		}},
		{"What it costs", []panel{
			{title: "Memory of an assignment", unit: units.BytesIEC, noData: "No assignment was put in force in this time", queries: []query{
				quantile(0.5, "slicewire.assignment.size", "target"),
				quantile(0.99, "slicewire.assignment.size", "target"),
			}},
			{title: "Time to build an assignment", unit: units.Seconds, noData: "No assignment was put in force in this time", queries: []query{
				quantile(0.5, "slicewire.assignment.build.duration", "target"),
				quantile(0.99, "slicewire.assignment.build.duration", "target"),
			}},
		}},
	},
}
