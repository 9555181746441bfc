package telemetry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/telemetry"
)

// marker is in every key of the test. Its hex and its base64 would do as much harm.
const marker = "Mark3r"

var markers = []string{marker, "4d61726b3372", "TWFyazNy"}

// Field case TE-09: with every label dropped by a view, so that exemplars get them back,
// every call sampled, all of gRPC's own telemetry, debug logs, and failures of all
// kinds, nothing of any key is seen anywhere.
func TestTE09KeysLeaveNowhere(t *testing.T) {
	drop := metric.NewView(metric.Instrument{Name: "*"}, metric.Stream{AttributeFilter: func(attribute.KeyValue) bool { return false }})
	e := openEyes(t, metric.WithView(drop), metric.WithExemplarFilter(exemplar.AlwaysOnFilter))
	w := startWorld(t, e, sdk.WithGRPCTelemetry(), sdk.WithDelayMethodLabel())
	n := 0
	errs := w.faults(t, func() string { n++; return fmt.Sprintf("k%s-%d", marker, n) })

	exemplars := 0
	var seen strings.Builder
	for _, scope := range e.scopes(t) {
		for _, m := range scope.Metrics {
			fmt.Fprintf(&seen, "%+v\n", m)
			if h, ok := m.Data.(metricdata.Histogram[float64]); ok {
				for _, p := range h.DataPoints {
					for _, x := range p.Exemplars {
						exemplars++
						fmt.Fprintf(&seen, "%+v\n", x.FilteredAttributes)
					}
				}
			}
		}
	}
	_ = w.client.Close()
	e.allEnded(t)
	spans := e.spans.Ended()
	var told strings.Builder
	for _, err := range errs {
		fmt.Fprintf(&told, "%v\n%+v\n", err, status.Convert(err).Proto())
	}
	for what, text := range map[string]string{"metrics": seen.String(), "spans": texts(spans), "the log": w.log.String(), "errors": told.String()} {
		for _, m := range markers {
			if i := strings.Index(text, m); i >= 0 {
				t.Errorf("a key is in %s: ...%s...", what, text[max(0, i-200):min(len(text), i+100)])
			}
		}
	}

	// That would say little if there were little.
	if exemplars == 0 || len(errs) < 10 {
		t.Errorf("there were %d exemplars and %d errors", exemplars, len(errs))
	}
	for _, name := range []string{
		"Attempt Delay", telemetry.EventAssignment, telemetry.EventPolicy, telemetry.EventBuild, telemetry.EventFailover, telemetry.EventBreaker,
		"Sent.slicewire.test.Echo.Who", "Attempt.slicewire.test.Echo.Who",
	} {
		if len(e.spansNamed(name)) == 0 {
			t.Errorf("there is no span %q", name)
		}
	}
	for _, name := range []string{telemetry.EventPick, telemetry.EventFallback} {
		if !slices.ContainsFunc(spans, func(s span) bool { return len(eventsOf(s, name)) > 0 }) {
			t.Errorf("there is no event %q", name)
		}
	}
	if w.log.String() == "" {
		t.Error("nothing was logged")
	}
}

// A key's hash is shown where it is asked for, and tells keys apart.
func TestKeyHashing(t *testing.T) {
	hashes := func(salt string, keys ...string) (all []string) {
		w := startWorld(t, openEyes(t), sdk.WithKeyHashing([]byte(salt)))
		for _, key := range keys {
			if _, err := w.call(keyed(t, key)); err != nil {
				t.Fatal(err)
			}
		}
		_ = w.client.Close()
		for _, s := range w.spansNamed("caller") {
			for _, e := range eventsOf(s, telemetry.EventPick) {
				all = append(all, spanAttributes(e.Attributes)["slicewire.key_hash"])
			}
		}
		if text := texts(w.spans.Ended()); strings.Contains(text, marker) {
			t.Error("the key itself is in a span")
		}
		return all
	}
	got := hashes("salt", marker+"1", marker+"2", marker+"1")
	if len(got) != 3 || got[0] == "" || got[0] != got[2] || got[0] == got[1] || len(got[0]) != 16 {
		t.Errorf("the hashes are %q", got)
	}
	if other := hashes("other", marker+"1"); len(other) != 1 || other[0] == got[0] {
		t.Errorf("with another salt the hash is %q", other)
	}
}
