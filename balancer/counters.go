package balancer

import "sync/atomic"

// counters are the counts that picks and updates add to. They belong to the
// Router, so they go on over idle mode. Picks that chose an endpoint are counted
// by the endpoint; what a removed endpoint counted is added to ready.
type counters struct {
	ready     atomic.Uint64 // of endpoints that are gone
	queued    atomic.Uint64
	failed    atomic.Uint64
	dropped   atomic.Uint64
	keyless   atomic.Uint64 // chose any endpoint because keys are optional
	fallbacks [reasons]atomic.Uint64

	resolverErrors atomic.Uint64
	emptyUpdates   atomic.Uint64
	configErrors   atomic.Uint64
}
