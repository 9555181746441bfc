package telemetry

import (
	"slices"

	"go.opentelemetry.io/otel/metric"
)

// Kind is what an instrument measures.
type Kind uint8

// The kinds.
const (
	Counter   Kind = iota // only grows, until what counts is gone
	Gauge                 // what is so now
	Histogram             // one value for each thing that happened
)

// String is the name for documents.
func (k Kind) String() string { return [...]string{"counter", "gauge", "histogram"}[k] }

// Labels, the only ones there are; grpc.target, grpc.method and grpc.delay_type of
// gRFC A121 and version of the build aside.
const (
	LabelClient    = "client"
	LabelTarget    = "target"
	LabelGroup     = "group"
	LabelSelector  = "selector"
	LabelPolicy    = "policy"
	LabelState     = "state"
	LabelResult    = "result"
	LabelReason    = "reason"
	LabelType      = "type"
	LabelSource    = "source"
	LabelDirection = "direction"

	LabelVersion     = "version"
	LabelGRPCTarget  = "grpc.target"
	LabelGRPCMethod  = "grpc.method"
	LabelGRPCDelayOf = "grpc.delay_type"
)

// Instrument describes one metric, for documents, dashboards and alerts.
type Instrument struct {
	Name   string
	Kind   Kind
	Unit   string // UCUM
	Labels []string
	// Values are what labels with a fixed set of values may be.
	Values map[string][]string
	// Topic is the heading it stands under.
	Topic string
	// Description says what it is, Advice what to do when it looks wrong.
	Description, Advice string
	// Float says that its values are not whole numbers.
	Float bool
	// Bounds are the histogram's buckets.
	Bounds []float64
}

// Instruments are all metrics, in the order in which documents list them.
func Instruments() []Instrument {
	list := slices.Clone(table[:])
	for i := range list {
		list[i].Labels = slices.Clone(list[i].Labels)
	}
	return list
}

// delayBounds are gRFC A121's.
var delayBounds = []float64{
	0, 0.00001, 0.00005, 0.0001, 0.0003, 0.0006, 0.0008, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01, 0.013, 0.016, 0.02,
	0.025, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.4, 0.5, 0.65, 0.8, 1, 2, 5, 10, 20, 50, 100,
}

var (
	durationBounds = []float64{0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}
	sizeBounds     = []float64{1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28}
	keyBounds      = []float64{0, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096}
	streamBounds   = []float64{0, 1, 2, 5, 10, 20, 50, 75, 100, 150, 200, 500, 1000}
)

// made is the instruments of one meter: of each row of the table the one of its
// kind.
type made struct {
	ints        [rows]metric.Int64Observable
	floats      [rows]metric.Float64Observable
	histograms  [rows]metric.Float64Histogram
	observables []metric.Observable
}

// makeAll makes every instrument. An error is one of the provider's; the others are
// made all the same.
func makeAll(m metric.Meter) (*made, error) {
	all := &made{}
	var problems errorList
	for i := range table {
		in := &table[i]
		var err error
		switch {
		case in.Kind == Histogram:
			all.histograms[i], err = m.Float64Histogram(in.Name, metric.WithUnit(in.Unit), metric.WithDescription(in.Description),
				metric.WithExplicitBucketBoundaries(in.Bounds...))
		case in.Kind == Counter && in.Float:
			all.floats[i], err = m.Float64ObservableCounter(in.Name, metric.WithUnit(in.Unit), metric.WithDescription(in.Description))
		case in.Kind == Counter:
			all.ints[i], err = m.Int64ObservableCounter(in.Name, metric.WithUnit(in.Unit), metric.WithDescription(in.Description))
		case in.Float:
			all.floats[i], err = m.Float64ObservableGauge(in.Name, metric.WithUnit(in.Unit), metric.WithDescription(in.Description))
		default:
			all.ints[i], err = m.Int64ObservableGauge(in.Name, metric.WithUnit(in.Unit), metric.WithDescription(in.Description))
		}
		problems.add(err)
		if all.ints[i] != nil {
			all.observables = append(all.observables, all.ints[i])
		}
		if all.floats[i] != nil {
			all.observables = append(all.observables, all.floats[i])
		}
	}
	return all, problems.joined()
}
