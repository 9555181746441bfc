package telemetry

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/slicewire/slicewire/balancer"
)

// connections shows the connections of a target.
func (o *output) connections(target attribute.KeyValue, s *balancer.Status) {
	n := endpointStates(s)
	for _, state := range []int{1, 2} {
		o.int(connections, int64(n[state]), target, attribute.String(LabelState, stateNames[state]))
	}
}
