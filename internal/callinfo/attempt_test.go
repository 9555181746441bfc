package callinfo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// ear is a Measurer that writes down what it is told.
type ear struct{ told []string }

func (e *ear) Delayed(_ context.Context, d *callinfo.Delay) {
	line := fmt.Sprintf("%s %v", d.Type, d.End.Sub(d.Begin))
	for _, r := range d.Reasons {
		line += fmt.Sprintf(" | %v %s", r.At.Sub(d.Begin), r.Text)
	}
	e.told = append(e.told, line)
}

func (e *ear) Chose(_ context.Context, c *callinfo.Choice) {
	e.told = append(e.told, "chose "+c.Selector)
}

// begun is the context of a call as the SDK begins it.
func begun() context.Context { return callinfo.Begin(context.Background(), new(int), "/p.S/M") }

// TestDelaysOfAnAttempt: what gRPC does to an attempt, and the delays that come of it
// (gRFC A121).
func TestDelaysOfAnAttempt(t *testing.T) {
	var (
		pending    = &callinfo.Wait{DelayType: "autosharding_assignment_pending", Text: "an assignment"}
		connecting = &callinfo.Wait{DelayType: "connecting", Text: "a connection"}
		another    = &callinfo.Wait{DelayType: "connecting", Text: "another connection"}
		down       = errors.New("all are down")
	)
	type act = func(ctx context.Context, a *callinfo.Attempt)
	sleep := func(d time.Duration) act { return func(context.Context, *callinfo.Attempt) { time.Sleep(d) } }
	queued := func(w *callinfo.Wait) act {
		return func(ctx context.Context, a *callinfo.Attempt) { a.Picking(ctx); a.Queued(ctx, w) }
	}
	failing := func(ctx context.Context, a *callinfo.Attempt) { a.Picking(ctx); a.Failing(ctx, down) }
	sent := func(ctx context.Context, a *callinfo.Attempt) { a.Picking(ctx); a.Sent(ctx) }
	unqueued := func(ctx context.Context, _ *callinfo.Attempt) { callinfo.Unqueued(ctx) }
	for _, c := range []struct {
		name  string
		trace bool
		acts  []act
		want  []string
	}{
		{"it does not wait", false, []act{sent, sleep(time.Second)}, nil},
		{"two types follow each other", false, []act{queued(pending), sleep(300), queued(connecting), sleep(200), sent, sleep(time.Second)}, []string{
			"autosharding_assignment_pending 300ns", "connecting 200ns",
		}},
		{"a reason within a type is no new delay", true, []act{queued(connecting), sleep(5), queued(another), sleep(5), queued(another), sleep(5), sent}, []string{
			"connecting 15ns | 0s a connection | 5ns another connection",
		}},
		{"a type that comes back is a new one", false, []act{queued(connecting), sleep(1), failing, sleep(2), queued(connecting), sleep(3), sent}, []string{
			"connecting 1ns", "picker_failing_with_wait_for_ready 2ns", "connecting 3ns",
		}},
		{"the errors of picks that fail are reasons", true, []act{failing, sleep(7), sent}, []string{
			"picker_failing_with_wait_for_ready 7ns | 0s all are down",
		}},
		{"it ends while it waits", false, []act{queued(pending), sleep(9)}, []string{"autosharding_assignment_pending 9ns"}},
		{"the connection that was picked is gone", false, []act{queued(pending), sleep(4), sent, sleep(6), sent}, []string{
			"autosharding_assignment_pending 4ns", "subchannel_state_mismatch 6ns",
		}},
		{"it is gone, and the next pick queues", false, []act{sent, sleep(6), queued(connecting), sleep(3), sent}, []string{
			"subchannel_state_mismatch 6ns", "connecting 3ns",
		}},
		{"before the first picker", true, []act{sleep(8), sent, unqueued}, []string{
			"connecting 8ns | 0s the first picker of the LB policy",
		}},
		{"gRPC's word after picks that queued is no news", false, []act{queued(pending), sleep(1), sent, unqueued}, []string{
			"autosharding_assignment_pending 1ns",
		}},
		{"a pick that does not say why it queued", false, []act{queued(nil), sleep(1), sent}, []string{"connecting 1ns"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &ear{}
				ctx := callinfo.Measure(begun(), e, true, c.trace)
				for _, act := range c.acts {
					act(ctx, callinfo.From(ctx).Attempt())
				}
				callinfo.Finish(ctx)
				callinfo.Finish(ctx)
				if !slices.Equal(e.told, c.want) {
					t.Errorf("told\n%q, want\n%q", e.told, c.want)
				}
				if callinfo.From(ctx).Measured() {
					t.Error("it is measured after its end")
				}
			})
		})
	}
}

// TestAttemptsOfACall: attempts one after the other use one record, attempts at once have
// one each, and a record that any call may have is left alone.
func TestAttemptsOfACall(t *testing.T) {
	ctx := begun()
	first := callinfo.Measure(ctx, &ear{}, false, false)
	if first != ctx {
		t.Error("the first attempt has a context of its own")
	}
	atOnce := callinfo.Measure(ctx, &ear{}, false, false)
	if callinfo.From(atOnce) == callinfo.From(ctx) || callinfo.From(atOnce).Tried != callinfo.From(ctx).Tried {
		t.Error("two attempts at once need records of their own, with what was tried in common")
	}
	callinfo.Finish(first)
	if again := callinfo.Measure(ctx, &ear{}, false, false); again != ctx {
		t.Error("the next attempt has a context of its own")
	}
	asked := callinfo.WithKey(context.Background(), "k")
	if own := callinfo.Measure(asked, &ear{}, false, false); own == asked || callinfo.From(own).Key != "k" || callinfo.From(asked).Measured() {
		t.Error("a record that is asked was begun")
	}
	if none := callinfo.Measure(context.Background(), &ear{}, false, false); !callinfo.From(none).Measured() {
		t.Error("an attempt without a record is not measured")
	}
}

// TestReasonsAreBounded: a wait that goes on for ever does not fill the memory.
func TestReasonsAreBounded(t *testing.T) {
	e := &ear{}
	ctx := callinfo.Measure(begun(), e, true, true)
	a := callinfo.From(ctx).Attempt()
	for i := range 1000 {
		a.Queued(ctx, &callinfo.Wait{DelayType: "connecting", Text: fmt.Sprint(i)})
	}
	callinfo.Finish(ctx)
	if len(e.told) != 1 || len(e.told[0]) > 2000 {
		t.Errorf("told %d times, %d bytes", len(e.told), len(e.told[0]))
	}
}

// TestMeasuringIsFree: an attempt that does not wait costs no allocation.
func TestMeasuringIsFree(t *testing.T) {
	e, ctx := &ear{}, begun()
	n := testing.AllocsPerRun(1000, func() {
		in := callinfo.Measure(ctx, e, false, false)
		a := callinfo.From(in).Attempt()
		a.Picking(in)
		a.Sent(in)
		callinfo.Finish(in)
	})
	if n != 0 {
		t.Errorf("an attempt costs %v allocations", n)
	}
}
