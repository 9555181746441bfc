package balancer

import (
	"sync"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/admission"
)

// send counts one attempt that a pick sends to ep, and asks ep's guard before.
func (ep *endpoint) send(info lb.PickInfo, res *lb.PickResult) (admitted bool) {
	// Counted first: who disables the endpoint and then looks for what is in flight
	// sees this attempt, or this attempt sees that.
	ep.member.Start()
	if ep.flags.Load()&barred != 0 {
		ep.undo()
		return false
	}
	done := ep.done
	if ep.guard != nil {
		token, ok := ep.guard.TryAcquire(info.FullMethodName)
		if !ok {
			ep.undo()
			return false
		}
		done = newTicket(ep, token).done
	}
	if res.Done != nil { // pick_first has none
		child, own := res.Done, done
		done = func(i lb.DoneInfo) { child(i); own(i) }
	}
	res.Done = done
	return true
}

// ended is the end of an attempt. gRPC calls it exactly once for each pick, also
// for one whose connection was gone before anything was sent.
func (ep *endpoint) ended(info lb.DoneInfo) {
	ep.finish(info.Err != nil && blamed(status.Code(info.Err)))
}

func (ep *endpoint) finish(failed bool) {
	ep.member.End(failed)
	ep.tellDrained()
}

// undo is finish for an attempt that was not sent.
func (ep *endpoint) undo() {
	ep.member.Undo()
	ep.tellDrained()
}

func (ep *endpoint) tellDrained() {
	if ep.flags.Load()&draining != 0 && ep.member.Pending() == 0 {
		drained.send()
	}
}

// drained wakes those who wait for an endpoint to have nothing in flight.
var drained broadcast

// blamed says whether a status speaks against the endpoint: SP-06, not what the
// caller cancelled or asked wrongly, but a deadline does.
func blamed(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal, codes.DataLoss:
		return true
	}
	return false
}

// ticket is what an attempt with a guard has to remember. Tickets are used again,
// each with a done that was made once, so that a pick allocates nothing.
type ticket struct {
	endpoint *endpoint
	token    admission.Token
	since    time.Time
	done     func(lb.DoneInfo)
}

var tickets sync.Pool

func newTicket(ep *endpoint, token admission.Token) *ticket {
	t, _ := tickets.Get().(*ticket)
	if t == nil {
		t = &ticket{}
		t.done = t.ended
	}
	t.endpoint, t.token, t.since = ep, token, time.Now()
	return t
}

func (t *ticket) ended(info lb.DoneInfo) {
	ep, token, elapsed := t.endpoint, t.token, time.Since(t.since)
	t.endpoint = nil
	tickets.Put(t)
	o := outcomeOf(info)
	o.Elapsed = elapsed
	ep.ended(info)
	ep.guard.Report(token, o)
}

// outcomeOf is what gRPC says of the end of an attempt (seed row S-19). gRPC does
// not tell a broken connection from a server that answers UNAVAILABLE, but
// whether the server had sent anything.
func outcomeOf(info lb.DoneInfo) admission.Outcome {
	o := admission.Outcome{ResponseSeen: info.BytesReceived}
	if info.Err == nil {
		o.Kind = admission.OK
		if !info.BytesSent && !info.BytesReceived {
			o.Kind = admission.NotSent
		}
		return o
	}
	code := status.Code(info.Err)
	o.Code = uint32(code)
	switch {
	case code == codes.Canceled:
		o.Kind = admission.Cancelled
	case code == codes.DeadlineExceeded:
		o.Kind = admission.Deadline
	case code == codes.Unavailable && !info.BytesReceived && !info.BytesSent:
		o.Kind = admission.SendFailure
	case code == codes.Unavailable && !info.BytesReceived:
		o.Kind = admission.ConnectionClosed
	default:
		o.Kind = admission.RemoteError
	}
	return o
}
