package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

const noConnections = "No client has a connection"

var pools = board{
	name: "pools", title: "pools and health",
	about: "Connections, how loaded they are, and which servers are avoided.",
	rows: []row{
		{"Connections", []panel{
			{title: "Connections by state", kind: areas, unit: units.Short, noData: noConnections, queries: []query{total("slicewire.connections", "state")}},
			{title: "Opened and closed", kind: bars, unit: units.Short, noData: noConnections, queries: []query{
				happened("slicewire.connection.opens", "target").named("opened"),
				happened("slicewire.connection.closes", "target, reason"),
			}},
		}},
		{"Pools", []panel{
			{title: "Connections of pools", kind: areas, unit: units.Short, noData: noConnections, queries: []query{total("slicewire.pool.connections", "target")}},
			{title: "RPCs in flight on a connection", unit: units.Short, noData: noConnections, queries: []query{
				mean("slicewire.pool.streams", "target"),
				quantile(0.99, "slicewire.pool.streams", "target"),
			}},
			{title: "Added and drained for load", kind: bars, unit: units.Short, noData: noConnections, queries: []query{happened("slicewire.pool.scalings", "target, direction")}},
			{title: "Replaced because silent", kind: bars, unit: units.Short, noData: noConnections, queries: []query{happened("slicewire.pool.unresponsive", "target")}},
		}},
		{"Health", []panel{
			{title: "Servers by health", kind: areas, unit: units.Short, noData: "No client probes servers", queries: []query{total("slicewire.health.targets", "state")}},
			{title: "Probes", kind: areas, unit: units.CountsPerSecond, noData: "No client probes servers", queries: []query{rate("slicewire.health.probes", "result")}},
			{title: "Changes of health", kind: bars, unit: units.Short, noData: "No client probes servers", queries: []query{happened("slicewire.health.flips", "state")}},
		}},
		{"Breakers", []panel{
			{title: "Open breakers", kind: areas, unit: units.Short, noData: "No client has admission", queries: []query{total("slicewire.admission.breakers.open", "target")}},
			{title: "Candidates refused", unit: units.RequestsPerSecond, noData: "No client has admission", queries: []query{rate("slicewire.admission.rejections", "target, reason")}},
		}},
	},
}
