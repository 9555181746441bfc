package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
	"github.com/slicewire/slicewire/telemetry"
)

type span = sdktrace.ReadOnlySpan

// eventsOf are the events of a name on a span.
func eventsOf(s span, name string) (list []sdktrace.Event) {
	for _, e := range s.Events() {
		if e.Name == name {
			list = append(list, e)
		}
	}
	return list
}

// TestPickEvents: the span of an attempt says where it went and why.
func TestPickEvents(t *testing.T) {
	f := start(t, func(sh *sdk.Sharding) { sh.Fallback = true }, []string{"a", "b"}, sdk.WithGRPCTelemetry())
	f.Sharding().Assign(shardingTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b"), sdktest.From("x")))
	for _, key := range []string{"k", "n", "xx"} {
		ctx, s := f.traces.Tracer("test").Start(keyed(t, key), "caller")
		if _, err := f.echo.Who(ctx, ""); err != nil {
			t.Fatal(err)
		}
		s.End()
	}
	_ = f.client.Close()
	attempts := f.spansNamed("Attempt.slicewire.test.Echo.Who")
	if len(attempts) != 3 {
		t.Fatalf("there are %d spans of attempts", len(attempts))
	}
	for i, want := range []map[string]string{
		{"slicewire.selector": "default", "slicewire.policy": "sliced", "slicewire.slice": "0", "slicewire.generation": "1"},
		{"slicewire.selector": "default", "slicewire.policy": "sliced", "slicewire.slice": "1", "slicewire.generation": "1"},
		{"slicewire.selector": "default", "slicewire.policy": "sliced", "slicewire.slice": "2", "slicewire.generation": "1", "slicewire.fallback_reason": "server_empty"},
	} {
		picks := eventsOf(attempts[i], telemetry.EventPick)
		if len(picks) != 1 {
			t.Fatalf("attempt %d has the events %v", i, attempts[i].Events())
		}
		if got := spanAttributes(picks[0].Attributes); !maps.Equal(got, want) {
			t.Errorf("pick %d says %v, want %v", i, got, want)
		}
		fallbacks := eventsOf(attempts[i], telemetry.EventFallback)
		if (len(fallbacks) == 1) != (i == 2) {
			t.Errorf("attempt %d has %d fallbacks", i, len(fallbacks))
		}
	}
	// gRPC's spans and ours make one tree.
	for _, s := range f.spansNamed("Attempt Delay") {
		if !slices.ContainsFunc(attempts, func(a span) bool { return a.SpanContext().SpanID() == s.Parent().SpanID() }) {
			t.Error("a delay is not under its attempt")
		}
	}
}

// TestUnsampledCalls: a call that is not sampled has no spans and events, and its delays
// are measured.
func TestUnsampledCalls(t *testing.T) {
	e := openEyes(t)
	e.traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(e.spans), sdktrace.WithSampler(sdktrace.NeverSample()))
	f := dial(t, sdktest.NewCluster(t, "a"), e, nil, sdk.WithGRPCTelemetry())
	f.AssignEven(shardingTarget)
	f.Sharding().Delay(50 * time.Millisecond)
	ctx, s := e.traces.Tracer("test").Start(keyed(t, "k"), "caller")
	defer s.End()
	if _, err := f.echo.Who(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if n := len(e.spans.Started()); n != 0 {
		t.Errorf("%d spans were started", n)
	}
	if d := f.delays(t, attemptDelays); d[pending].n != 1 {
		t.Errorf("delays are %v", d)
	}
}

// TestControlEvents: what happens to routing is a span of its own, which no call is
// linked to, and a log record with the same fields.
func TestControlEvents(t *testing.T) {
	w := startWorld(t, openEyes(t))
	n := 0
	w.faults(t, func() string { n++; return fmt.Sprintf("k%d", n) })
	_ = w.client.Close()
	w.allEnded(t)

	var records []map[string]any
	for line := range strings.Lines(w.log.String()) {
		var r map[string]any
		d := json.NewDecoder(bytes.NewBufferString(line))
		d.UseNumber()
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	for name, results := range map[string][]string{
		telemetry.EventAssignment: {"accepted", "invalid"},
		telemetry.EventPolicy:     {"accepted", "refused"},
		telemetry.EventBuild:      {"accepted", "refused"},
		telemetry.EventFailover:   {""},
		telemetry.EventBreaker:    {""},
	} {
		spans := w.spansNamed(name)
		for _, result := range results {
			i := slices.IndexFunc(spans, func(s span) bool { return spanAttributes(s.Attributes())["slicewire.result"] == result })
			if i < 0 {
				t.Errorf("there is no %s with the result %q", name, result)
				continue
			}
			s := spans[i]
			if s.Parent().IsValid() || len(s.Links()) > 0 {
				t.Errorf("%s has a parent or links", name)
			}
			if bad := result == "refused" || result == "invalid"; bad != (s.Status().Description != "") {
				t.Errorf("%s with the result %q has the status %v", name, result, s.Status())
			}
			fields := spanAttributes(s.Attributes())
			if fields["slicewire.client"] != "world" {
				t.Errorf("%s is of the client %q", name, fields["slicewire.client"])
			}
			delete(fields, "slicewire.client")
			if !slices.ContainsFunc(records, func(r map[string]any) bool { return hasFields(r, fields) }) {
				t.Errorf("no log record has the fields of %s: %v", name, fields)
			}
		}
	}
}

// hasFields says whether a log record says what a span does.
func hasFields(record map[string]any, attributes map[string]string) bool {
	for name, want := range attributes {
		v, ok := record[strings.TrimPrefix(name, "slicewire.")]
		if !ok {
			return false
		}
		// Durations are nanoseconds in the log and seconds in the span.
		if name != "slicewire.queue" && name != "slicewire.build" && name != "slicewire.retry_after" && fmt.Sprint(v) != want {
			return false
		}
	}
	return true
}

// Field case TE-10: streams that nobody reads, or ends, leave no span and no goroutine
// behind.
func TestTE10AbandonedStreams(t *testing.T) {
	f := start(t, nil, []string{"a"}, sdk.WithGRPCTelemetry())
	f.AssignEven(shardingTarget)
	f.who(t, "k")
	before := runtime.NumGoroutine()
	for i := range 50 {
		ctx, cancel := context.WithCancel(keyed(t, "k"))
		ctx, s := f.traces.Tracer("test").Start(ctx, "caller")
		var err error
		if i%2 == 0 {
			_, err = f.echo.Talk(ctx) // no CloseSend, no Recv
		} else {
			_, err = f.echo.Watch(ctx, "")
		}
		if err != nil {
			t.Fatal(err)
		}
		s.End()
		cancel()
	}
	eventually(t, "all spans to end", func() bool { return len(f.spans.Started()) == len(f.spans.Ended()) })
	eventually(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= before+2 })
	if n := len(f.spansNamed("Attempt.slicewire.test.Echo.Talk")); n != 25 {
		t.Errorf("%d attempts of Talk have a span, want 25", n)
	}
}

// TestGRPCTelemetry: gRPC's own metrics are there when they are asked for, and its spans
// travel by the client's propagator.
func TestGRPCTelemetry(t *testing.T) {
	own := func(e *eyes) (n int) {
		for _, s := range e.scopes(t) {
			for _, m := range s.Metrics {
				if m.Name == "grpc.client.attempt.started" {
					n++
				}
			}
		}
		return n
	}
	for _, on := range []bool{false, true} {
		var opts []sdk.Option
		if on {
			opts = []sdk.Option{sdk.WithGRPCTelemetry(), sdk.WithPropagator(propagation.TraceContext{})}
		}
		f := start(t, nil, []string{"a"}, opts...)
		f.AssignEven(shardingTarget)
		ctx, s := f.traces.Tracer("test").Start(keyed(t, "k"), "caller")
		if _, err := f.echo.Who(ctx, ""); err != nil {
			t.Fatal(err)
		}
		s.End()
		if got := own(f.eyes) == 1; got != on {
			t.Errorf("gRPC's metrics are there: %t, want %t", got, on)
		}
		calls := f.Backend("a").Calls()
		if got := len(calls[0].Metadata.Get("traceparent")) == 1; got != on {
			t.Errorf("the trace is in the headers: %t, want %t", got, on)
		}
	}
}

// TestWithoutTelemetry: a client that is to show nothing does not, whatever else is
// asked for.
func TestWithoutTelemetry(t *testing.T) {
	f := start(t, nil, []string{"a"}, sdk.WithoutTelemetry(), sdk.WithGRPCTelemetry())
	f.AssignEven(shardingTarget)
	f.who(t, "k")
	_, err := f.echo.Who(within(t, time.Second), "")
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a call without a key ended with %v", err)
	}
	_ = f.client.Close()
	if all := f.scopes(t); len(all) != 0 || len(f.spans.Started()) != 0 {
		t.Errorf("there are %d scopes and %d spans", len(all), len(f.spans.Started()))
	}
}

