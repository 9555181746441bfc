package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

var groups = board{
	name: "groups", title: "groups and failover",
	about: "Which target each group's RPCs go to, since when, and why.",
	own:   []variable{groupOf},
	rows: []row{
		{"Where groups are", []panel{
			{
				title: "Current target", kind: timeline, unit: units.Short, noData: noGroups,
				about:   "Whether any client sends the group's RPCs to a target. Two current ones at a time: clients differ.",
				queries: []query{greatest("slicewire.group.current", "group, target")},
				states:  map[string]string{"0": "standby", "1": "current"},
			},
			{title: "Clients on each target", kind: areas, unit: units.Short, noData: noGroups, queries: []query{total("slicewire.group.current", "group, target")}},
			{title: "Switches by reason", kind: bars, unit: units.Short, noData: noGroups, queries: []query{began("slicewire.group.switches", "group, reason")}},
		}},
		{"How targets are", []panel{
			{title: "Targets by state", kind: areas, unit: units.Short, noData: noGroups, about: "How many clients see each target of a group in each state.", queries: []query{
				{"sum by (group, target, state) ({{slicewire.target.state}}) > 0", "{{group}} {{target}} {{state}}"},
			}},
			{title: "Time down", unit: units.PercentUnit, noData: noGroups, about: "Share of time that a target was not available to its group, as the worst off client saw it.", queries: []query{
				{"max by (group, target) (rate({{slicewire.target.downtime}}[$__rate_interval]))", "{{group}} {{target}}"},
			}},
			{title: "Error ratio", unit: units.PercentUnit, noData: "Nobody judges targets by their errors", queries: []query{greatest("slicewire.target.error_ratio", "target")}},
			{title: "Probes of the monitor", kind: areas, unit: units.CountsPerSecond, noData: "No client has a monitor", queries: []query{rate("slicewire.target.probes", "result")}},
		}},
	},
}
