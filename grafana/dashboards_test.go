package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// read is what the tests look at in a dashboard that is checked in.
type read struct {
	UID        string `json:"uid"`
	Title      string
	Tags       []string
	Templating struct{ List []readVariable }
	Links      []struct {
		Type        string
		Tags        []string
		IncludeVars bool
		KeepTime    bool
	}
	Panels []readPanel
}

type readVariable struct {
	Name, Type, AllValue string
	Query                string
	Hide                 int
	Current              struct{ Value any }
}

type readPanel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               struct{ UID string }
	Targets                  []struct {
		Expr, LegendFormat string
		Datasource         struct{ UID string }
	}
	FieldConfig struct {
		Defaults struct{ Unit, NoValue string }
	}
}

// checkedIn are the dashboards by file name.
func checkedIn(t *testing.T) map[string]read {
	t.Helper()
	files, err := filepath.Glob("dashboards/*")
	if err != nil || len(files) != len(boards) {
		t.Fatalf("dashboards has %d files (%v), want %d; run go -C grafana run .", len(files), err, len(boards))
	}
	all := map[string]read{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d read
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = d
	}
	return all
}

// TestDashboardsAreNotStale: what is checked in is what the program makes.
func TestDashboardsAreNotStale(t *testing.T) {
	for _, b := range boards {
		want, err := b.json()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("dashboards", b.file()))
		if err != nil || string(got) != string(want) {
			t.Errorf("dashboards/%s is stale (%v); run go -C grafana run .", b.file(), err)
		}
	}
}

// TestDashboardsAreWhole: each has the variables, the links to the others, and panels that
// a person on call can read.
func TestDashboardsAreWhole(t *testing.T) {
	uids := map[string]bool{}
	for file, d := range checkedIn(t) {
		if d.UID == "" || len(d.UID) > 40 || uids[d.UID] {
			t.Errorf("%s: uid %q must be unique and have 1 to 40 characters", file, d.UID)
		}
		uids[d.UID] = true
		if !slices.Contains(d.Tags, tag) || len(d.Links) == 0 || d.Links[0].Type != "dashboards" || !slices.Contains(d.Links[0].Tags, tag) ||
			!d.Links[0].IncludeVars || !d.Links[0].KeepTime {
			t.Errorf("%s: has no links to the other dashboards that carry variables and time", file)
		}
		checkVariables(t, file, &d)
		ids := map[int]bool{}
		for i, p := range d.Panels {
			if p.Type == "row" {
				continue
			}
			at := file + ", panel " + p.Title
			if p.ID == 0 || ids[p.ID] {
				t.Errorf("%s: id %d must be unique and not 0", at, p.ID)
			}
			ids[p.ID] = true
			if p.Title == "" || p.FieldConfig.Defaults.Unit == "" || p.FieldConfig.Defaults.NoValue == "" || len(p.Targets) == 0 {
				t.Errorf("%s: lacks a title, a unit, a text for no data or a query", at)
			}
			for _, part := range []string{"**When it looks wrong:** ", "**Empty:** " + p.FieldConfig.Defaults.NoValue} {
				if _, text, ok := strings.Cut(p.Description, part); !ok || strings.HasPrefix(text, "\n") {
					t.Errorf("%s: its description lacks %q", at, part)
				}
			}
			if p.Datasource.UID != "${datasource}" {
				t.Errorf("%s: asks data source %q, not the variable", at, p.Datasource.UID)
			}
			for _, target := range p.Targets {
				if target.Datasource.UID != "${datasource}" {
					t.Errorf("%s: a query asks data source %q, not the variable", at, target.Datasource.UID)
				}
			}
			for _, o := range d.Panels[:i] {
				g, h := p.GridPos, o.GridPos
				if g.X < h.X+h.W && h.X < g.X+g.W && g.Y < h.Y+h.H && h.Y < g.Y+g.H {
					t.Errorf("%s: lies over %s", at, o.Title)
				}
			}
			if p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W == 0 || p.GridPos.H == 0 {
				t.Errorf("%s: at %+v it is not on the grid of 24 columns", at, p.GridPos)
			}
		}
	}
}

