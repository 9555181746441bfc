package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A query is PromQL with names of metrics in double braces. Each becomes the metric's name
// in a scrape, with the dashboard's variables for those labels that it has:
//
//	{{slicewire.picks|result="ready"}}  with a matcher of its own
//	{{slicewire.key.size:bucket}}       of a histogram: bucket, sum or count
type query struct {
	expr   string
	legend string // as Grafana has it, {{label}} for a label's value
}

var braces = regexp.MustCompile(`\{\{([a-z_.]+)(?::([a-z]+))?(?:\|([^}]*))?\}\}`)

// expand gives PromQL as Grafana takes it.
func (q query) expand(variables []variable) (string, error) {
	var unknown error
	text := braces.ReplaceAllStringFunc(q.expr, func(match string) string {
		parts := braces.FindStringSubmatch(match)
		m := metrics[parts[1]]
		if m == nil {
			unknown = fmt.Errorf("query %q: there is no metric %q in metrics.json", q.expr, parts[1])
			return match
		}
		name := m.prometheus()
		if parts[2] != "" {
			name += "_" + parts[2]
		}
		var matchers []string
		for _, v := range variables {
			if slices.Contains(m.Labels, v.label) {
				matchers = append(matchers, fmt.Sprintf(`%s=~"$%s"`, underscored(v.label), v.name))
			}
		}
		if parts[3] != "" {
			matchers = append(matchers, parts[3])
		}
		if len(matchers) == 0 {
			return name
		}
		return name + "{" + strings.Join(matchers, ",") + "}"
	})
	return text, unknown
}

// metrics are the metrics that it names, each once.
func (q query) metrics() []*instrument {
	var list []*instrument
	for _, parts := range braces.FindAllStringSubmatch(q.expr, -1) {
		if m := metrics[parts[1]]; m != nil && !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// Queries that many panels have. by is a list of labels as PromQL has it.

// rate is how often something happens each second.
func rate(what, by string) query {
	return query{fmt.Sprintf("sum by (%s) (rate({{%s}}[$__rate_interval]))", by, what), legend(by)}
}

// happened is how often something rare happened in each step of the graph.
func happened(what, by string) query {
	return query{fmt.Sprintf("sum by (%s) (increase({{%s}}[$__rate_interval]))", by, what), legend(by)}
}

// began is happened for counters whose series are there only from their first event on,
// which an increase does not see: a series that is new counts with all it has.
func began(what, by string) query {
	return query{
		fmt.Sprintf("sum by (%s) (increase({{%[2]s}}[$__rate_interval]) > 0 or ({{%[2]s}} unless {{%[2]s}} offset $__rate_interval))", by, what),
		legend(by),
	}
}

// total, greatest and least are over all processes.
func total(what, by string) query {
	return query{fmt.Sprintf("sum by (%s) ({{%s}})", by, what), legend(by)}
}

func greatest(what, by string) query {
	return query{fmt.Sprintf("max by (%s) ({{%s}})", by, what), legend(by)}
}

func least(what, by string) query {
	return query{fmt.Sprintf("min by (%s) ({{%s}})", by, what), legend(by)}
}

// quantile is one of a histogram, over all processes.
func quantile(q float64, what, by string) query {
	return query{
		fmt.Sprintf("histogram_quantile(%g, sum by (le, %s) (rate({{%s:bucket}}[$__rate_interval])))", q, by, what),
		fmt.Sprintf("p%g %s", q*100, legend(by)),
	}
}

// mean is a histogram's, over all processes.
func mean(what, by string) query {
	return query{
		fmt.Sprintf("sum by (%s) (rate({{%[2]s:sum}}[$__rate_interval])) / sum by (%[1]s) (rate({{%[2]s:count}}[$__rate_interval]))", by, what),
		"mean " + legend(by),
	}
}

// named is the query with a word before its legend, where a panel has several.
func (q query) named(word string) query {
	q.legend = strings.TrimSpace(word + " " + q.legend)
	return q
}

// legend is the values of labels.
func legend(by string) string {
	var parts []string
	for _, label := range strings.Split(by, ",") {
		parts = append(parts, "{{"+strings.TrimSpace(label)+"}}")
	}
	return strings.Join(parts, " ")
}
