// Command generate makes docs/observability.md and grafana/metrics.json from the tables of
// telemetry. Run it from the root of the repository:
//
//	go run ./telemetry/generate
//
// Its test fails when what is checked in is not what it makes.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/slicewire/slicewire/telemetry"
)

//go:embed intro.md
var intro string

func main() {
	for file, text := range map[string]string{"docs/observability.md": page(), "grafana/metrics.json": list()} {
		if err := os.WriteFile(filepath.FromSlash(file), []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "generate:", err)
			os.Exit(1)
		}
	}
}

// list is the metrics as the dashboards are made from them.
func list() string {
	type metric struct {
		Name        string              `json:"name"`
		Kind        string              `json:"kind"`
		Unit        string              `json:"unit"`
		Labels      []string            `json:"labels"`
		Values      map[string][]string `json:"values,omitempty"`
		Topic       string              `json:"topic"`
		Description string              `json:"description"`
		Advice      string              `json:"advice"`
	}
	var all []metric
	for _, in := range telemetry.Instruments() {
		all = append(all, metric{in.Name, in.Kind.String(), in.Unit, in.Labels, in.Values, in.Topic, in.Description, in.Advice})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(all); err != nil {
		panic(err) // strings and lists of them cannot fail
	}
	return b.String()
}

// page is the whole page.
func page() string {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString("\n## Metrics\n")
	writeMetrics(&b, telemetry.Instruments())
	calls, control := &strings.Builder{}, &strings.Builder{}
	for _, t := range telemetry.Traces() {
		if t.Log == "" {
			writeTrace(calls, &t)
		} else {
			writeTrace(control, &t)
		}
	}
	b.WriteString("\n## Spans and events of calls\n")
	b.WriteString("\nThe attempt's span is gRPC's where `sdk.WithGRPCTelemetry` is used, else the caller's. Only sampled calls have any of these.\n")
	b.WriteString(calls.String())
	b.WriteString("\n## Control events\n")
	b.WriteString("\nEach is a span of its own, linked to no call, and a log record with the same fields, whose names have no `slicewire.` there (the client aside).\n")
	b.WriteString(control.String())
	return b.String()
}

// writeMetrics writes a table for each topic, in the order of the list.
func writeMetrics(b *strings.Builder, list []telemetry.Instrument) {
	topic := ""
	for _, in := range list {
		if in.Topic != topic {
			topic = in.Topic
			fmt.Fprintf(b, "\n### %s\n\n| Metric | Kind, unit | Labels | Meaning | When it looks wrong |\n|---|---|---|---|---|\n", topic)
		}
		fmt.Fprintf(b, "| `%s` | %s, `%s` | %s | %s | %s |\n", in.Name, in.Kind, in.Unit, labels(&in), in.Description, in.Advice)
	}
}

// labels are the labels of a metric, with their values where these are fixed.
func labels(in *telemetry.Instrument) string {
	var all []string
	for _, l := range in.Labels {
		text := "`" + l + "`"
		if values := in.Values[l]; values != nil {
			text += ": " + strings.Join(values, ", ")
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func writeTrace(b *strings.Builder, t *telemetry.Trace) {
	what := "Span"
	if t.On != "" {
		what = "Event on " + t.On
	}
	fmt.Fprintf(b, "\n### `%s`\n\n%s. %s\n", t.Name, what, t.Description)
	if t.Log != "" {
		fmt.Fprintf(b, "Log record: %s.\n", t.Log)
	}
	b.WriteString("\n| Attribute | Meaning |\n|---|---|\n")
	for _, a := range t.Attributes {
		fmt.Fprintf(b, "| `%s` | %s |\n", a.Name, a.Meaning)
	}
}
