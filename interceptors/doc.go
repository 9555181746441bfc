// Package interceptors puts the sharding key of a call where it routes and
// where it is sent, says which selector of its channel a call is routed by, and
// holds ready-made retry, timeout and logging interceptors that suit sharded
// calls.
//
// A caller names the key with [WithKey] or [WithKeyString], or a [Key] finds it
// in the request ([FieldKey]), in the method ([MethodKeys]) or wherever a
// function looks ([FuncKey]). A Key writes it once, as a typed value that the
// picker reads and as exactly one value of one header on the wire, so the key
// that routes is the key that is sent. Clients of package sdk do this by
// themselves; a plain gRPC user adds [Key.Unary] and [Key.Stream] to the
// channel.
//
// A caller names the selector with [WithSelector], or [Selectors] has it by the
// method; without either it is the channel's default. It goes to the picker
// alone, not to the server.
//
// A context may be used for many calls: they ask for the same key and selector
// and know nothing else of each other. What is remembered of one call, such as the
// endpoints that its attempts tried, begins with the outermost of the
// interceptors here, or in package sdk, and ends with the call.
//
// Keys are personal data: nothing here writes one into an error or a log.
//
// What belongs here: client interceptors and what they need to know of one call.
// Who may import it: sdk, and any user. It imports internal/callinfo only.
package interceptors
