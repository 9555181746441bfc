// Package health finds out which servers work, once for every Router and client
// that asks, and tells picks by one atomic load.
//
// A [Registry] probes the union of the targets of its views, each equivalence key
// once per interval, however many clients contributed it (rows P-21 and P-22). A
// [View] is what one Router contributes, a [Cell] is what its picks read, and a
// [Checker] is one way to probe: [TCP], [TLS], [HTTP], [GRPC] or a [Func].
//
// The names of seed 001 and what stands for them here:
//
//   - HealthRegistry: [Registry]; it keeps one state and one probe per key
//   - HealthCheckService: the scheduler inside the Registry. There is no other way
//     to have a Registry probed, so none can be probed twice (row P-34), and a
//     private one is a Registry that its maker gives to nobody else.
//   - BackendView's health references: [View] and [Cell]
//   - the service's ready signal: [Registry.WaitFirst]
//
// # What delays what
//
// One goroutine keeps the schedule and never probes. Probes run in at most
// Options.Workers goroutines, each with its own deadline, and the longest due goes
// first. A probe that hangs holds one worker until its deadline and no other probe
// waits for it, as long as fewer than Workers of them hang at once; Workers times
// Interval over Timeout is how many targets may hang in every interval.
//
// A [Checker] that ignores its context cannot be stopped. Its target counts as
// failed at the deadline and once more per interval, and it keeps its worker until
// it returns: goroutines stay within the bound, and what is lost is that one
// worker (Stats.Stuck). [Registry.Close] waits for it.
//
// Changing membership, reading a cell and closing a view never wait for a probe.
//
// What belongs here: the schedule, the thresholds, the checkers. What does not:
// what a Router does with an unhealthy endpoint, enabling by hand, what happens when
// all are unhealthy; that is balancer's. Who may import it: balancer, sdk, telemetry
// and users. It imports nothing of ours.
package health
