package rebuild

import "time"

// Stats count the work of a Pipeline (seed row P-32 for the times). Each request
// is at the end of its way published, coalesced or cancelled, and counted so once:
//
//	Requests = Published + Coalesced + Cancelled + (0 to 2 pending or active)
type Stats struct {
	// Requests counts the inputs that were accepted, so none after Close.
	Requests uint64
	// Coalesced counts inputs that a newer one replaced before they were published,
	// Cancelled those that Cancel or Close had forgotten.
	Coalesced, Cancelled uint64
	// Builds counts the builds that began, Failed those of them that returned an
	// error or panicked without being cancelled, Published the results put in force.
	Builds, Failed, Published uint64
	// Panics counts what should not happen: panics of Bytes, publish and OnError,
	// and goroutines of ours that one of these, or build, ended.
	Panics uint64
	// Queue is how long the input published last waited from its Request until its
	// build began: for the gate, for the pipeline's own build before, and after
	// builds of it that failed. Build is how long that build took, publish not
	// included. The totals are over all that were published.
	Queue, Build           time.Duration
	QueueTotal, BuildTotal time.Duration
}
