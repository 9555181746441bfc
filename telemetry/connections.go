package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"github.com/slicewire/slicewire/balancer"
)

// connections shows the connections of a target, and what its pools did.
func (r *Registration) connections(o *output, target attribute.KeyValue, t *Target) {
	s := &t.Router
	var sum balancer.ConnectionStates
	for i := range s.Endpoints {
		c := &s.Endpoints[i].Connections
		sum.Ready += c.Ready
		sum.Connecting += c.Connecting
		sum.Idle += c.Idle
		sum.Failing += c.Failing
		sum.Draining += c.Draining
		if c.Ready > 0 {
			r.record(context.Background(), labelKey{row: poolStreams, target: t.Name}, float64(c.Streams)/float64(c.Ready))
		}
	}
	state := func(name string, n int) { o.int(connections, int64(n), target, attribute.String(LabelState, name)) }
	state("idle", sum.Idle)
	state("connecting", sum.Connecting)
	state("ready", sum.Ready)
	state("transient_failure", sum.Failing)
	state("draining", sum.Draining)
	o.int(poolConnections, int64(sum.Ready+sum.Connecting+sum.Idle+sum.Failing), target)

	c := &s.Connections
	o.count(connectionOpens, c.Opened, target)
	for reason, n := range c.Closed {
		o.count(connectionCloses, n, target, attribute.String(LabelReason, reason))
	}
	o.count(poolScalings, c.ScaledUp, target, attribute.String(LabelDirection, "up"))
	o.count(poolScalings, c.ScaledDown, target, attribute.String(LabelDirection, "down"))
	o.count(poolUnresponsive, c.Unresponsive, target)
}
