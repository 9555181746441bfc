package main

import (
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// kind is how a panel shows its values.
type kind uint8

const (
	lines    kind = iota // a line for each series
	areas                // series on top of each other: parts of a whole
	bars                 // what happened, in steps
	number               // the last value, large
	timeline             // states over time
)

// panel is one panel of a dashboard.
type panel struct {
	title string
	kind  kind
	unit  string // Grafana's id of a unit
	width uint32 // of 24; 0: as the kind has it
	// about says what it shows, wrong what to do when it looks wrong. Where one is empty,
	// the texts of the queries' metrics stand there.
	about, wrong string
	// noData is what an empty panel says, and so what being empty means.
	noData  string
	queries []query
	// bad is from where on a number is red, 0: nowhere. With goodAbove it is red below.
	bad       float64
	goodAbove bool
	// states are the words for values of a timeline.
	states map[string]string
}

// metrics are the metrics of its queries, each once.
func (p *panel) metrics() []*instrument {
	var list []*instrument
	seen := map[string]bool{}
	for _, q := range p.queries {
		for _, m := range q.metrics() {
			if !seen[m.Name] {
				seen[m.Name] = true
				list = append(list, m)
			}
		}
	}
	return list
}

// description is the text behind the panel's "i".
func (p *panel) description() string {
	about, wrong := p.about, p.wrong
	var names, meanings, advice []string
	for _, m := range p.metrics() {
		names = append(names, "`"+m.Name+"`")
		meanings = append(meanings, m.Description)
		advice = append(advice, m.Advice)
	}
	if about == "" {
		about = strings.Join(meanings, "\n\n")
	}
	if wrong == "" {
		wrong = strings.Join(advice, "\n\n")
	}
	return fmt.Sprintf("%s\n\n**When it looks wrong:** %s\n\n**Empty:** %s.\n\nFrom %s.", about, wrong, p.noData, strings.Join(names, ", "))
}

// build makes the panel of a dashboard that has these variables; its id is what links name.
func (p *panel) build(id uint32, variables []variable) (cog.Builder[dashboard.Panel], error) {
	targets := make([]cog.Builder[cogVariant], 0, len(p.queries))
	for i, q := range p.queries {
		expr, err := q.expand(variables)
		if err != nil {
			return nil, fmt.Errorf("panel %q: %w", p.title, err)
		}
		target := prometheus.NewDataqueryBuilder().Datasource(source).RefId(string(rune('A' + i))).Expr(expr).LegendFormat(q.legend)
		if p.kind == number {
			target.Instant()
		} else {
			target.Range()
		}
		targets = append(targets, target)
	}
	width := p.width
	tooltip := common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)
	switch p.kind {
	case number:
		if width == 0 {
			width = 4
		}
		return stat.NewPanelBuilder().Id(id).Title(p.title).Description(p.description()).Datasource(source).Targets(targets).
			Unit(p.unit).NoValue(p.noData).Span(width).Height(4).
			ColorMode(common.BigValueColorModeValue).GraphMode(common.BigValueGraphModeNone).
			Thresholds(p.thresholds()).ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdThresholds)), nil
	case timeline:
		if width == 0 {
			width = 24
		}
		return statetimeline.NewPanelBuilder().Id(id).Title(p.title).Description(p.description()).Datasource(source).Targets(targets).
			Unit(p.unit).NoValue(p.noData).Span(width).Height(7).MergeValues(true).Tooltip(tooltip).
			ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdPaletteClassic)).
			Mappings([]dashboard.ValueMapping{p.mapping()}), nil
	}
	if width == 0 {
		width = 12
	}
	graph := timeseries.NewPanelBuilder().Id(id).Title(p.title).Description(p.description()).Datasource(source).Targets(targets).
		Unit(p.unit).NoValue(p.noData).Span(width).Height(8).Min(0).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true)).
		Tooltip(tooltip).
		SpanNulls(common.BoolOrFloat64{Bool: cog.ToPtr(false)}) // a gap is a gap: nobody scraped, or what it shows is gone
	switch p.kind {
	case areas:
		graph.FillOpacity(30).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
	case bars:
		graph.DrawStyle(common.GraphDrawStyleBars).FillOpacity(80).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
	}
	return graph, nil
}

func (p *panel) thresholds() *dashboard.ThresholdsConfigBuilder {
	from, to := "green", "red"
	if p.goodAbove {
		from, to = to, from
	}
	steps := []dashboard.Threshold{{Color: from}}
	if p.bad != 0 {
		steps = append(steps, dashboard.Threshold{Value: cog.ToPtr(p.bad), Color: to})
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)
}

func (p *panel) mapping() dashboard.ValueMapping {
	options := map[string]dashboard.ValueMappingResult{}
	for value, word := range p.states {
		options[value] = dashboard.ValueMappingResult{Text: cog.ToPtr(word)}
	}
	return dashboard.ValueMapping{ValueMap: &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: options}}
}
