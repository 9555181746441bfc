package callinfo

import (
	"context"
	"sync/atomic"
	"time"
)

// Measurer is told what the attempts of a channel wait for and where they go. Its
// methods are called by the goroutine of the RPC, with the attempt's context and
// without a lock; never for an attempt that neither waits nor is traced.
type Measurer interface {
	// Delayed is told of each delay once, when it is over. Who implements it keeps
	// nothing of it.
	Delayed(ctx context.Context, d *Delay)
	// Chose is told of each pick of a traced attempt that chose an endpoint.
	Chose(ctx context.Context, c *Choice)
}

// Delay is one time that an attempt, or a call before its first attempt, waited for
// one type of reason (gRFC A121).
type Delay struct {
	Type       string
	Begin, End time.Time
	// Reasons are the texts within the type, in the order in which they began. They
	// are kept for traced attempts alone, the first 32 of them.
	Reasons []Reason
}

// Reason is one reason within a type.
type Reason struct {
	At   time.Time
	Text string
}

const keptReasons = 32

// Choice is what one pick came to.
type Choice struct {
	Selector, Policy string
	// Slice is the number of the key's slice, -1 where none was looked up, and
	// Generation that of the assignment.
	Slice      int
	Generation int64
	// Fallback is why the pick chose among all endpoints, "" if it did not.
	Fallback string
}

// Attempt is what is measured of one attempt. It lies in the Call, so that an
// attempt that does not wait costs no allocation, and is used again by the next
// attempt of the same call.
//
// What is not atomic belongs to the attempt: gRPC makes its stats events and picks
// one after the other.
type Attempt struct {
	state    atomic.Uint32
	measurer Measurer
	// since is from when on a wait counts: the start of the attempt, then the end of
	// its last delay. It is the time since epoch.
	since time.Duration
	open  *Delay // nil unless it waits
	// resolving is since when the call, not yet an attempt, waits for the name resolver;
	// 0 if it does not. It is the time since epoch. The call stores it; each attempt
	// loads it, and the first takes it.
	resolving atomic.Int64
}

// Bits of Attempt.state; 0 is an attempt that nobody measures.
const (
	measured     = 1 << iota
	traced       // Chose is told, and reasons are kept
	waitForReady // gRPC queues it when its picks fail
	picked       // it was picked for
	delayed      // it had a delay
)

var epoch = time.Now()

// Types of delays that are not the reason of a queued pick (gRFC A121).
const (
	DelayResolving          = "resolving"
	DelayConnecting         = "connecting"
	DelayFailing            = "picker_failing_with_wait_for_ready"
	DelaySubchannelMismatch = "subchannel_state_mismatch"
)

var (
	waitMismatch    = &Wait{DelayType: DelaySubchannelMismatch, Text: "the connection that was picked was gone before the RPC was sent"}
	waitFirstPicker = &Wait{DelayType: DelayConnecting, Text: "the first picker of the LB policy"}
)

// Measure begins to measure an attempt, whose context it returns: ctx itself where
// the record in it belongs to this call and no other attempt is using it. Finish has
// to follow.
func Measure(ctx context.Context, m Measurer, waits, trace bool) context.Context {
	state := uint32(measured)
	if waits {
		state |= waitForReady
	}
	if trace {
		state |= traced
	}
	c := From(ctx)
	switch {
	case c == nil:
		c = &Call{}
		ctx = NewContext(ctx, c)
	case c.Tried == nil: // asked: any number of calls, and channels, may have it
		c = c.asks()
		ctx = NewContext(ctx, c)
	case !c.attempt.state.CompareAndSwap(0, measured): // an interceptor makes several attempts at once
		c = c.Within()
		ctx = NewContext(ctx, c)
	}
	a := &c.attempt
	a.measurer, a.since, a.open = m, time.Since(epoch), nil
	a.state.Store(state)
	return ctx
}

// Resolves notes since when the call, which was begun, waits for the name resolver inside
// gRPC, as it does on a channel that was idle.
func Resolves(ctx context.Context, since time.Time) {
	From(ctx).attempt.resolving.Store(int64(since.Sub(epoch)))
}

