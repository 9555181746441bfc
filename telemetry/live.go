package telemetry

import (
	"errors"
	"reflect"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/stats/opentelemetry"
)

// live says whether a provider may lead anywhere. The global ones lead nowhere until
// somebody sets others, and what costs something for each RPC is switched on by what
// they are when a client is made.
func live(provider any) bool {
	t := reflect.TypeOf(provider)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return false
	}
	switch t.PkgPath() {
	case "go.opentelemetry.io/otel/internal/global", "go.opentelemetry.io/otel/metric/noop", "go.opentelemetry.io/otel/trace/noop":
		return false
	}
	return true
}

// grpcMeasuresDelays is the one place that decides whether gRPC brings the metrics of
// gRFC A121 itself, with its plugin switched on; then ours step aside. grpc-go
// v1.85.0 does not.
func grpcMeasuresDelays() bool {
	return opentelemetry.DefaultMetrics().Metrics()[table[attemptDelay].Name]
}

// tracerOf is nil where spans would lead nowhere.
func tracerOf(p trace.TracerProvider) trace.Tracer {
	if !live(p) {
		return nil
	}
	return p.Tracer(scope, trace.WithInstrumentationVersion(version()))
}

// errorList joins errors.
type errorList []error

func (l *errorList) add(err error) {
	if err != nil {
		*l = append(*l, err)
	}
}

func (l errorList) joined() error { return errors.Join(l...) }
