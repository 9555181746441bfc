package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

type cogVariant = variants.Dataquery

// datasourceUID is that of provisioning/datasources/slicewire.yml.
const datasourceUID = "slicewire-prometheus"

// tag is what all dashboards have, and what their links go by.
const tag = "slicewire"

// source is what every query asks: what the variable "datasource" says, so that the
// dashboards work with any Prometheus.
var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

// variable is a dashboard's variable: values of a label that panels are narrowed to.
type variable struct {
	name  string
	label string // as metrics.json has it
	of    query  // where its values are found
}

var (
	clientOf   = variable{"client", "client", query{expr: "{{slicewire.endpoints}}"}}
	targetOf   = variable{"target", "target", query{expr: "{{slicewire.endpoints}}"}}
	selectorOf = variable{"selector", "selector", query{expr: "{{slicewire.selector.builds}}"}}
	groupOf    = variable{"group", "group", query{expr: "{{slicewire.group.current}}"}}
	// gRPC's own metrics have the target as it was dialled, and no client.
	grpcTargetOf = variable{"grpc_target", "grpc.target", query{expr: "{{grpc.client.attempt.delay.duration:count}}"}}
)

// everywhere are the variables of all dashboards: a link carries them on. Where no panel
// uses one it is there and hidden.
var everywhere = []variable{clientOf, targetOf, selectorOf}

// board is one dashboard.
type board struct {
	name, title string
	about       string
	own         []variable // beside those of all
	rows        []row
}

// row is a heading and what stands under it.
type row struct {
	title  string
	panels []panel
}

var boards = []*board{&overview, &sharding, &selectors, &groups, &pools, &configuration, &delays}

func (b *board) file() string { return b.name + ".json" }

func (b *board) uid() string { return "slicewire-" + b.name }

func (b *board) variables() []variable {
	return append(everywhere[:len(everywhere):len(everywhere)], b.own...)
}

// panels are those of all rows.
func (b *board) panels() []*panel {
	var list []*panel
	for i := range b.rows {
		for j := range b.rows[i].panels {
			list = append(list, &b.rows[i].panels[j])
		}
	}
	return list
}

// uses reports whether a panel is narrowed by the variable.
func (b *board) uses(v variable) bool {
	for _, p := range b.panels() {
		for _, q := range p.queries {
			if expr, err := q.expand(b.variables()); err == nil && strings.Contains(expr, `"$`+v.name+`"`) {
				return true
			}
		}
	}
	return false
}

// json is the dashboard as Grafana reads it.
func (b *board) json() ([]byte, error) {
	//lint:ignore SA1019 dashboardv2 is read by the newest Grafana alone; this schema by all that are in use
	built := dashboard.NewDashboardBuilder("Slicewire: "+b.title).Uid(b.uid()).Description(b.about).Tags([]string{tag}).
		Time("now-1h", "now").Refresh("30s").Timezone("browser").Tooltip(dashboard.DashboardCursorSyncCrosshair).Editable().
		Link(dashboard.NewDashboardLinkBuilder("Slicewire").Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{tag}).
			IncludeVars(true).KeepTime(true).Tooltip("The other dashboards, for what is chosen here and the same time")).
		Link(dashboard.NewDashboardLinkBuilder("Runbook").Type(dashboard.DashboardLinkTypeLink).Url(runbook).TargetBlank(true).
			Icon("doc").Tooltip("What each alert means, and what to do")).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus").Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{String: cog.ToPtr("Slicewire")},
			Value: dashboard.StringOrArrayOfString{String: cog.ToPtr(datasourceUID)},
		}))
	for i, v := range b.variables() {
		// Each is narrowed by those before it.
		series, err := v.of.expand(b.variables()[:i])
		if err != nil {
			return nil, err
		}
		ask := fmt.Sprintf("label_values(%s, %s)", series, underscored(v.label))
		hide := dashboard.VariableHideDontHide
		if !b.uses(v) {
			hide = dashboard.VariableHideHideVariable
		}
		built.WithVariable(dashboard.NewQueryVariableBuilder(v.name).Label(strings.ReplaceAll(v.name, "_", " ")).Datasource(source).
			Query(dashboard.StringOrMap{String: &ask}).Definition(ask).Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
			Sort(dashboard.VariableSortAlphabeticalAsc).Multi(true).IncludeAll(true).AllValue(".*").Hide(hide).
			Current(dashboard.VariableOption{
				Text:  dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
				Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
			}))
	}
	id := uint32(0)
	for i := range b.rows {
		built.WithRow(dashboard.NewRowBuilder(b.rows[i].title))
		for j := range b.rows[i].panels {
			id++
			p, err := b.rows[i].panels[j].build(id, b.variables())
			if err != nil {
				return nil, err
			}
			built.WithPanel(p)
		}
	}
	whole, err := built.Build()
	if err != nil {
		return nil, err
	}
	for i := range whole.Links {
		whole.Links[i].Placement = nil // above the panels, not in a menu
	}
	text, err := json.MarshalIndent(whole, "", "  ")
	return append(text, '\n'), err
}

// runbook is docs/runbook.md where a reader of a dashboard finds it.
const runbook = "https://github.com/slicewire/slicewire/blob/main/docs/runbook.md"
