// Package telemetry shows what clients do in OpenTelemetry: metrics, delays (gRFC
// A121), spans and logs. It is the only package that imports OpenTelemetry; what it
// shows, balancer and sdk count in plain words and hand over.
//
// Most users want the options of package sdk, such as sdk.WithMeterProvider.
// [Instruments] is the table of all metrics, from which docs/observability.md is
// written.
//
// Nothing shown holds a key. Labels are bounded: names that configuration gives
// (client, target, group, selector) and words of ours; never a server's address, a
// generation, or the text of an error.
//
// What belongs here: instruments, the reading of what is counted, spans and events,
// and what limits logs. Who may import it: sdk. It knows no sdk.
package telemetry
