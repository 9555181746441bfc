package telemetry

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Names of control events: what changes how calls are routed, and is no call's doing.
const (
	EventAssignment = "slicewire.assignment" // accepted or refused
	EventPolicy     = "slicewire.policy"     // a selection policy was published or refused
	EventBuild      = "slicewire.build"      // a selector's data was built, or not
	EventFailover   = "slicewire.failover"   // a group's current target changed
	EventBreaker    = "slicewire.breaker"    // a circuit breaker opened or closed
	EventConfig     = "slicewire.config"     // a configuration was applied or refused
)

// event is one control event. It becomes a span of its own, linked by nothing to any
// call, whose attributes are the fields with "slicewire." before their names; the log
// record of the same event has the same fields.
type event struct {
	At     time.Time
	Name   string
	Fields []slog.Attr
	// Err is why something was refused or failed, "" if it was not. It holds no key.
	Err string
}

// tell makes the span of an event. Of a storm of events most have none.
func (r *Registration) tell(e event) {
	if r.tracer == nil {
		return
	}
	suppressed, ok := r.limits.allow(e.Name, e.At)
	if !ok {
		return
	}
	attributes := make([]attribute.KeyValue, 0, len(e.Fields)+3)
	attributes = append(attributes, attribute.String("slicewire.client", r.client))
	for _, f := range e.Fields {
		attributes = append(attributes, spanAttribute(f))
	}
	if suppressed > 0 {
		attributes = append(attributes, attribute.Int64("slicewire.suppressed", int64(suppressed)))
	}
	_, span := r.tracer.Start(context.Background(), e.Name, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithTimestamp(e.At), trace.WithAttributes(attributes...))
	if e.Err != "" {
		span.SetStatus(codes.Error, e.Err)
	}
	span.End(trace.WithTimestamp(e.At))
}

// spanAttribute is a field of a log record as an attribute of a span.
func spanAttribute(f slog.Attr) attribute.KeyValue {
	k := attribute.Key("slicewire." + f.Key)
	switch v := f.Value.Resolve(); v.Kind() {
	case slog.KindInt64:
		return k.Int64(v.Int64())
	case slog.KindUint64:
		return k.Int64(int64(v.Uint64()))
	case slog.KindFloat64:
		return k.Float64(v.Float64())
	case slog.KindBool:
		return k.Bool(v.Bool())
	case slog.KindDuration:
		return k.Float64(v.Duration().Seconds())
	default:
		return k.String(v.String())
	}
}
