package telemetry

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats/opentelemetry"

	experimental "google.golang.org/grpc/experimental/opentelemetry"
)

// GRPCDialOption switches on gRPC's own client metrics and traces on a channel, where
// they lead anywhere, else it returns nil.
func (r *Registration) GRPCDialOption() grpc.DialOption {
	if !r.options.GRPC {
		return nil
	}
	var o opentelemetry.Options
	if r.metered {
		o.MetricsOptions.MeterProvider = r.options.MeterProvider
	}
	if r.tracer != nil {
		o.TraceOptions = experimental.TraceOptions{TracerProvider: r.options.TracerProvider, TextMapPropagator: r.options.Propagator}
	}
	if !r.metered && r.tracer == nil {
		return nil
	}
	return opentelemetry.DialOption(o)
}
