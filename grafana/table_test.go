package main

import (
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNamesAreTheExporters: the names that queries are written with are those that
// OpenTelemetry's Prometheus exporter makes of the table.
func TestNamesAreTheExporters(t *testing.T) {
	response, err := http.Get(exporter(t))
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]bool{} // series to labels
	for _, line := range regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? `).FindAllStringSubmatch(string(text), -1) {
		labels := map[string]bool{}
		for _, l := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(line[2], -1) {
			labels[l[1]] = true
		}
		found[line[1]] = labels
	}
	for _, m := range metrics {
		for _, name := range m.series() {
			labels := found[name]
			if labels == nil {
				t.Errorf("the exporter makes no %s of %s", name, m.Name)
			}
			for _, l := range m.Labels {
				if !labels[underscored(l)] {
					t.Errorf("%s has no label %s", name, underscored(l))
				}
			}
			delete(found, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if name != "target_info" {
			t.Errorf("the exporter shows %s, which nothing in the table becomes", name)
		}
	}
}

// TestEveryMetricIsOnADashboard: and each has texts to show there.
func TestEveryMetricIsOnADashboard(t *testing.T) {
	shown := map[string]bool{}
	for _, b := range boards {
		for _, p := range b.panels() {
			for _, m := range p.metrics() {
				shown[m.Name] = true
			}
		}
	}
	if len(metrics) < 40 {
		t.Errorf("metrics.json has %d metrics; the SDK has more", len(metrics))
	}
	for name, m := range metrics {
		if !shown[name] {
			t.Errorf("%s is on no dashboard", name)
		}
		if m.Description == "" || m.Advice == "" || strings.HasSuffix(m.Description, ":") {
			t.Errorf("%s lacks a description or an advice", name)
		}
	}
}
