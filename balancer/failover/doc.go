// Package failover decides which target of a group is current.
//
// A group is a list of targets in order of priority; a target is a whole service
// address. [Machine] is told what is known of each target and what time it is, and
// says which one calls should go to and when it wants to be asked again. [Ratio]
// is one of the signals it can be told: a target that answers, but with errors.
//
// What belongs here: the rules of a group, as values that need nothing but a clock
// value: no goroutine, no timer, no lock, no connection, no gRPC. What does not: who
// observes the targets, who wakes up at a deadline, how calls move. Who may import
// it: sdk, telemetry and users. It imports nothing of ours.
//
// The rules are rows G-05 to G-11, G-21 and G-50 to G-55 of the feature table, after
// seed 003; docs/failover.md tells them in the order an operator meets them.
package failover