// TestGlobalProviders: without providers of its own a client uses the global ones, also
// those that come later for what is read at a collection.
func TestGlobalProviders(t *testing.T) {
	meters, traces := otel.GetMeterProvider(), otel.GetTracerProvider()
	t.Cleanup(func() { otel.SetMeterProvider(meters); otel.SetTracerProvider(traces) })
	e := openEyes(t)
	c := sdktest.NewCluster(t, "a")
	c.AssignEven(shardingTarget)
	open := func(name string) {
		f := dial(t, c, e, nil, sdk.WithMeterProvider(nil), sdk.WithTracerProvider(nil), sdk.WithClientName(name))
		if got, err := f.echo.Who(interceptors.WithKeyString(within(t, 10*time.Second), "k"), ""); err != nil {
			t.Fatal(got, err)
		}
	}
	open("early")
	otel.SetMeterProvider(e.meters)
	otel.SetTracerProvider(e.traces)
	open("late")
	all := e.collect(t)
	for _, client := range []string{"early", "late"} {
		if total(all["slicewire.picks"], "client", client, "result", "ready") != 1 {
			t.Errorf("the picks of %q are not shown", client)
		}
	}
	if n := len(all["slicewire.key.size"]); n != 1 { // that of the late one
		t.Errorf("%d series have key sizes", n)
	}
	// The first RPC need not wait for the assignment.
	eventually(t, "a control event", func() bool { return len(e.spansNamed(telemetry.EventAssignment)) > 0 })
}

