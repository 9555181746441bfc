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
	c, counted := res.SubConn.(*readyConn)
	if counted {
		return ep.sendOn(c, info, res)
	}
	if ep.flags.Load()&barred != 0 {
		ep.undo()
		return false
	}
	done := ep.done
	if g := ep.guard.Load(); g != nil {
		token, ok := (*g).TryAcquire(info.FullMethodName)
		if !ok {
			ep.undo()
			return false
		}
		done = newTicket(ep, nil, g, token).done
	}
	if res.Done != nil { // pick_first has none
		child, own := res.Done, done
		done = func(i lb.DoneInfo) { child(i); own(i) }
	}
	res.Done = done
	return true
}

// sendOn is the rest of send where RPCs are counted by connection. The pick has
// reserved its place on c.
func (ep *endpoint) sendOn(c *readyConn, info lb.PickInfo, res *lb.PickResult) (admitted bool) {
	if ep.flags.Load()&barred != 0 {
		c.conn.release()
		ep.undo()
		return false
	}
	done := c.conn.done
	var token admission.Token
	guard := ep.guard.Load()
	if guard != nil {
		var ok bool
		if token, ok = (*guard).TryAcquire(info.FullMethodName); !ok {
			c.conn.release()
			ep.undo()
			return false
		}
	}
	watch := c.conn.watch.Load()
	if guard != nil || watch != nil {
		t := newTicket(ep, c.conn, guard, token)
		t.watch, done = watch, t.done
	}
	if n := int64(ep.member.Pending()); n > ep.pool.most.Load() {
		ep.pool.most.Store(n)
	}
	res.SubConn, res.Done = c.SubConn, done
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

// ticket is what an attempt has to remember where there is a guard, or where its
// connection is watched. Tickets are used again,
// each with a done that was made once, so that a pick allocates nothing.
type ticket struct {
	endpoint *endpoint
	conn     *childConn // nil where RPCs are not counted by connection
	watch    *Unresponsive
	guard    *admission.Guard // that gave the token, nil without one
	token    admission.Token
	since    time.Time
	done     func(lb.DoneInfo)
}

var tickets sync.Pool

func newTicket(ep *endpoint, c *childConn, guard *admission.Guard, token admission.Token) *ticket {
	t, _ := tickets.Get().(*ticket)
	if t == nil {
		t = &ticket{}
		t.done = t.ended
	}
	t.endpoint, t.conn, t.guard, t.token, t.since = ep, c, guard, token, time.Now()
	return t
}

func (t *ticket) ended(info lb.DoneInfo) {
	ep, c, watch, guard, token, since := t.endpoint, t.conn, t.watch, t.guard, t.token, t.since
	t.endpoint, t.conn, t.watch, t.guard = nil, nil, nil, nil
	tickets.Put(t)
	if watch != nil {
		c.heard(watch, since, info)
	}
	if c != nil {
		c.release()
	}
	ep.ended(info)
	if guard != nil {
		o := outcomeOf(info)
		o.Elapsed = time.Since(since)
		(*guard).Report(token, o)
	}
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
