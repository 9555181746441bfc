package telemetry_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
	"github.com/slicewire/slicewire/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	shardingTarget = "users"
	keyHeader      = "x-user"

	attemptDelays = "grpc.client.attempt.delay.duration"
	callDelays    = "grpc.client.call.delay.duration"
)

// eyes are providers that a test reads.
type eyes struct {
	reader *metric.ManualReader
	meters *metric.MeterProvider
	spans  *tracetest.SpanRecorder
	traces *sdktrace.TracerProvider
}

func openEyes(t testing.TB, opts ...metric.Option) *eyes {
	t.Helper()
	e := &eyes{reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	e.meters = metric.NewMeterProvider(append([]metric.Option{metric.WithReader(e.reader)}, opts...)...)
	e.traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(e.spans))
	return e
}

func (e *eyes) options() []sdk.Option {
	return []sdk.Option{sdk.WithMeterProvider(e.meters), sdk.WithTracerProvider(e.traces)}
}

// series is what one collection has of one label set.
type series struct {
	labels map[string]string
	value  float64 // of a histogram the sum
	count  uint64  // of a histogram
}

// collect returns all metrics by name.
func (e *eyes) collect(t testing.TB) map[string][]series {
	t.Helper()
	all := make(map[string][]series)
	for name, data := range e.raw(t) {
		all[name] = points(data)
	}
	return all
}

// raw is one collection of what is ours.
func (e *eyes) raw(t testing.TB) map[string]metricdata.Aggregation {
	t.Helper()
	all := make(map[string]metricdata.Aggregation)
	for _, scope := range e.scopes(t) {
		if scope.Scope.Name == "github.com/slicewire/slicewire/telemetry" {
			for _, m := range scope.Metrics {
				all[m.Name] = m.Data
			}
		}
	}
	return all
}

func (e *eyes) scopes(t testing.TB) []metricdata.ScopeMetrics {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := e.reader.Collect(context.Background(), &data); err != nil {
		t.Fatal(err)
	}
	return data.ScopeMetrics
}

func points(data metricdata.Aggregation) (all []series) {
	switch d := data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			all = append(all, series{labels: labelsOf(p.Attributes), value: float64(p.Value)})
		}
	case metricdata.Sum[float64]:
		for _, p := range d.DataPoints {
			all = append(all, series{labels: labelsOf(p.Attributes), value: p.Value})
		}
	case metricdata.Gauge[int64]:
		for _, p := range d.DataPoints {
			all = append(all, series{labels: labelsOf(p.Attributes), value: float64(p.Value)})
		}
	case metricdata.Gauge[float64]:
		for _, p := range d.DataPoints {
			all = append(all, series{labels: labelsOf(p.Attributes), value: p.Value})
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			all = append(all, series{labels: labelsOf(p.Attributes), value: p.Sum, count: p.Count})
		}
	case metricdata.Histogram[int64]:
		for _, p := range d.DataPoints {
			all = append(all, series{labels: labelsOf(p.Attributes), value: float64(p.Sum), count: p.Count})
		}
	default:
		panic(fmt.Sprintf("%T", data))
	}
	return all
}

func labelsOf(s attribute.Set) map[string]string {
	m := make(map[string]string)
	for _, kv := range s.ToSlice() {
		m[string(kv.Key)] = kv.Value.String()
	}
	return m
}

// find returns the series that have all the labels, given as name, value, ...
func find(all []series, labels ...string) (found []series) {
	for _, s := range all {
		ok := true
		for i := 0; i < len(labels); i += 2 {
			ok = ok && s.labels[labels[i]] == labels[i+1]
		}
		if ok {
			found = append(found, s)
		}
	}
	return found
}

// total adds up those series.
func total(all []series, labels ...string) (sum float64) {
	for _, s := range find(all, labels...) {
		sum += s.value
	}
	return sum
}

// delay is one type of delay in a histogram.
type delay struct {
	n   uint64
	sum float64
}

// delays are the delays of a histogram by type.
func (e *eyes) delays(t testing.TB, name string) map[string]delay {
	t.Helper()
	all := make(map[string]delay)
	for _, s := range e.collect(t)[name] {
		d := all[s.labels["grpc.delay_type"]]
		all[s.labels["grpc.delay_type"]] = delay{d.n + s.count, d.sum + s.value}
	}
	return all
}

