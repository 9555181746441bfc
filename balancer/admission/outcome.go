package admission

import (
	"fmt"
	"time"
)

// Outcome is how one attempt ended.
type Outcome struct {
	Kind Kind
	// Code is the gRPC status code; 0 is OK.
	Code uint32
	// ResponseSeen is set when the server had sent something: the endpoint is there,
	// whatever came after.
	ResponseSeen bool
	// Elapsed is from the pick to the end.
	Elapsed time.Duration
}

// Kind is the way in which an attempt ended.
type Kind uint8

// The kinds. The zero Kind is none; breakers ignore it. A GOAWAY is no kind: gRPC
// ends the calls that the server took as usual and sends the others again, which
// is [NotSent].
const (
	OK               Kind = iota + 1
	RemoteError           // the server answered with Code
	ConnectionClosed      // the connection broke under the attempt
	SendFailure           // the request could not be written
	Cancelled             // by the caller, who may do so for any reason
	Deadline              // the caller's time was over
	NotSent               // picked, but nothing was sent
)

var kindNames = [...]string{
	OK: "ok", RemoteError: "remote_error", ConnectionClosed: "connection_closed", SendFailure: "send_failure",
	Cancelled: "cancelled", Deadline: "deadline", NotSent: "not_sent",
}

// String is the name for logs and labels.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Verdict is what an outcome says of the endpoint.
type Verdict uint8

// The verdicts.
const (
	Ignore  Verdict = iota // nothing
	Success                // it works
	Failure                // it is to blame
)

// The status codes that a verdict depends on. They are gRPC's numbers, kept here
// so that the package needs no gRPC.
const (
	codeCancelled         = 1
	codeDeadlineExceeded  = 4
	codeResourceExhausted = 8
	codeInternal          = 13
	codeUnavailable       = 14
	codeDataLoss          = 15
)

// Verdict is the rule of row S-20: UNAVAILABLE, RESOURCE_EXHAUSTED, DATA_LOSS,
// INTERNAL and a connection that broke or could not be written to are failures.
// What was cancelled, ran out of time or was not sent says nothing (field case
// SP-06), also when it is the server that says so, as it has that from the caller.
// Any other answer is a success: the server is there, and the error is the call's.
func (o Outcome) Verdict() Verdict {
	switch o.Kind {
	case OK:
		return Success
	case ConnectionClosed, SendFailure:
		return Failure
	case RemoteError:
		switch o.Code {
		case codeUnavailable, codeResourceExhausted, codeDataLoss, codeInternal:
			return Failure
		case codeCancelled, codeDeadlineExceeded:
			return Ignore
		}
		return Success
	}
	return Ignore
}

// verdictBy is Verdict with the failures that a set of codes names: bit n is code n.
func (o Outcome) verdictBy(failures uint64) Verdict {
	switch {
	case o.Kind == OK:
		return Success
	case o.Kind == ConnectionClosed || o.Kind == SendFailure:
		return Failure
	case o.Code <= maxCode && failures&(1<<o.Code) != 0:
		return Failure
	}
	if v := o.Verdict(); v == Ignore {
		return Ignore
	}
	return Success
}

// timedOut says whether time ran out, whoever noticed.
func (o Outcome) timedOut() bool {
	return o.Kind == Deadline || o.Kind == RemoteError && o.Code == codeDeadlineExceeded
}