// checkVariables: they are there, the visible ones narrow something, and queries use no
// others.
func checkVariables(t *testing.T, file string, d *read) {
	var queries strings.Builder
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries.WriteString(target.Expr + "\n")
		}
	}
	names := map[string]bool{"__rate_interval": true}
	for _, v := range d.Templating.List {
		names[v.Name] = true
		if v.Type == "datasource" {
			if v.Query != "prometheus" || v.Current.Value != datasourceUID {
				t.Errorf("%s: variable %s is %v of type %s, want %s", file, v.Name, v.Current.Value, v.Query, datasourceUID)
			}
			continue
		}
		if used := strings.Contains(queries.String(), `"$`+v.Name+`"`); used != (v.Hide == 0) {
			t.Errorf("%s: variable %s is used: %v, and visible: %v", file, v.Name, used, v.Hide == 0)
		}
		if v.AllValue != ".*" {
			t.Errorf("%s: variable %s has no value for all", file, v.Name)
		}
	}
	for _, want := range []string{"datasource", "client", "target", "selector"} {
		if !names[want] {
			t.Errorf("%s: has no variable %s", file, want)
		}
	}
	for _, used := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(queries.String(), -1) {
		if !names[used[1]] {
			t.Errorf("%s: a query uses $%s, which is no variable of it", file, used[1])
		}
	}
}

// concrete is a query with every variable set to all.
func concrete(expr string) string {
	expr = strings.ReplaceAll(expr, "$__rate_interval", "10s")
	return regexp.MustCompile(`"\$\w+"`).ReplaceAllString(expr, `".*"`)
}

// TestQueriesAreOfTheTable: every query parses, and names metrics and labels that there
// are; a legend names labels that the result has.
func TestQueriesAreOfTheTable(t *testing.T) {
	for file, d := range checkedIn(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				at := file + ", panel " + p.Title
				kept := checkExpr(t, at, concrete(target.Expr))
				for _, l := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
					if !slices.Contains(kept, l[1]) {
						t.Errorf("%s: its legend %q names a label that the result has not: it has %q", at, target.LegendFormat, kept)
					}
				}
			}
		}
	}
}

// checkExpr parses a query and looks up what it names. It returns the labels of the
// outermost aggregation.
func checkExpr(t *testing.T, at, text string) []string {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		t.Errorf("%s: %s: %v", at, text, err)
		return nil
	}
	scraped := []string{"job", "instance", "le", model.MetricNameLabel}
	byName := map[string]*instrument{}
	for _, m := range metrics {
		for _, s := range m.series() {
			byName[s] = m
		}
	}
	// below are the labels that everything under a node has.
	below := func(n parser.Node) []string {
		var common []string
		first := true
		parser.Inspect(n, func(n parser.Node, _ []parser.Node) error {
			if v, ok := n.(*parser.VectorSelector); ok {
				m := byName[v.Name]
				if m == nil {
					return nil
				}
				var labels []string
				for _, l := range m.Labels {
					labels = append(labels, underscored(l))
				}
				if first {
					common, first = labels, false
				} else {
					common = slices.DeleteFunc(common, func(l string) bool { return !slices.Contains(labels, l) })
				}
			}
			return nil
		})
		return append(common, scraped...)
	}
	var outermost []string
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			m := byName[n.Name]
			if m == nil {
				t.Errorf("%s: %s: no metric of the table is %s", at, text, n.Name)
				return nil
			}
			for _, matcher := range n.LabelMatchers {
				label := matcher.Name
				if !slices.Contains(below(n), label) {
					t.Errorf("%s: %s: %s has no label %s", at, text, n.Name, label)
				}
				// A matcher that takes none of a label's fixed values is a slip of the pen.
				for otel, values := range m.Values {
					if underscored(otel) == label && !slices.ContainsFunc(values, matcher.Matches) {
						t.Errorf("%s: %s: no value of %s is one of %q", at, text, label, values)
					}
				}
			}
		case *parser.AggregateExpr:
			if outermost == nil {
				outermost = n.Grouping
			}
			for _, label := range n.Grouping {
				if !slices.Contains(below(n), label) {
					t.Errorf("%s: %s: groups by %s, which not all have", at, text, label)
				}
			}
		case *parser.BinaryExpr:
			if n.VectorMatching == nil {
				return nil
			}
			for _, label := range n.VectorMatching.MatchingLabels {
				if !slices.Contains(below(n), label) {
					t.Errorf("%s: %s: matches on %s, which not all have", at, text, label)
				}
			}
		}
		return nil
	})
	return outermost
}
