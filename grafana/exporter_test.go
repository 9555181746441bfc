package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// exporter serves every metric of the table, as OpenTelemetry's own exporter writes it,
// with every value of every label that has a fixed set. Counters grow and histograms are
// fed by each scrape. It returns the address of its metrics.
func exporter(t *testing.T) string {
	registry := client.NewRegistry()
	reader, err := prometheus.New(prometheus.WithRegisterer(registry))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	t.Cleanup(func() {
		if err := provider.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	meter := provider.Meter("github.com/slicewire/slicewire/telemetry")
	var scrapes atomic.Int64
	var record []func() // feeds the histograms
	for _, m := range metrics {
		sets := labelSets(m)
		value := func() float64 {
			if m.Kind == "counter" {
				return float64(7 * scrapes.Load())
			}
			return 1
		}
		observe := metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			for _, set := range sets {
				o.Observe(value(), metric.WithAttributeSet(set))
			}
			return nil
		})
		switch m.Kind {
		case "counter":
			_, err = meter.Float64ObservableCounter(m.Name, metric.WithUnit(m.Unit), observe)
		case "gauge":
			_, err = meter.Float64ObservableGauge(m.Name, metric.WithUnit(m.Unit), observe)
		case "histogram":
			var h metric.Float64Histogram
			h, err = meter.Float64Histogram(m.Name, metric.WithUnit(m.Unit))
			record = append(record, func() {
				for _, set := range sets {
					h.Record(context.Background(), 8, metric.WithAttributeSet(set))
				}
			})
		default:
			t.Fatalf("%s is a %q; it may be a counter, a gauge or a histogram", m.Name, m.Kind)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	pages := promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scrapes.Add(1)
		for _, f := range record {
			f()
		}
		pages.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/metrics"
}

// labelSets are all combinations of the values of a metric's labels; a label whose values
// are names has one.
func labelSets(m *instrument) []attribute.Set {
	combinations := [][]attribute.KeyValue{nil}
	for _, label := range m.Labels {
		values := m.Values[label]
		if values == nil {
			values = []string{"a-" + label}
		}
		var next [][]attribute.KeyValue
		for _, c := range combinations {
			for _, v := range values {
				next = append(next, append(slices.Clone(c), attribute.String(label, v)))
			}
		}
		combinations = next
	}
	sets := make([]attribute.Set, len(combinations))
	for i, c := range combinations {
		sets[i] = attribute.NewSet(c...)
	}
	return sets
}
