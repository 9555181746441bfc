package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

const noConfig = "No client follows a configuration"

var configuration = board{
	name: "configuration", title: "configuration",
	about: "Which configuration is in force, since when, and what became of those that came.",
	rows: []row{
		{"In force", []panel{
			{title: "Since when", unit: units.Seconds, noData: noConfig, queries: []query{
				least("slicewire.config.age", "client").named("newest"),
				greatest("slicewire.config.age", "client").named("oldest"),
			}},
			{title: "Revision", unit: units.Short, noData: noConfig, queries: []query{greatest("slicewire.config.revision", "client")}},
		}},
		{"What came", []panel{
			{title: "Applied or refused", kind: bars, unit: units.Short, noData: noConfig, queries: []query{began("slicewire.config.applies", "client, source, result")}},
			{title: "Refused since the start", unit: units.Short, noData: "No configuration was refused", queries: []query{
				{`sum by (client, source) ({{slicewire.config.applies|result="refused"}})`, "{{client}} {{source}}"},
			}},
			{
				title: "Policies published by configuration", kind: bars, unit: units.Short, noData: "No configuration published a policy",
				queries: []query{{`sum by (selector, policy, result) (increase({{slicewire.policy.publications|source="config"}}[$__rate_interval]) > 0 or ({{slicewire.policy.publications|source="config"}} unless {{slicewire.policy.publications|source="config"}} offset $__rate_interval))`, "{{selector}} {{policy}} {{result}}"}},
			},
			{title: "Versions", kind: areas, unit: units.Short, noData: "No process is scraped", about: "Processes by version of Slicewire: a rollout of code beside one of configuration.", queries: []query{total("slicewire.build_info", "version")}},
		}},
	},
}
