package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// parse reads a YAML file, and refuses what the value has no place for.
func parse(t *testing.T, file string, into any) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// tool is the path of a program of Prometheus'.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("there is no %s; install Prometheus (Debian: apt-get install prometheus; .ci/run does)", name)
	}
	return path
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(tool(t, "promtool"), args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestAlertsAreValid: Prometheus takes the rules and its configuration.
func TestAlertsAreValid(t *testing.T) {
	promtool(t, "check", "rules", "prometheus/alerts.yml")
	promtool(t, "check", "config", "prometheus/prometheus.yml")
}

// TestAlertsFire: each with data shaped like its fault, and with data like it without.
func TestAlertsFire(t *testing.T) {
	promtool(t, "test", "rules", "prometheus/alerts_test.yml")

	// What was tested is each of them, firing and quiet.
	var tests struct {
		RuleFiles          []string `yaml:"rule_files"`
		EvaluationInterval string   `yaml:"evaluation_interval"`
		Tests              []struct {
			Name, Interval string
			InputSeries    []struct{ Series, Values string } `yaml:"input_series"`
			AlertRuleTest  []struct {
				EvalTime  string `yaml:"eval_time"`
				Alertname string
				ExpAlerts []struct {
					ExpLabels      map[string]string `yaml:"exp_labels"`
					ExpAnnotations map[string]string `yaml:"exp_annotations"`
				} `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	parse(t, "prometheus/alerts_test.yml", &tests)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, s := range test.InputSeries {
			checkExpr(t, "alerts_test.yml, "+test.Name, s.Series)
		}
		for _, a := range test.AlertRuleTest {
			if len(a.ExpAlerts) > 0 {
				fires[a.Alertname] = true
			} else {
				quiet[a.Alertname] = true
			}
		}
	}
	for name := range alerts(t) {
		if !fires[name] || !quiet[name] {
			t.Errorf("alerts_test.yml has %s fire: %v, and be quiet: %v; it shall have both", name, fires[name], quiet[name])
		}
	}
}

// alerts are the expressions of the alerts, by name.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	var all rules
	parse(t, "prometheus/alerts.yml", &all)
	exprs := map[string]string{}
	for _, g := range all.Groups {
		for _, r := range g.Rules {
			exprs[r.Alert] = r.Expr
		}
	}
	return exprs
}

// TestAlertsAreOfTheTable: they name metrics and labels that there are, in their summary
// too, and lead to a section of the runbook and to a dashboard.
func TestAlertsAreOfTheTable(t *testing.T) {
	text, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(s, "\n")
		sections[title] = body
	}
	uids := map[string]bool{}
	for _, b := range boards {
		uids["/d/"+b.uid()] = true
	}
	var all rules
	parse(t, "prometheus/alerts.yml", &all)
	for _, g := range all.Groups {
		for _, r := range g.Rules {
			kept := checkExpr(t, r.Alert, r.Expr)
			for _, l := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(r.Annotations["summary"], -1) {
				if !strings.Contains(strings.Join(kept, " ")+" ", l[1]+" ") {
					t.Errorf("%s: its summary names label %s; it has %q", r.Alert, l[1], kept)
				}
			}
			if s := r.Labels["severity"]; s != "warning" && s != "critical" {
				t.Errorf("%s: severity is %q, want warning or critical", r.Alert, s)
			}
			if r.Annotations["summary"] == "" || r.Annotations["runbook_url"] != runbook+"#"+strings.ToLower(r.Alert) || !uids[r.Annotations["dashboard"]] {
				t.Errorf("%s: lacks a summary, the URL of its section in the runbook, or a dashboard: %q", r.Alert, r.Annotations)
			}
			for _, part := range []string{"**Means.**", "**Callers see**", "**Do.**"} {
				if !strings.Contains(sections[r.Alert], part) {
					t.Errorf("docs/runbook.md: section %s lacks %q", r.Alert, part)
				}
			}
			delete(sections, r.Alert)
		}
	}
	for title := range sections {
		t.Errorf("docs/runbook.md has a section %s, which is no alert", title)
	}
}

// TestRunbookNamesPanels: a dashboard that the runbook sends people to has the panels that
// it names there.
func TestRunbookNamesPanels(t *testing.T) {
	text, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "**", "")), " ")
	found := 0
	for _, m := range regexp.MustCompile(`\*([a-z ]+): ([^*]+)\*`).FindAllStringSubmatch(flat, -1) {
		found++
		ok := false
		for _, b := range boards {
			for _, p := range b.panels() {
				ok = ok || b.title == m[1] && p.title == m[2]
			}
		}
		if !ok {
			t.Errorf("docs/runbook.md sends people to dashboard %q, panel %q, which is not there", m[1], m[2])
		}
	}
	if found < 9 {
		t.Errorf("found %d panels in the runbook; it names more", found)
	}
}
