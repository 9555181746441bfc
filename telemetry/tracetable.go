package telemetry

import "slices"

// Trace describes one span, or one event of a span, for documents.
type Trace struct {
	Name string
	// On is the span that an event stands on, "" for a span.
	On string
	// Description says when it is made.
	Description string
	Attributes  []TraceAttribute
	// Log is the message of the log record with the same fields, if there is one, by
	// result where there are several.
	Log string
}

// TraceAttribute is an attribute that it has, always or where the meaning says when.
type TraceAttribute struct{ Name, Meaning string }

// Traces are all spans and events of ours.
func Traces() []Trace {
	list := slices.Clone(traces[:])
	for i := range list {
		list[i].Attributes = slices.Clone(list[i].Attributes)
	}
	return list
}

// Attributes that several have.
var (
	ofClient   = TraceAttribute{"slicewire.client", "as the metrics' label"}
	ofTarget   = TraceAttribute{"slicewire.target", "the target's configured name"}
	ofSelector = TraceAttribute{"slicewire.selector", "the selector's name"}
	ofResult   = TraceAttribute{"slicewire.result", "what became of it"}
	leftOut    = TraceAttribute{"slicewire.suppressed", "how many spans of the name were left out before this one, if any"}
	ofDelay    = TraceAttribute{LabelGRPCDelayOf, "what for, as the metrics' label"}
)

var traces = [...]Trace{
	{
		Name:        SpanAttemptDelay,
		Description: "A time that an RPC attempt waited before it was sent, by one type of reason (gRFC A121). Child of the attempt's span.",
		Attributes:  []TraceAttribute{ofDelay},
	},
	{
		Name:        SpanCallDelay,
		Description: "A time that a call waited before its first attempt. Child of the caller's span.",
		Attributes:  []TraceAttribute{ofDelay},
	},
	{
		Name: EventDelayState, On: "both of these",
		Description: "The start of the wait, and each change of its reason within the type; the first 32.",
		Attributes:  []TraceAttribute{ofDelay, {attributeDelayReason, "what for, in words"}},
	},
	{
		Name: EventPick, On: "the attempt's span",
		Description: "A pick chose an endpoint for the attempt.",
		Attributes: []TraceAttribute{
			ofSelector,
			{"slicewire.policy", "the kind of its policy"},
			{"slicewire.slice", "number of the key's slice, where a slice was looked up"},
			{"slicewire.generation", "of the assignment, where one routed"},
			{"slicewire.fallback_reason", "as slicewire.fallbacks, where it was one"},
			{"slicewire.key_hash", "a short hash of the key, where sdk.WithKeyHashing asks for it"},
		},
	},
	{
		Name: EventFallback, On: "the attempt's span",
		Description: "The pick chose among all endpoints because nobody serves the key's slice.",
		Attributes:  []TraceAttribute{ofSelector, {"slicewire.fallback_reason", "as slicewire.fallbacks"}},
	},
	{
		Name:        EventAssignment,
		Description: "The sharding service sent an assignment, which was accepted or not. The status says what is wrong with it.",
		Attributes: []TraceAttribute{
			ofClient, ofTarget,
			{"slicewire.sharding_target", "what the sharding service calls it"},
			{"slicewire.generation", "of the assignment"},
			{"slicewire.result", "accepted, stale, superseded or invalid"},
			{"slicewire.slices", "of an accepted one"},
			{"slicewire.uncovered_slices", "those without an owner"},
			{"slicewire.endpoints", "that it names"},
			leftOut,
		},
		Log: "assignment received, refused or superseded",
	},
	{
		Name:        EventPolicy,
		Description: "A selection policy was published or refused. The status says why it was refused.",
		Attributes: []TraceAttribute{
			ofClient,
			{"slicewire.target", "the target's configured name; none where the policy is bad for all"},
			ofSelector,
			{"slicewire.policy", "with its settings"},
			{"slicewire.generation", "in force afterwards"},
			{"slicewire.source", "default, code, config or resolver"},
			ofResult, leftOut,
		},
		Log: "a selection policy was published, or refused",
	},
	{
		Name:        EventBuild,
		Description: "A build of a selector's data ended. The status says why it failed.",
		Attributes: []TraceAttribute{
			ofClient, ofTarget, ofSelector,
			{"slicewire.policy", "the kind of its policy"},
			ofResult,
			{"slicewire.queue", "seconds that it waited for its turn, if it did not fail"},
			{"slicewire.build", "seconds that it took, if it did not fail"},
			leftOut,
		},
		Log: "the data of a selector was built (debug), or could not be built",
	},
	{
		Name:        EventFailover,
		Description: "A group's current target changed.",
		Attributes: []TraceAttribute{
			ofClient,
			{"slicewire.group", "the group's name"},
			{"slicewire.from", "the target before"},
			{"slicewire.to", "the target now"},
			{"slicewire.reason", "as slicewire.group.switches"},
			leftOut,
		},
		Log: "a group of targets switched",
	},
	{
		Name:        EventBreaker,
		Description: "An endpoint's circuit breaker opened, tries again, or closed.",
		Attributes: []TraceAttribute{
			ofClient, ofTarget,
			{"slicewire.endpoint", "the endpoint's name"},
			{"slicewire.from", "the state before"},
			{"slicewire.to", "the state now"},
			{"slicewire.failures", "in the window"},
			{"slicewire.calls", "in the window"},
			{"slicewire.retry_after", "seconds until it tries again"},
			leftOut,
		},
		Log: "a circuit breaker changed its state",
	},
	{
		Name:        EventConfig,
		Description: "A configuration was applied or refused. The status says why it was refused.",
		Attributes: []TraceAttribute{
			ofClient,
			{"slicewire.source", "where it came from"},
			ofResult,
			{"slicewire.revision", "in force afterwards"},
			leftOut,
		},
		Log: "that of whoever applies it",
	},
}
