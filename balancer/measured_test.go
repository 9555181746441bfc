package balancer

import (
	"context"
	"slices"
	"testing"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// listener is a Measurer that keeps what it is told.
type listener struct {
	types []string
	chose []callinfo.Choice
}

func (l *listener) Delayed(_ context.Context, d *callinfo.Delay) { l.types = append(l.types, d.Type) }
func (l *listener) Chose(_ context.Context, c *callinfo.Choice)  { l.chose = append(l.chose, *c) }

// measuredAttempt is an attempt with a typed key that is measured.
func measuredAttempt(l *listener, key string, waits, trace bool) lb.PickInfo {
	ctx := typedKey(key, "x-key").Ctx
	ctx = callinfo.Begin(ctx, new(int), "/p.S/M")
	return lb.PickInfo{Ctx: callinfo.Measure(ctx, l, waits, trace)}
}

// Field case TE-08: a pick that is measured, and does not wait, costs no allocation.
func TestTE08MeasuredPickDoesNotAllocate(t *testing.T) {
	p := world(t, 1000, 100, 3, connectivity.Ready)
	l := &listener{}
	info := measuredAttempt(l, "a key", false, false)
	record := callinfo.From(info.Ctx)
	if n := testing.AllocsPerRun(1000, func() {
		callinfo.Finish(info.Ctx)
		if callinfo.Measure(info.Ctx, l, false, false) != info.Ctx || !record.Measured() {
			t.Fatal("the record is not used again")
		}
		if _, err := p.Pick(info); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a pick, want 0", n)
	}
	if len(l.types)+len(l.chose) != 0 {
		t.Errorf("it was told of %q and %v", l.types, l.chose)
	}
}

// TestMeasuredPicks: what picks tell of attempts that wait, and of traced ones.
func TestMeasuredPicks(t *testing.T) {
	l := &listener{}
	p := world(t, 1000, 100, 3, connectivity.Ready)
	info := measuredAttempt(l, "a key", false, true)
	if _, err := p.Pick(info); err != nil {
		t.Fatal(err)
	}
	if len(l.chose) != 1 || l.chose[0].Selector != callinfo.DefaultSelector || l.chose[0].Policy != "sliced" ||
		l.chose[0].Slice < 0 || l.chose[0].Generation != 1 || l.chose[0].Fallback != "" {
		t.Errorf("it chose %+v", l.chose)
	}
	callinfo.Finish(info.Ctx)
	for _, c := range []struct {
		state connectivity.State
		waits bool
		want  []string
	}{
		{connectivity.Connecting, false, []string{callinfo.DelayConnecting}},
		{connectivity.TransientFailure, true, []string{callinfo.DelayFailing}},
		{connectivity.TransientFailure, false, nil}, // the RPC fails
	} {
		l := &listener{}
		p := world(t, 1000, 100, 3, c.state)
		info := measuredAttempt(l, "a key", c.waits, false)
		if _, err := p.Pick(info); err == nil {
			t.Fatalf("a pick among %v endpoints chose one", c.state)
		}
		callinfo.Finish(info.Ctx)
		if !slices.Equal(l.types, c.want) {
			t.Errorf("endpoints are %v: it waited for %q, want %q", c.state, l.types, c.want)
		}
	}
}
