package main

import (
	"os"
	"strings"
	"testing"

	"github.com/slicewire/slicewire/telemetry"
)

// TestPageIsNotStale: what is checked in is what the tables give.
func TestPageIsNotStale(t *testing.T) {
	got, err := os.ReadFile("../../docs/observability.md")
	if err != nil || string(got) != page() {
		t.Errorf("docs/observability.md is stale (%v); run go run ./telemetry/generate", err)
	}
}

// TestListIsNotStale: nor is what the dashboards are made from.
func TestListIsNotStale(t *testing.T) {
	got, err := os.ReadFile("../../grafana/metrics.json")
	if err != nil || string(got) != list() {
		t.Errorf("grafana/metrics.json is stale (%v); run go run ./telemetry/generate, and go -C grafana run .", err)
	}
}

// TestPageIsWhole: it has each metric, span and event once, in tables that are whole.
func TestPageIsWhole(t *testing.T) {
	text := page()
	for _, in := range telemetry.Instruments() {
		if strings.Count(text, "\n| `"+in.Name+"` | "+in.Kind.String()+",") != 1 {
			t.Errorf("%s is not in it once", in.Name)
		}
	}
	for _, tr := range telemetry.Traces() {
		if strings.Count(text, "\n### `"+tr.Name+"`\n") != 1 {
			t.Errorf("%s is not in it once", tr.Name)
		}
	}
	for line := range strings.Lines(text) {
		if n := strings.Count(line, "|"); strings.HasPrefix(line, "|") && n != 3 && n != 6 {
			t.Errorf("this row has %d bars:\n%s", n, line)
		}
	}
}
