package telemetry

import (
	"time"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/health"
)

// Source is a client as telemetry sees it. Snapshot is called at each collection, by
// any goroutine and perhaps by several; it may lock, but must not wait for anything
// that waits for a collection, such as [Registration.Close].
type Source interface {
	Snapshot() Snapshot
}

// Snapshot is what a client shows now. What has left it is not in it, and so in no
// metric.
type Snapshot struct {
	Targets []Target
	Groups  []Group
	// Registries are those that have servers probed, the client's own and others';
	// one that several clients have is shown by one of them.
	Registries []*health.Registry
	// Monitor probes the targets of groups, nil if nobody does.
	Monitor *health.Registry
	// Config is the configuration in force, nil where none is loaded.
	Config *Config
}

// Target is one target with its pool.
type Target struct {
	Name string
	// Leaving says that no group lists it any more. A new one of its name comes first.
	Leaving    bool
	ErrorRatio *failover.RatioState // nil if nobody judges its RPCs
	Router     balancer.Status
}

// Group is one group of targets.
type Group struct {
	Name, Current string
	Targets       []failover.TargetState
	Switches      map[failover.Reason]uint64
}

// Config is the configuration in force.
type Config struct {
	Revision uint64
	Since    time.Time
}
