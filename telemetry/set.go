package telemetry

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// scope names us to providers.
const scope = "github.com/slicewire/slicewire/telemetry"

// version is that of this module in the program, as far as the program knows.
var version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	const module = "github.com/slicewire/slicewire"
	if info.Main.Path == module && info.Main.Version != "" {
		return info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	return "unknown"
})

// set is the instruments of one provider, shared by all clients that have it, and
// the one callback that reads them (field case TE-07). It lives as long as a client
// does that has it: callbacks stay with a provider until they are unregistered.
type set struct {
	provider metric.MeterProvider
	made     *made
	callback metric.Registration
	users    int // guarded by the mutex of sets

	mu    sync.Mutex // guards shown; nothing is called under it
	shown []*Registration
}

// sets are those in use. Provider calls are made under the mutex, which a collection
// does not take.
var sets = struct {
	mu sync.Mutex
	by map[metric.MeterProvider]*set
}{by: make(map[metric.MeterProvider]*set)}

// join returns the set of a provider; leave has to follow. The error is the
// provider's, and the set works as far as it goes.
func join(p metric.MeterProvider) (*set, error) {
	sets.mu.Lock()
	defer sets.mu.Unlock()
	shared := reflect.ValueOf(p).Comparable()
	if shared && sets.by[p] != nil {
		sets.by[p].users++
		return sets.by[p], nil
	}
	s := &set{provider: p, users: 1}
	var problems errorList
	meter := p.Meter(scope, metric.WithInstrumentationVersion(version()))
	var err error
	s.made, err = makeAll(meter)
	problems.add(err)
	s.callback, err = meter.RegisterCallback(s.collect, s.made.observables...)
	problems.add(err)
	if shared {
		sets.by[p] = s
	}
	if err := problems.joined(); err != nil {
		return s, fmt.Errorf("slicewire: telemetry: %w", err)
	}
	return s, nil
}

// leave ends what join began. With the last user it waits for a collection that runs.
func (s *set) leave() {
	sets.mu.Lock()
	defer sets.mu.Unlock()
	if s.users--; s.users > 0 {
		return
	}
	if reflect.ValueOf(s.provider).Comparable() {
		delete(sets.by, s.provider)
	}
	if s.callback != nil {
		_ = s.callback.Unregister() // its only error is that of a provider that is shut down
	}
}

func (s *set) add(r *Registration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = append(s.shown, r)
}

func (s *set) remove(r *Registration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = slices.DeleteFunc(s.shown, func(other *Registration) bool { return other == r })
}

// collect is one collection: a snapshot of each client, and nothing of what is gone
// (field case TE-06).
func (s *set) collect(_ context.Context, o metric.Observer) error {
	s.mu.Lock()
	shown := slices.Clone(s.shown)
	s.mu.Unlock()
	seen := make(registries)
	out := &output{observer: o, made: s.made}
	for _, r := range shown {
		r.collect(out, seen)
	}
	out.client = attribute.KeyValue{}
	out.int(buildInfo, 1, attribute.String(LabelVersion, version()))
	return nil
}

// output is where one collection goes.
type output struct {
	observer metric.Observer
	made     *made
	client   attribute.KeyValue
}

func (o *output) attributes(list []attribute.KeyValue) metric.MeasurementOption {
	if o.client.Valid() {
		list = append(list, o.client)
	}
	return metric.WithAttributeSet(attribute.NewSet(list...))
}

func (o *output) int(row int, v int64, labels ...attribute.KeyValue) {
	o.observer.ObserveInt64(o.made.ints[row], v, o.attributes(labels))
}

func (o *output) count(row int, v uint64, labels ...attribute.KeyValue) {
	o.int(row, int64(v), labels...)
}

func (o *output) float(row int, v float64, labels ...attribute.KeyValue) {
	o.observer.ObserveFloat64(o.made.floats[row], v, o.attributes(labels))
}

func (o *output) flag(row int, v bool, labels ...attribute.KeyValue) {
	n := int64(0)
	if v {
		n = 1
	}
	o.int(row, n, labels...)
}
