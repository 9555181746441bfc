package telemetry_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/slicewire/slicewire/configsource"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/telemetry"
)

// ofConfig are the rows that a client without a configuration source does not have.
var ofConfig = []string{"slicewire.config.applies", "slicewire.config.age", "slicewire.config.revision"}

// TestEveryInstrument: what a client that has seen everything exports is what the
// table says, with the labels and the values that it says.
func TestEveryInstrument(t *testing.T) {
	w := startWorld(t, openEyes(t))
	n := 0
	key := func() string { n++; return fmt.Sprintf("k%d", n) }
	w.faults(t, key)
	ctx, cancel := context.WithTimeout(keyed(t, key()), 10*time.Millisecond)
	defer cancel()
	if _, err := newEcho(silentClient(t, w.eyes)).Who(ctx, ""); err == nil {
		t.Fatal("a client without addresses answers")
	}
	all := w.collect(t)
	table := rows()
	for _, name := range names(all) {
		in, ok := table[name]
		if !ok {
			t.Errorf("%s is exported and not in the table", name)
			continue
		}
		for _, s := range all[name] {
			checkLabels(t, &in, s)
		}
	}
	for _, name := range names(table) {
		if all[name] == nil && !slices.Contains(ofConfig, name) {
			t.Errorf("%s is in the table and not exported", name)
		}
	}
	// Something of each kind that the world had happen.
	for name, labels := range map[string][]string{
		"slicewire.picks":                       {"target", "main", "selector", "default", "policy", "sliced", "result", "ready"},
		"slicewire.fallbacks":                   {"target", "main", "reason", "server_empty"},
		"slicewire.endpoints":                   {"target", "main", "state", "ready"},
		"slicewire.connections":                 {"target", "other", "state", "ready"},
		"slicewire.connection.opens":            {"target", "main"},
		"slicewire.connection.closes":           {"target", "main", "reason", "lost"},
		"slicewire.pool.connections":            {"target", "main"},
		"slicewire.assignment.generation":       {"target", "main", "selector", "default"},
		"slicewire.assignment.age":              {"target", "main"},
		"slicewire.assignment.slices":           {"target", "main"},
		"slicewire.assignment.uncovered_slices": {"target", "main"},
		"slicewire.assignment.endpoints":        {"target", "main"},
		"slicewire.assignment.updates":          {"target", "main", "result", "invalid"},
		"slicewire.assignment.size":             {"target", "main"},
		"slicewire.sharding.streams":            {"target", "main"},
		"slicewire.sharding.stream.connected":   {"target", "main"},
		"slicewire.sharding.acks":               {"target", "main", "result", "refused"},
		"slicewire.selector.generation":         {"selector", "reads", "type", "policy"},
		"slicewire.selector.builds":             {"target", "main", "selector", "ring"},
		"slicewire.selector.build.failures":     {"target", "main", "selector", "built"},
		"slicewire.selector.build.duration":     {"target", "main", "selector", "ring"},
		"slicewire.policy.publications":         {"selector", "reads", "result", "refused", "source", "code"},
		"slicewire.policy.bad_results":          {"selector", "odd", "policy", "custom", "reason", "out_of_range"},
		"slicewire.admission.rejections":        {"target", "main"},
		"slicewire.health.probes":               {"result", "passed"},
		"slicewire.health.flips":                {"state", "unhealthy"},
		"slicewire.health.targets":              {"state", "healthy"},
		"slicewire.group.current":               {"group", "default", "target", "main"},
		"slicewire.group.switches":              {"group", "default"},
		"slicewire.target.state":                {"group", "standby", "target", "other", "state", "ready"},
		"slicewire.target.downtime":             {"group", "default", "target", "main"},
		"slicewire.target.probes":               {"result", "passed"},
		"slicewire.key.missing":                 {"selector", "default"},
		"slicewire.key.size":                    {"selector", "default"},
		"slicewire.build_info":                  {},
	} {
		if total(all[name], labels...) <= 0 {
			t.Errorf("%s with %v is not above 0: %v", name, labels, all[name])
		}
	}
	for name, labels := range map[string][]string{
		"slicewire.group.current":           {"group", "default", "target", "other"},
		"slicewire.admission.breakers.open": {"target", "other"},
		"slicewire.target.state":            {"group", "standby", "target", "other", "state", "down"},
	} {
		if found := find(all[name], labels...); len(found) != 1 || found[0].value != 0 {
			t.Errorf("%s with %v is %v, want one series that is 0", name, labels, found)
		}
	}
	if got := total(all["slicewire.policy.publications"], "selector", "reads", "policy", "round_robin", "result", "accepted"); got != 2 {
		t.Errorf("round_robin was published %v times, want once in each target", got)
	}
	if got := total(all["slicewire.key.missing"]); got != 1 {
		t.Errorf("%v calls had no key, want 1", got)
	}
	if len(find(all["slicewire.target.error_ratio"], "target", "main")) != 1 || len(find(all["slicewire.target.error_ratio"])) != 1 {
		t.Errorf("error ratios are %v, want that of main alone", all["slicewire.target.error_ratio"])
	}
}

