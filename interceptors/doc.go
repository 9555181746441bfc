// Package interceptors puts the sharding key of a call where it routes and
// where it is sent, and holds ready-made retry, timeout and logging
// interceptors that suit sharded calls.
//
// A caller names the key with [WithKey] or [WithKeyString], or a [Key] finds it
// in the request ([FieldKey]), in the method ([MethodKeys]) or wherever a
// function looks ([FuncKey]). A Key writes it once, as a typed value that the
// picker reads and as exactly one value of one header on the wire, so the key
// that routes is the key that is sent. Clients of package sdk do this by
// themselves; a plain gRPC user adds [Key.Unary] and [Key.Stream] to the
// channel.
//
// Keys are personal data: nothing here writes one into an error or a log.
//
// What belongs here: client interceptors and what they need to know of one call.
// Who may import it: sdk, and any user. It imports internal/callinfo only.
package interceptors