// Resolved is that time, once: zero where the call does not wait or it was asked for.
func Resolved(ctx context.Context) time.Time {
	c := From(ctx)
	if c == nil || c.attempt.resolving.Load() == 0 {
		return time.Time{}
	}
	since := c.attempt.resolving.Swap(0)
	if since == 0 {
		return time.Time{}
	}
	return epoch.Add(time.Duration(since))
}

// Unqueued is gRPC's word that the attempt had been queued and is not any more. It is
// news where no pick could say so: before the LB policy's first picker.
func Unqueued(ctx context.Context) {
	a := attemptOf(ctx)
	if a == nil || a.state.Load()&delayed != 0 {
		return
	}
	a.waits(ctx, waitFirstPicker)
	a.Sent(ctx)
}

// Finish ends the attempt, and the delay it may be in.
func Finish(ctx context.Context) {
	if a := attemptOf(ctx); a != nil {
		a.Sent(ctx)
		a.measurer = nil
		a.state.Store(0)
	}
}

func attemptOf(ctx context.Context) *Attempt {
	if c := From(ctx); c.Measured() {
		return &c.attempt
	}
	return nil
}

// Measured says whether somebody measures the attempt that c, which may be nil, is
// the record of. It is one load.
func (c *Call) Measured() bool { return c != nil && c.attempt.state.Load() != 0 }

// Method is the full method of a call that was begun, else "".
func (c *Call) Method() string { return c.method }

// Attempt is what is measured; call it only while c is Measured.
func (c *Call) Attempt() *Attempt { return &c.attempt }

// Traced says whether Chose is to be told.
func (a *Attempt) Traced() bool { return a.state.Load()&traced != 0 }

// WaitsForReady says whether gRPC queues the attempt when its picks fail.
func (a *Attempt) WaitsForReady() bool { return a.state.Load()&waitForReady != 0 }

// Picking is the start of a pick. gRPC picks again after a pick that had chosen only
// when it could not use the connection, and that only after the picker has changed:
// this was a wait of its own type.
func (a *Attempt) Picking(ctx context.Context) {
	state := a.state.Load()
	if state&picked == 0 {
		a.state.Store(state | picked)
	} else if a.open == nil {
		a.waits(ctx, waitMismatch)
	}
}

// Sent is a pick that chose an endpoint: what the attempt waited for is over.
func (a *Attempt) Sent(ctx context.Context) {
	if a.open != nil {
		a.close(ctx, time.Now())
	}
}

// Queued is a pick that queued for w, nil where it does not say.
func (a *Attempt) Queued(ctx context.Context, w *Wait) {
	if w == nil {
		w = waitFirstPicker
	}
	a.waits(ctx, w)
}

// Failing is a pick that failed, of an attempt that waits for ready. The text must
// hold no key.
func (a *Attempt) Failing(ctx context.Context, err error) {
	w := Wait{DelayType: DelayFailing}
	if a.Traced() {
		w.Text = err.Error()
	}
	a.waits(ctx, &w)
}

// Chose tells of a pick.
func (a *Attempt) Chose(ctx context.Context, c *Choice) { a.measurer.Chose(ctx, c) }

// waits opens a delay, or goes on with the one that is open: another reason of the
// same type is no new one.
func (a *Attempt) waits(ctx context.Context, w *Wait) {
	now := time.Now()
	if a.open != nil && a.open.Type != w.DelayType {
		a.close(ctx, now)
	}
	state := a.state.Load()
	if a.open == nil {
		a.state.Store(state | delayed)
		a.open = &Delay{Type: w.DelayType, Begin: epoch.Add(a.since)}
		now = a.open.Begin
	}
	if state&traced == 0 {
		return
	}
	if n := len(a.open.Reasons); n < keptReasons && (n == 0 || a.open.Reasons[n-1].Text != w.Text) {
		a.open.Reasons = append(a.open.Reasons, Reason{now, w.Text})
	}
}

func (a *Attempt) close(ctx context.Context, now time.Time) {
	d := a.open
	a.open, a.since = nil, now.Sub(epoch)
	d.End = now
	a.measurer.Delayed(ctx, d)
}