// checkLabels holds a series against its row.
func checkLabels(t *testing.T, in *telemetry.Instrument, s series) {
	t.Helper()
	want := slices.DeleteFunc(slices.Clone(in.Labels), func(l string) bool { return l == telemetry.LabelGRPCMethod })
	if got := names(s.labels); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("%s has the labels %v, want %v", in.Name, got, want)
	}
	for label, values := range in.Values {
		if !slices.Contains(values, s.labels[label]) {
			t.Errorf("%s has the %s %q, want one of %q", in.Name, label, s.labels[label], values)
		}
	}
}

// TestTableIsWhole: each row says all that documents and dashboards need of it.
func TestTableIsWhole(t *testing.T) {
	labels := []string{
		telemetry.LabelClient, telemetry.LabelTarget, telemetry.LabelGroup, telemetry.LabelSelector, telemetry.LabelPolicy, telemetry.LabelState,
		telemetry.LabelResult, telemetry.LabelReason, telemetry.LabelType, telemetry.LabelSource, telemetry.LabelDirection, telemetry.LabelVersion,
		telemetry.LabelGRPCTarget, telemetry.LabelGRPCMethod, telemetry.LabelGRPCDelayOf,
	}
	seen := make(map[string]bool)
	for _, in := range telemetry.Instruments() {
		if seen[in.Name] || in.Name == "" || in.Unit == "" || in.Topic == "" || in.Description == "" || in.Advice == "" {
			t.Errorf("the row of %q lacks something, or is there twice: %+v", in.Name, in)
		}
		seen[in.Name] = true
		if (in.Kind == telemetry.Histogram) != (len(in.Bounds) > 0) || !slices.IsSorted(in.Bounds) {
			t.Errorf("%s is a %v with the bounds %v", in.Name, in.Kind, in.Bounds)
		}
		for _, l := range in.Labels {
			if !slices.Contains(labels, l) {
				t.Errorf("%s has the label %q, which is not one of ours", in.Name, l)
			}
		}
		for _, l := range slices.Collect(maps.Keys(in.Values)) {
			if !slices.Contains(in.Labels, l) {
				t.Errorf("%s has values of %q and not the label", in.Name, l)
			}
		}
	}
}

// fixed is a Source that shows one snapshot.
type fixed struct{ s telemetry.Snapshot }

func (f fixed) Snapshot() telemetry.Snapshot { return f.s }