// TestTableOfTraces: the spans and events that a client makes, and their attributes, are
// those of the table.
func TestTableOfTraces(t *testing.T) {
	table := make(map[string][]string)
	for _, tr := range telemetry.Traces() {
		if tr.Name == "" || tr.Description == "" || len(tr.Attributes) == 0 || table[tr.Name] != nil {
			t.Errorf("the row of %q lacks something, or is there twice", tr.Name)
		}
		for _, a := range tr.Attributes {
			if a.Meaning == "" {
				t.Errorf("%s of %s has no meaning", a.Name, tr.Name)
			}
			table[tr.Name] = append(table[tr.Name], a.Name)
		}
	}
	w := startWorld(t, openEyes(t), sdk.WithKeyHashing([]byte("salt")))
	n := 0
	w.faults(t, func() string { n++; return fmt.Sprintf("k%d", n) })
	ctx, s := w.traces.Tracer("test").Start(interceptors.WithKeyString(context.Background(), "k"), "caller")
	ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, _ = newEcho(silentClient(t, w.eyes)).Who(ctx, "")
	s.End()
	_ = w.client.Close()
	seen := make(map[string]map[string]bool)
	note := func(name string, attributes map[string]string) {
		if seen[name] == nil {
			seen[name] = make(map[string]bool)
		}
		for a := range attributes {
			seen[name][a] = true
			if !slices.Contains(table[name], a) {
				t.Errorf("%s has the attribute %s, which is not in the table", name, a)
			}
		}
	}
	for _, s := range w.spans.Ended() {
		if s.Name() != "caller" {
			note(s.Name(), spanAttributes(s.Attributes()))
		}
		for _, e := range s.Events() {
			note(e.Name, spanAttributes(e.Attributes))
		}
	}
	for name, attributes := range table {
		if name == telemetry.EventConfig { // TestConfiguration
			continue
		}
		for _, a := range attributes {
			if !seen[name][a] && a != "slicewire.suppressed" {
				t.Errorf("%s of %s is in the table and was not seen", a, name)
			}
		}
	}
}
