package telemetry

import (
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// OpenTelemetry's interfaces, by which package sdk takes them without importing them.
type (
	MeterProvider     = metric.MeterProvider
	TracerProvider    = trace.TracerProvider
	TextMapPropagator = propagation.TextMapPropagator
)
