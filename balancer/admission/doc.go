// Package admission holds what may refuse an endpoint after a policy has chosen
// it, and the circuit breaker.
//
// A balancer.Router asks the [Guard] of the endpoint that a policy chose. Is it
// refused, the pick goes on to the policy's next candidate, so that no RPC fails
// while a candidate is left (seed 004, system invariant 5). [Breaker] is the
// admission that comes with the package; a user's own implements [Admission].
//
// What belongs here: the interfaces, what may be said of how a call ended, and
// admissions that need no more than that. What does not: connections, gRPC, how a
// pick goes on. Who may import it: balancer, sdk, telemetry and users. It imports
// nothing of ours.
//
// # Why a breaker of our own
//
// A guard is asked in the pick of each RPC, so it may neither lock nor allocate.
// Two kept libraries were measured (interleaved with this one, the least of 8 rounds;
// asking a closed breaker alone and from 16 goroutines on 2 cores, in brackets
// asking and reporting a success):
//
//   - failsafe-go v0.9.8: 8 and 13 ns (73 and 84 ns). Every method takes a
//     sync.Mutex, refusals too. A report carries no token, so one of a call from
//     before the opening decides the half-open state; an outcome cannot be ignored;
//     a trial call that is never reported holds its permit for ever.
//   - sony/gobreaker v2.4.0: 82 and 100 ns (145 and 198 ns), 1 allocation of 48 bytes.
//     Every method takes a sync.Mutex and the observer is called under it. It knows
//     epochs and ignored outcomes, but no retry time, and holds unreported permits too.
//   - this one: 3 and 1 ns (36 and 17 ns, most of it reading the clock), no lock, no allocation.
//
// Neither lets its clock be set from outside.
package admission
