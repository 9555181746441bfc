// Package selection holds the rules that choose among the endpoints of a
// channel, and the interfaces by which a user adds one.
//
// A [Policy] is an immutable value. Those with a built-in rule are made by
// [P2C], [Random], [RoundRobin], [LeastPending], [Weighted], [Ketama] and
// [Sliced], a user's own by [Custom] and [CustomBuilt]. Publish it on a selector
// (balancer.Selector); it may be published on any number of them.
//
// There are two levels. A [Direct] rule chooses an index from the members that
// are READY now, and costs no allocation. A [Builder] makes data once for each
// membership, a ring for example, which then gives an order of candidates.
//
// What belongs here: the rules, what they may know of a member, and the data
// they build. What does not: connections, connectivity, configuration. Who may
// import it: balancer, sdk, telemetry and users. It imports nothing of ours.
package selection