// TestConfiguration: what is told of a configuration is shown.
func TestConfiguration(t *testing.T) {
	e := openEyes(t)
	r, err := telemetry.New(telemetry.Options{MeterProvider: e.meters, TracerProvider: e.traces, Client: "configured"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.Show(fixed{telemetry.Snapshot{Config: &telemetry.Config{Revision: 7, Since: time.Now().Add(-time.Minute)}}})
	r.ConfigApplied("file", "accepted", 7, nil)
	r.ConfigApplied("file", "unchanged", 7, nil)
	r.ConfigApplied("file", "refused", 7, fmt.Errorf("x.yaml:3: targets[0].uri is missing"))
	all := e.collect(t)
	table := rows()
	for _, name := range ofConfig {
		in := table[name]
		for _, s := range all[name] {
			checkLabels(t, &in, s)
		}
	}
	for _, result := range []string{"accepted", "unchanged", "refused"} {
		if n := total(all["slicewire.config.applies"], "client", "configured", "source", "file", "result", result); n != 1 {
			t.Errorf("%v configurations were %s, want 1", n, result)
		}
	}
	if n := total(all["slicewire.config.revision"]); n != 7 {
		t.Errorf("the revision is %v, want 7", n)
	}
	if age := total(all["slicewire.config.age"]); age < 60 || age > 300 {
		t.Errorf("the age is %v s, want about 60", age)
	}
	spans := e.spansNamed(telemetry.EventConfig)
	if len(spans) != 2 { // unchanged is no event
		t.Fatalf("there are %d spans, want 2", len(spans))
	}
	if s := spans[1]; spanAttributes(s.Attributes())["slicewire.result"] != "refused" || s.Status().Description == "" {
		t.Errorf("the span of a refused one has %v, %v", s.Attributes(), s.Status())
	}
}

// TestConfigurationOfAClient: the configurations of a client that runs are counted, and
// what the file calls it is the label.
func TestConfigurationOfAClient(t *testing.T) {
	file := filepath.Join(t.TempDir(), "client.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("client:\n  name: from-file\n  drainTimeout: 1s\n")
	log := &book{}
	f := start(t, nil, []string{"a"}, sdk.WithConfigFile(file), sdk.WithLogger(slog.New(slog.NewJSONHandler(log, nil))))
	name := "from-file"
	drain := 2 * time.Second
	if _, err := f.client.Apply(t.Context(), &configsource.Config{Client: configsource.Client{Name: &name, DrainTimeout: &drain}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.Apply(t.Context(), &configsource.Config{Client: configsource.Client{Name: &name, DrainTimeout: &drain}}); err != nil {
		t.Fatal(err)
	}
	write("client:\n  name: other\n")
	applies := func(source, result string) float64 {
		return total(f.collect(t)["slicewire.config.applies"], "client", name, "source", source, "result", result)
	}
	eventually(t, "the file to be refused", func() bool { return applies("file", "refused") > 0 })
	for _, c := range []struct{ source, result string }{{"file", "accepted"}, {"code", "accepted"}, {"code", "unchanged"}, {"file", "refused"}} {
		if n := applies(c.source, c.result); n != 1 {
			t.Errorf("%v configurations from %s were %s, want 1", n, c.source, c.result)
		}
	}
	all := f.collect(t)
	if n := total(all["slicewire.config.revision"], "client", name); n != 2 {
		t.Errorf("the revision is %v, want 2", n)
	}
	if len(find(all["slicewire.config.age"], "client", name)) != 1 {
		t.Errorf("the age is not shown")
	}
	eventually(t, "the log", func() bool { return strings.Contains(log.String(), `"source":"file","result":"refused","revision":2`) })
	if !strings.Contains(log.String(), `"source":"code","result":"accepted","revision":2`) {
		t.Errorf("the log says\n%s", log)
	}
}

// TestHistogramBounds: histograms have the buckets of the table; gRFC A121 fixes those of
// delays.
func TestHistogramBounds(t *testing.T) {
	w := startWorld(t, openEyes(t))
	if _, err := w.call(keyed(t, "k")); err != nil {
		t.Fatal(err)
	}
	seen := 0
	table := rows()
	for name, data := range w.raw(t) {
		if h, ok := data.(metricdata.Histogram[float64]); ok {
			seen++
			for _, p := range h.DataPoints {
				if want := table[name].Bounds; !slices.Equal(p.Bounds, want) {
					t.Errorf("%s has the buckets %v, want %v", name, p.Bounds, want)
				}
			}
		}
	}
	if seen < 3 {
		t.Errorf("%d histograms are exported", seen)
	}
	if b := table[attemptDelays].Bounds; len(b) != 41 || b[0] != 0 || b[40] != 100 {
		t.Errorf("the delays have the buckets %v", b)
	}
}
