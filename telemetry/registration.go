package telemetry

import (
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Options are the settings of a [Registration]. The zero value is OpenTelemetry's
// global providers.
type Options struct {
	// MeterProvider takes the metrics. Nil: the global one. One may have any number of
	// clients.
	MeterProvider metric.MeterProvider
	// TracerProvider takes the spans of delays and of what happens. Nil: the global one.
	TracerProvider trace.TracerProvider
	// Propagator writes the trace into request headers, where gRPC's own traces are on.
	// Nil: the global one.
	Propagator propagation.TextMapPropagator
	// Logger gets what happens and nobody else logs. Nil discards it.
	Logger *slog.Logger
	// Client is the label "client". "" is client-1 and so on; a name that another
	// client of the process has gets a number.
	Client string
	// MethodLabel adds grpc.method to the delays, which multiplies their series by the
	// methods of your service.
	MethodLabel bool
	// KeyHashSalt adds a short hash of the call's key, made with this salt, to the event
	// slicewire.pick. Nil: nothing of the key is shown.
	KeyHashSalt []byte
	// GRPC says that gRPC's own client metrics and traces are on, by DialOptions.
	GRPC bool
}

// Registration is one client in OpenTelemetry, from [New] to Close. Its methods may
// be called concurrently.
type Registration struct {
	options Options
	client  string
	tracer  trace.Tracer // nil where spans would lead nowhere
	metered bool         // histograms lead somewhere
	made    *made

	source  Source // written by Show, before a collection can see r
	set     *set   // likewise; nil before Show. closeMu guards it
	closed  bool
	closeMu sync.Mutex

	counts counts
	limits limits
	labels labelSets
}

// New makes a Registration, which shows nothing of its client before Show. The error
// is a provider's that refused an instrument; the Registration works all the same.
// Close ends it.
func New(o Options) (*Registration, error) {
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.Propagator == nil {
		o.Propagator = otel.GetTextMapPropagator()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registration{options: o, tracer: tracerOf(o.TracerProvider), metered: live(o.MeterProvider)}
	var err error
	if r.set, err = join(o.MeterProvider); r.set != nil {
		r.made = r.set.made
	}
	r.client = takeName(o.Client)
	return r, err
}

// Client is the value of the label "client".
func (r *Registration) Client() string { return r.client }

// Show has collections read src, until Close. Nil shows nothing.
func (r *Registration) Show(src Source) {
	if r == nil {
		return
	}
	r.closeMu.Lock()
	defer r.closeMu.Unlock()
	if r.closed {
		return
	}
	r.source = src
	r.set.add(r)
}

// Close takes the client out of all collections to come, and gives its name back. It
// does not wait for a collection that runs, unless it is the last client of its
// provider. Further calls do nothing, nor do calls on nil.
func (r *Registration) Close() {
	if r == nil {
		return
	}
	r.closeMu.Lock()
	defer r.closeMu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	r.set.remove(r)
	r.set.leave()
	releaseName(r.client)
}
