package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

const noBuilds = "No selector was built in this time"

var selectors = board{
	name: "selectors", title: "selectors",
	about: "Which selection policies are in force, and whether their data keeps up with what changes.",
	rows: []row{
		{"Picks", []panel{
			{title: "Picks by selector and policy", kind: areas, unit: units.RequestsPerSecond, noData: noPicks, queries: []query{rate("slicewire.picks", "selector, policy")}},
			{title: "Picks that did not find their endpoint", unit: units.RequestsPerSecond, noData: noPicks, queries: []query{
				{`sum by (selector, result) (rate({{slicewire.picks|result!="ready"}}[$__rate_interval]))`, "{{selector}} {{result}}"},
			}},
		}},
		{"Does it keep up?", []panel{
			{title: "Generations behind", unit: units.Short, noData: "No selector is in use", queries: []query{greatest("slicewire.selector.lag", "target, selector, type")}},
			{title: "Generations", unit: units.Short, noData: "No selector is in use", queries: []query{greatest("slicewire.selector.generation", "target, selector, type")}},
		}},
		{"Builds", []panel{
			{title: "Builds", unit: units.CountsPerSecond, noData: noBuilds, queries: []query{
				rate("slicewire.selector.builds", "target, selector").named("begun"),
				rate("slicewire.selector.coalesced", "target, selector").named("needless"),
			}},
			{title: "Builds that failed", kind: bars, unit: units.Short, noData: "No selector is in use", queries: []query{happened("slicewire.selector.build.failures", "target, selector")}},
			{title: "Time a build waits", unit: units.Seconds, noData: noBuilds, queries: []query{
				quantile(0.5, "slicewire.selector.queue.duration", "selector"),
				quantile(0.99, "slicewire.selector.queue.duration", "selector"),
			}},
			{title: "Time a build takes", unit: units.Seconds, noData: noBuilds, queries: []query{
				quantile(0.5, "slicewire.selector.build.duration", "selector"),
				quantile(0.99, "slicewire.selector.build.duration", "selector"),
			}},
		}},
		{"Policies", []panel{
			{title: "Publications", kind: bars, unit: units.Short, noData: "No policy was published", queries: []query{began("slicewire.policy.publications", "selector, policy, source, result")}},
			{title: "Wrong results of custom policies", unit: units.RequestsPerSecond, noData: "No custom policy got anything wrong", queries: []query{rate("slicewire.policy.bad_results", "selector, policy, reason")}},
		}},
	},
}