// spansNamed are the ended spans of a name.
func (e *eyes) spansNamed(name string) (list []sdktrace.ReadOnlySpan) {
	for _, s := range e.spans.Ended() {
		if s.Name() == name {
			list = append(list, s)
		}
	}
	return list
}

// allEnded fails the test if a span is open.
func (e *eyes) allEnded(t testing.TB) {
	t.Helper()
	if s, n := e.spans.Started(), e.spans.Ended(); len(s) != len(n) {
		t.Errorf("%d spans were started and %d ended", len(s), len(n))
	}
}

// texts are all that spans and their events say.
func texts(spans []sdktrace.ReadOnlySpan) string {
	var b strings.Builder
	for _, s := range spans {
		fmt.Fprintln(&b, s.Name(), s.Attributes(), s.Status(), s.Resource(), s.Links())
		for _, e := range s.Events() {
			fmt.Fprintln(&b, e.Name, e.Attributes)
		}
	}
	return b.String()
}

func spanAttributes(list []attribute.KeyValue) map[string]string {
	return labelsOf(attribute.NewSet(list...))
}

// fixture is a client of a cluster of real servers on loopback.
type fixture struct {
	*sdktest.Cluster
	*eyes
	client *sdk.Client
	echo   sdktest.Echo
}

var insecurely = sdk.WithTransportCredentials(insecure.NewCredentials())

// quick has everything be tried again soon.
var quick = grpc.WithConnectParams(grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.2, MaxDelay: 50 * time.Millisecond},
	MinConnectTimeout: 2 * time.Second,
})

func start(t testing.TB, change func(*sdk.Sharding), names []string, opts ...sdk.Option) *fixture {
	t.Helper()
	return dial(t, sdktest.NewCluster(t, names...), openEyes(t), change, opts...)
}

func dial(t testing.TB, c *sdktest.Cluster, e *eyes, change func(*sdk.Sharding), opts ...sdk.Option) *fixture {
	t.Helper()
	return dialTo(t, c.Target(), c, e, change, opts...)
}

func dialTo(t testing.TB, target string, c *sdktest.Cluster, e *eyes, change func(*sdk.Sharding), opts ...sdk.Option) *fixture {
	t.Helper()
	sh := sdk.Sharding{ServiceKey: "main", Target: shardingTarget, KeyHeader: keyHeader}
	if change != nil {
		change(&sh)
	}
	plain := insecure.NewCredentials()
	client, err := sdk.Dial(target, slices.Concat([]sdk.Option{
		sdk.WithTransportCredentials(plain),
		sdk.WithResolvers(c.Resolver()),
		sdk.WithShardingService("main", "dns:///"+c.Sharding().Addr(), grpc.WithTransportCredentials(plain), quick),
		sdk.WithShardingStream(sdk.ShardingStream{
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.2, MaxDelay: 50 * time.Millisecond}, MinGap: 10 * time.Millisecond,
		}),
		sdk.WithDialOptions(quick),
		sdk.WithSharding(sh),
		sdk.WithClientName("c"),
	}, e.options(), opts)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &fixture{Cluster: c, eyes: e, client: client, echo: sdktest.NewEcho(client)}
}

func (f *fixture) who(t testing.TB, key string, opts ...grpc.CallOption) string {
	t.Helper()
	name, err := f.echo.Who(interceptors.WithKeyString(within(t, 10*time.Second), key), "", opts...)
	if err != nil {
		t.Fatalf("RPC failed: %v", err)
	}
	return name
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 15 s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// rows are the instruments by name.
func rows() map[string]telemetry.Instrument {
	m := make(map[string]telemetry.Instrument)
	for _, in := range telemetry.Instruments() {
		m[in.Name] = in
	}
	return m
}

// book collects what is written to it.
type book struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func names[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// silentClient is a client whose name resolver never answers.
func silentClient(t testing.TB, e *eyes) *sdk.Client {
	t.Helper()
	client, err := sdk.Dial("silent:///x", slices.Concat([]sdk.Option{
		sdk.WithTransportCredentials(insecure.NewCredentials()), sdk.WithResolvers(sdktest.NewResolver("silent")), sdk.WithKeyHeader(keyHeader),
	}, e.options())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func newEcho(c *sdk.Client) sdktest.Echo { return sdktest.NewEcho(c) }

// newReply is an empty message of the type of another.
func newReply(m any) any { return m.(proto.Message).ProtoReflect().New().Interface() }
