package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
)

// instrument is a row of metrics.json: one instrument of the SDK's table.
type instrument struct {
	Name        string              `json:"name"` // OpenTelemetry's
	Kind        string              `json:"kind"` // counter, gauge or histogram
	Unit        string              `json:"unit"` // UCUM
	Labels      []string            `json:"labels"`
	Values      map[string][]string `json:"values"` // what labels with a fixed set of values may be
	Topic       string              `json:"topic"`
	Description string              `json:"description"`
	Advice      string              `json:"advice"` // what to do when it looks wrong
}

//go:embed metrics.json
var table []byte

// metrics are all metrics, by name.
var metrics = func() map[string]*instrument {
	var list []*instrument
	if err := json.Unmarshal(table, &list); err != nil {
		panic(fmt.Sprintf("metrics.json: %v", err)) // it is embedded: a test meets it first
	}
	byName := map[string]*instrument{}
	for _, m := range list {
		byName[m.Name] = m
	}
	return byName
}()

// suffixes are what OpenTelemetry's Prometheus exporter writes for units; it writes none
// for what stands in braces.
var suffixes = map[string]string{"s": "_seconds", "By": "_bytes"}

// prometheus is the metric's name in a scrape. A test compares it with what the exporter
// makes of it.
func (m *instrument) prometheus() string {
	name := underscored(m.Name)
	suffix := suffixes[m.Unit]
	if m.Unit == "1" && m.Kind == "gauge" {
		suffix = "_ratio"
	}
	if !strings.HasSuffix(name, suffix) {
		name += suffix
	}
	if m.Kind == "counter" {
		name += "_total"
	}
	return name
}

// series are the names of its series: three for a histogram.
func (m *instrument) series() []string {
	name := m.prometheus()
	if m.Kind == "histogram" {
		return []string{name + "_bucket", name + "_sum", name + "_count"}
	}
	return []string{name}
}

// underscored is a name, or a label, as Prometheus writes it.
func underscored(name string) string { return strings.ReplaceAll(name, ".", "_") }
