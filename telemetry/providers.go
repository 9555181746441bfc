package telemetry

import (
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

type (
	// MeterProvider is OpenTelemetry's, by a name by which package sdk takes it without
	// importing OpenTelemetry.
	MeterProvider = metric.MeterProvider
	// TracerProvider is likewise.
	TracerProvider = trace.TracerProvider
	// TextMapPropagator is likewise.
	TextMapPropagator = propagation.TextMapPropagator
)
