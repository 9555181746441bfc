package admission

import "time"

// Admission is asked after a policy chose an endpoint, before the attempt is
// sent there.
type Admission interface {
	// Guard makes the guard of one endpoint. The Router calls it once when the
	// endpoint appears and drops the guard with the endpoint: one that leaves and
	// returns gets a new guard. It must not return nil.
	Guard(endpoint string) Guard
}

// Guard decides for one endpoint. Its methods are called concurrently, from the
// goroutines of RPCs; they must not block.
type Guard interface {
	// TryAcquire says whether an attempt of method ("/package.Service/Method") may
	// be sent. It is part of the pick, so it should neither lock nor allocate. The
	// token of an admitted attempt is given to Report; that of a refused one means
	// nothing.
	TryAcquire(method string) (Token, bool)
	// Report says how an admitted attempt ended. The Router calls it exactly once
	// for each token, also for an attempt that was picked but not sent.
	Report(t Token, o Outcome)
	// RetryAfter is how long until it makes sense to ask again; 0 is now. It is
	// what errors and status pages show, not a promise.
	RetryAfter() time.Duration
}

// Token is what a guard wants to be told again when the attempt ends.
type Token uint64
