// Package rebuild makes data off the hot path: one build at a time for any
// number of pipelines, of each the newest input, with what was built before in
// force until then (seed 001, "Grouped selector internals").
//
// A [Pipeline] has at most one active build and one pending input. A [Gate] is
// shared by pipelines, of one Router or of many, and lets one of them build at a
// time. The names of seed 001 and what stands for them here:
//
//   - SelectorRebuildGate, its permit and its retired marker: [Gate]
//   - SelectorRebuildState, one active and the newest pending request: [Pipeline]
//   - SelectorRebuildTaskGuard: what the worker of a pipeline does last
//   - SelectorRebuildCancellation: [Pipeline.Close], [Pipeline.Cancel]
//   - SelectorReleaseGuard and SelectorReleaseSignal: a release, set by the
//     garbage collector, which knows of readers without their counting
//   - the slot's ArcSwap: not here, publish of [New] stores where picks load
//
// What belongs here: coalescing, the gate, retries and cancellation. What does
// not: what is built, and who reads it. Who may import it: balancer. It imports
// nothing of ours.
package rebuild
