package telemetry

// Rows of the table.
const (
	picks = iota
	fallbacks
	attemptDelay
	callDelay
	endpoints
	connections
	connectionOpens
	connectionCloses
	assignmentGeneration
	assignmentAge
	assignmentSlices
	assignmentUncovered
	assignmentEndpoints
	assignmentUpdates
	assignmentSize
	assignmentBuild
	shardingStreams
	shardingConnected
	shardingAcks
	selectorGeneration
	selectorLag
	selectorBuilds
	selectorCoalesced
	selectorFailures
	selectorQueue
	selectorBuild
	policyPublications
	policyBadResults
	admissionRejections
	breakersOpen
	healthProbes
	healthFlips
	healthTargets
	groupCurrent
	groupSwitches
	targetState
	targetRatio
	targetDowntime
	targetProbes
	poolConnections
	poolScalings
	poolUnresponsive
	poolStreams
	configApplies
	configAge
	configRevision
	keyMissing
	keySize
	buildInfo
	rows
)

// table is every instrument: what is registered, what documents say and what
// dashboards are made from.
var table = [rows]Instrument{
	picks: {
		Name: "slicewire.picks", Kind: Counter, Unit: "{pick}", Topic: "Picks",
		Labels: []string{LabelClient, LabelTarget, LabelSelector, LabelPolicy, LabelResult},
		Values: map[string][]string{
			LabelResult: {"ready", "queued", "fallback", "failed", "dropped"},
		},
		Description: "Picks by what became of them. A queued RPC is picked again at each change, and counted each time.",
		Advice:      "failed or dropped: read the errors of the RPCs, they name target, slice and endpoint. fallback: see slicewire.fallbacks. A rise of queued alone: see the delays.",
	},
	fallbacks: {
		Name: "slicewire.fallbacks", Kind: Counter, Unit: "{pick}", Topic: "Picks",
		Labels: []string{LabelClient, LabelTarget, LabelSelector, LabelReason},
		Values: map[string][]string{
			LabelReason: {"gap", "server_empty", "unknown_endpoint", "all_failing", "no_assignment"},
		},
		Description: "Picks that chose among all endpoints because nobody serves the key's slice, by why.",
		Advice:      "gap, server_empty: the sharding service assigned nobody; look there. unknown_endpoint: its names and the name resolver's differ; compare slicewire.assignment.endpoints with slicewire.endpoints. all_failing: the owners are down. no_assignment: the sharding service has not answered.",
	},
	attemptDelay: {
		Name: "grpc.client.attempt.delay.duration", Kind: Histogram, Unit: "s", Float: true, Topic: "Delays",
		Labels: []string{LabelGRPCTarget, LabelGRPCMethod, LabelGRPCDelayOf},
		Values: map[string][]string{
			LabelGRPCDelayOf: {"autosharding_assignment_pending", "connecting", "selector_build_pending", "picker_failing_with_wait_for_ready", "subchannel_state_mismatch"},
		},
		Bounds:      delayBounds,
		Description: "How long RPC attempts waited before they were sent, by what for (gRFC A121). An attempt that did not wait has none; one that ended while it waited has the time up to then. grpc.method is there only if it was asked for.",
		Advice:      "autosharding_assignment_pending: the sharding service is slow or out of reach. connecting: endpoints come up, or do not. picker_failing_with_wait_for_ready: everything an RPC may go to is failing. subchannel_state_mismatch: connections break under load.",
	},
	callDelay: {
		Name: "grpc.client.call.delay.duration", Kind: Histogram, Unit: "s", Float: true, Topic: "Delays",
		Labels: []string{LabelGRPCTarget, LabelGRPCMethod, LabelGRPCDelayOf},
		Values: map[string][]string{
			LabelGRPCDelayOf: {"resolving"},
		},
		Bounds:      delayBounds,
		Description: "How long calls waited before their first attempt (gRFC A121). grpc.method is there only if it was asked for.",
		Advice:      "resolving: the name resolver is slow or fails; see the log.",
	},
	endpoints: {
		Name: "slicewire.endpoints", Kind: Gauge, Unit: "{endpoint}", Topic: "Endpoints and connections",
		Labels: []string{LabelClient, LabelTarget, LabelState},
		Values: map[string][]string{
			LabelState: {"idle", "connecting", "ready", "transient_failure"},
		},
		Description: "Endpoints of the name resolver by connectivity state. idle is not down: connections are made when RPCs want them.",
		Advice:      "Many in transient_failure: servers or the network are down. Fewer than you have servers: the name resolver does not know them.",
	},
	connections: {
		Name: "slicewire.connections", Kind: Gauge, Unit: "{connection}", Topic: "Endpoints and connections",
		Labels: []string{LabelClient, LabelTarget, LabelState},
		Values: map[string][]string{
			LabelState: {"idle", "connecting", "ready", "transient_failure", "draining"},
		},
		Description: "Connections to endpoints by state; draining ones take no new RPC.",
		Advice:      "Many in transient_failure: servers or the network are down. draining that does not end: streams that never end hold them.",
	},
	connectionOpens: {
		Name: "slicewire.connection.opens", Kind: Counter, Unit: "{connection}", Topic: "Endpoints and connections",
		Labels:      []string{LabelClient, LabelTarget},
		Description: "Connections that were made.",
		Advice:      "A steady rate without deploys is churn: see the closes by reason.",
	},
	connectionCloses: {
		Name: "slicewire.connection.closes", Kind: Counter, Unit: "{connection}", Topic: "Endpoints and connections",
		Labels: []string{LabelClient, LabelTarget, LabelReason},
		Values: map[string][]string{
			LabelReason: {"lost", "removed", "scale_down", "max_age", "unresponsive"},
		},
		Description: "Connections that ended, by why: lost is not the client's doing, removed is an endpoint that left or a channel that was closed or went idle.",
		Advice:      "lost: servers or the network closed them; look for restarts, proxies with idle timeouts, GOAWAYs. unresponsive: see slicewire.pool.unresponsive.",
	},
	assignmentGeneration: {
		Name: "slicewire.assignment.generation", Kind: Gauge, Unit: "{generation}", Topic: "Assignments",
		Labels:      []string{LabelClient, LabelTarget, LabelSelector},
		Description: "Generation of the assignment that is held, 0 without one.",
		Advice:      "Clients of one target that stay apart: one of them is cut off from the sharding service.",
	},
	assignmentAge: {
		Name: "slicewire.assignment.age", Kind: Gauge, Unit: "s", Float: true, Topic: "Assignments",
		Labels:      []string{LabelClient, LabelTarget, LabelSelector},
		Description: "How long ago the assignment in force was received.",
		Advice:      "High is fine while slicewire.sharding.stream.connected is 1: the service had nothing newer to say.",
	},
	assignmentSlices: {
		Name: "slicewire.assignment.slices", Kind: Gauge, Unit: "{slice}", Topic: "Assignments",
		Labels:      []string{LabelClient, LabelTarget, LabelSelector},
		Description: "Slices of the assignment that is held, gaps included.",
		Advice:      "A jump down: the sharding service lost a part of its table.",
	},
	assignmentUncovered: {
		Name: "slicewire.assignment.uncovered_slices", Kind: Gauge, Unit: "{slice}", Topic: "Assignments",
		Labels:      []string{LabelClient, LabelTarget, LabelSelector},
		Description: "Slices of it that have no owner: gaps, and those that the service gave to no endpoint.",
		Advice:      "Above 0: keys there fall back or fail; look at the sharding service.",
	},
	assignmentEndpoints: {
		Name: "slicewire.assignment.endpoints", Kind: Gauge, Unit: "{endpoint}", Topic: "Assignments",
		Labels:      []string{LabelClient, LabelTarget, LabelSelector},
		Description: "Endpoints that it names.",
		Advice:      "Differs from slicewire.endpoints: one of the two sources is behind.",
	},
	assignmentUpdates: {
		Name: "slicewire.assignment.updates", Kind: Counter, Unit: "{assignment}", Topic: "Assignments",
		Labels: []string{LabelClient, LabelTarget, LabelResult},
		Values: map[string][]string{
			LabelResult: {"accepted", "stale", "invalid", "superseded"},
		},
		Description: "Assignments that came, by what became of them. A superseded one was overtaken by a newer one before it was put in force, which is nobody's fault.",
		Advice:      "invalid: the sharding service sends what breaks the rules; the log and the ack say what. stale: it sends old generations again.",
	},
	assignmentSize: {
		Name: "slicewire.assignment.size", Kind: Histogram, Unit: "By", Float: true, Topic: "Assignments",
		Labels:      []string{LabelClient, LabelTarget},
		Bounds:      sizeBounds,
		Description: "Memory of the assignments that were put in force.",
		Advice:      "Growth without growth of your keyspace: the service splits without merging.",
	},
	assignmentBuild: {
		Name: "slicewire.assignment.build.duration", Kind: Histogram, Unit: "s", Float: true, Topic: "Assignments",
		Labels:      []string{LabelClient, LabelTarget},
		Bounds:      durationBounds,
		Description: "How long it took to check and to index an assignment. Picks go on meanwhile.",
		Advice:      "Seconds: the process lacks CPU, or assignments are very large.",
	},
	shardingStreams: {
		Name: "slicewire.sharding.streams", Kind: Counter, Unit: "{stream}", Topic: "Sharding service",
		Labels:      []string{LabelClient, LabelTarget},
		Description: "Streams that were opened to the sharding service.",
		Advice:      "A steady rate: it hangs up, or a proxy between does.",
	},
	shardingConnected: {
		Name: "slicewire.sharding.stream.connected", Kind: Gauge, Unit: "{stream}", Topic: "Sharding service",
		Labels:      []string{LabelClient, LabelTarget},
		Description: "1 while a stream is open.",
		Advice:      "0 for minutes: the assignment in force ages; RPCs go on by it.",
	},
	shardingAcks: {
		Name: "slicewire.sharding.acks", Kind: Counter, Unit: "{ack}", Topic: "Sharding service",
		Labels: []string{LabelClient, LabelTarget, LabelResult},
		Values: map[string][]string{
			LabelResult: {"accepted", "refused"},
		},
		Description: "Acks that were sent.",
		Advice:      "refused: see slicewire.assignment.updates.",
	},
	selectorGeneration: {
		Name: "slicewire.selector.generation", Kind: Gauge, Unit: "{generation}", Topic: "Selectors",
		Labels: []string{LabelClient, LabelTarget, LabelSelector, LabelType},
		Values: map[string][]string{
			LabelType: {"membership", "assignment", "policy", "published"},
		},
		Description: "Generations: of the endpoint list (membership), of the assignment that picks use, of the policy published last, and of the one that picks use (published).",
		Advice:      "policy above published for long: builds fail or wait; see slicewire.selector.lag.",
	},
	selectorLag: {
		Name: "slicewire.selector.lag", Kind: Gauge, Unit: "{generation}", Topic: "Selectors",
		Labels: []string{LabelClient, LabelTarget, LabelSelector, LabelType},
		Values: map[string][]string{
			LabelType: {"membership", "assignment", "policy"},
		},
		Description: "How many generations what picks use is behind what is there. Of an assignment it is 1 or 0.",
		Advice:      "Above 0 for long: builds fail or wait, see slicewire.selector.build.failures and .queue.duration.",
	},
	selectorBuilds: {
		Name: "slicewire.selector.builds", Kind: Counter, Unit: "{build}", Topic: "Selectors",
		Labels:      []string{LabelClient, LabelTarget, LabelSelector},
		Description: "Builds of a selector's data that began.",
		Advice:      "A high rate: endpoints come and go; see slicewire.selector.coalesced.",
	},
	selectorCoalesced: {
		Name: "slicewire.selector.coalesced", Kind: Counter, Unit: "{build}", Topic: "Selectors",
		Labels:      []string{LabelClient, LabelTarget, LabelSelector},
		Description: "Builds that a newer input made needless.",
		Advice:      "High beside few builds: changes come faster than builds end, which is what it is for.",
	},
	selectorFailures: {
		Name: "slicewire.selector.build.failures", Kind: Counter, Unit: "{build}", Topic: "Selectors",
		Labels:      []string{LabelClient, LabelTarget, LabelSelector},
		Description: "Builds that failed; what was in force stays.",
		Advice:      "Read the log: a policy of your own fails or panics.",
	},
	selectorQueue: {
		Name: "slicewire.selector.queue.duration", Kind: Histogram, Unit: "s", Float: true, Topic: "Selectors",
		Labels:      []string{LabelClient, LabelTarget, LabelSelector},
		Bounds:      durationBounds,
		Description: "How long a build waited for its turn.",
		Advice:      "Long: other selectors or assignments build; they go one at a time.",
	},
	selectorBuild: {
		Name: "slicewire.selector.build.duration", Kind: Histogram, Unit: "s", Float: true, Topic: "Selectors",
		Labels:      []string{LabelClient, LabelTarget, LabelSelector},
		Bounds:      durationBounds,
		Description: "How long a build took.",
		Advice:      "Long: many endpoints, or too little CPU.",
	},
	policyPublications: {
		Name: "slicewire.policy.publications", Kind: Counter, Unit: "{publication}", Topic: "Selectors",
		Labels: []string{LabelClient, LabelSelector, LabelPolicy, LabelSource, LabelResult},
		Values: map[string][]string{
			LabelSource: {"default", "code", "config", "resolver"},
			LabelResult: {"accepted", "unchanged", "refused"},
		},
		Description: "Selection policies that were published, in each target.",
		Advice:      "refused: the error was returned or logged. A high rate: two sources publish against each other.",
	},
	policyBadResults: {
		Name: "slicewire.policy.bad_results", Kind: Counter, Unit: "{pick}", Topic: "Selectors",
		Labels: []string{LabelClient, LabelSelector, LabelPolicy, LabelReason},
		Values: map[string][]string{
			LabelReason: {"out_of_range", "excluded", "panic"},
		},
		Description: "What custom policies got wrong.",
		Advice:      "Any: mend the policy; the log names it.",
	},
	admissionRejections: {
		Name: "slicewire.admission.rejections", Kind: Counter, Unit: "{candidate}", Topic: "Admission and health",
		Labels: []string{LabelClient, LabelTarget, LabelReason},
		Values: map[string][]string{
			LabelReason: {"admission"},
		},
		Description: "Candidates that admission refused; the pick went on to the next one.",
		Advice:      "A rise: breakers are open, see slicewire.admission.breakers.open.",
	},
	breakersOpen: {
		Name: "slicewire.admission.breakers.open", Kind: Gauge, Unit: "{endpoint}", Topic: "Admission and health",
		Labels:      []string{LabelClient, LabelTarget},
		Description: "Endpoints that admission refuses now.",
		Advice:      "More than a few: not one server is ill but what they share.",
	},
	healthProbes: {
		Name: "slicewire.health.probes", Kind: Counter, Unit: "{probe}", Topic: "Admission and health",
		Labels: []string{LabelClient, LabelResult},
		Values: map[string][]string{
			LabelResult: {"passed", "failed", "no_verdict"},
		},
		Description: "Health probes that ended. A registry that several clients share is shown by one of them.",
		Advice:      "failed: see slicewire.health.targets. no_verdict: the prober had no connection or was busy.",
	},
	healthFlips: {
		Name: "slicewire.health.flips", Kind: Counter, Unit: "{change}", Topic: "Admission and health",
		Labels: []string{LabelClient, LabelState},
		Values: map[string][]string{
			LabelState: {"healthy", "unhealthy"},
		},
		Description: "Changes of a server's health, by the new state.",
		Advice:      "Flapping: raise FailAfter and PassAfter, or find why probes time out.",
	},
	healthTargets: {
		Name: "slicewire.health.targets", Kind: Gauge, Unit: "{server}", Topic: "Admission and health",
		Labels: []string{LabelClient, LabelState},
		Values: map[string][]string{
			LabelState: {"healthy", "unhealthy", "unknown"},
		},
		Description: "Probed servers by health.",
		Advice:      "unhealthy: they get no RPC while others are healthy.",
	},
	groupCurrent: {
		Name: "slicewire.group.current", Kind: Gauge, Unit: "{target}", Topic: "Groups and targets",
		Labels:      []string{LabelClient, LabelGroup, LabelTarget},
		Description: "1 for the target that a group's RPCs go to, 0 for its others.",
		Advice:      "Not the first target: see slicewire.target.state of that one.",
	},
	groupSwitches: {
		Name: "slicewire.group.switches", Kind: Counter, Unit: "{switch}", Topic: "Groups and targets",
		Labels: []string{LabelClient, LabelGroup, LabelReason},
		Values: map[string][]string{
			LabelReason: {"lost", "error_ratio", "monitor", "disabled", "recovered", "pinned", "unpinned", "removed", "reordered"},
		},
		Description: "Changes of a group's current target, by why.",
		Advice:      "Many in an hour: a target flaps; raise SwitchDelay or Recovery, or take it out.",
	},
	targetState: {
		Name: "slicewire.target.state", Kind: Gauge, Unit: "{target}", Topic: "Groups and targets",
		Labels: []string{LabelClient, LabelGroup, LabelTarget, LabelState},
		Values: map[string][]string{
			LabelState: {"ready", "idle", "recovering", "down"},
		},
		Description: "1 for the state that a target has for its group, 0 for the others.",
		Advice:      "down in all targets of a group: RPCs go to the last one that worked, and fail.",
	},
	targetRatio: {
		Name: "slicewire.target.error_ratio", Kind: Gauge, Unit: "1", Float: true, Topic: "Groups and targets",
		Labels:      []string{LabelClient, LabelTarget},
		Description: "Share of the target's RPCs that failed, in its window; absent where nobody judges them.",
		Advice:      "Near the limit: the group is about to leave it.",
	},
	targetDowntime: {
		Name: "slicewire.target.downtime", Kind: Counter, Unit: "s", Float: true, Topic: "Groups and targets",
		Labels:      []string{LabelClient, LabelGroup, LabelTarget},
		Description: "How long the target was not available to its group.",
		Advice:      "Growth: it is down now.",
	},
	targetProbes: {
		Name: "slicewire.target.probes", Kind: Counter, Unit: "{probe}", Topic: "Groups and targets",
		Labels: []string{LabelClient, LabelResult},
		Values: map[string][]string{
			LabelResult: {"passed", "failed", "no_verdict"},
		},
		Description: "Probes of the targets of groups, by the client's monitor.",
		Advice:      "failed: see slicewire.target.state.",
	},
	poolConnections: {
		Name: "slicewire.pool.connections", Kind: Gauge, Unit: "{connection}", Topic: "Groups and targets",
		Labels:      []string{LabelClient, LabelTarget},
		Description: "Connections of a target's pool that take RPCs, or will when they are ready.",
		Advice:      "At its most for long: raise Connections.Max, or Streams.",
	},
	poolScalings: {
		Name: "slicewire.pool.scalings", Kind: Counter, Unit: "{connection}", Topic: "Groups and targets",
		Labels: []string{LabelClient, LabelTarget, LabelDirection},
		Values: map[string][]string{
			LabelDirection: {"up", "down"},
		},
		Description: "Connections that were added or drained because of the load.",
		Advice:      "Up and down all the time: raise ScaleDownAfter.",
	},
	poolUnresponsive: {
		Name: "slicewire.pool.unresponsive", Kind: Counter, Unit: "{connection}", Topic: "Groups and targets",
		Labels:      []string{LabelClient, LabelTarget},
		Description: "Connections that were replaced because they had gone silent.",
		Advice:      "Any: something between drops packets without closing.",
	},
	poolStreams: {
		Name: "slicewire.pool.streams", Kind: Histogram, Unit: "{rpc}", Float: true, Topic: "Groups and targets",
		Labels:      []string{LabelClient, LabelTarget},
		Bounds:      streamBounds,
		Description: "RPCs in flight for each ready connection of an endpoint, noted for each endpoint at each collection.",
		Advice:      "At Streams for long: see slicewire.pool.connections.",
	},
	configApplies: {
		Name: "slicewire.config.applies", Kind: Counter, Unit: "{config}", Topic: "Configuration",
		Labels: []string{LabelClient, LabelSource, LabelResult},
		Values: map[string][]string{
			LabelResult: {"accepted", "unchanged", "refused"},
		},
		Description: "Configurations that were applied or refused.",
		Advice:      "refused: the log says what is wrong; the last good one is in force.",
	},
	configAge: {
		Name: "slicewire.config.age", Kind: Gauge, Unit: "s", Float: true, Topic: "Configuration",
		Labels:      []string{LabelClient},
		Description: "How long the configuration in force is so.",
		Advice:      "Not what you expect after a rollout: the file was not seen, or refused.",
	},
	configRevision: {
		Name: "slicewire.config.revision", Kind: Gauge, Unit: "{revision}", Topic: "Configuration",
		Labels:      []string{LabelClient},
		Description: "Revision of the configuration in force; counts from 1 in each process.",
		Advice:      "Grows on its own: something rewrites the file.",
	},
	keyMissing: {
		Name: "slicewire.key.missing", Kind: Counter, Unit: "{call}", Topic: "Keys",
		Labels:      []string{LabelClient, LabelSelector},
		Description: "Calls that were refused because they had no key.",
		Advice:      "A caller forgot the key; the error names the method.",
	},
	keySize: {
		Name: "slicewire.key.size", Kind: Histogram, Unit: "By", Float: true, Topic: "Keys",
		Labels:      []string{LabelClient, LabelSelector},
		Bounds:      keyBounds,
		Description: "Length of the keys of calls.",
		Advice:      "Very long keys: they travel with every call.",
	},
	buildInfo: {
		Name: "slicewire.build_info", Kind: Gauge, Unit: "{build}", Topic: "Build",
		Labels:      []string{LabelVersion},
		Description: "1, with the version of this module.",
		Advice:      "Several versions in a fleet for long: a rollout is stuck.",
	},
}
