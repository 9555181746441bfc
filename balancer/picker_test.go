package balancer

import (
	"context"
	"errors"
	"strings"
	"testing"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/internal/callinfo"
	"github.com/slicewire/slicewire/internal/wire"
)

// twoOwners is a picker over [start, m) at e0 and [m, end) at e1, both READY.
func twoOwners(t testing.TB) *picker {
	t.Helper()
	eps := []*endpoint{stub(0, "e0", connectivity.Ready), stub(1, "e1", connectivity.Ready)}
	pub := &published{
		config:     &Config{KeyHeader: "x-key"},
		oldHeaders: []string{"x-old"},
		phase:      assignment.Assigned,
		slices: decodeSlices(t, 3, assignment.Revision202608, []string{"e0", "e1"}, []*wire.SliceAssignment{
			{Slice: &wire.Slice{EndKey: []byte("m")}, Endpoints: []*wire.PerSliceEndpointState{{EndpointIndex: 0}}},
			{Slice: &wire.Slice{StartKey: []byte("m")}, Endpoints: []*wire.PerSliceEndpointState{{EndpointIndex: 1}}},
		}),
		view: newView(eps),
	}
	pub.resolveOwners()
	return stillPicker(pub)
}

// TestA04KeyOfPick: which key routes.
func TestA04KeyOfPick(t *testing.T) {
	call := func(c *callinfo.Call, headers ...string) context.Context {
		ctx := metadata.AppendToOutgoingContext(context.Background(), headers...)
		if c != nil {
			ctx = callinfo.NewContext(ctx, c)
		}
		return ctx
	}
	for _, tc := range []struct {
		name string
		ctx  context.Context
		want int // endpoint, or -1
	}{
		{"typed key", call(&callinfo.Call{Key: "z", HasKey: true, Header: "x-key"}), 1},
		{"typed key, the header is not read again", call(&callinfo.Call{Key: "z", HasKey: true, Header: "x-key"}, "x-key", "a"), 1},
		{"header", call(nil, "x-key", "z"), 1},
		{"header in capitals", call(nil, "X-Key", "z"), 1},
		{"PF-10 an empty header value is a key", call(nil, "x-key", ""), 0},
		{"PF-10 an empty typed key is a key", call(&callinfo.Call{HasKey: true, Header: "x-key"}), 0},
		{"a typed key that is not on the wire does not route", call(&callinfo.Call{Key: "z", HasKey: true}, "x-key", "a"), 0},
		{"a typed key under another header does not route", call(&callinfo.Call{Key: "z", HasKey: true, Header: "x-other"}, "x-key", "a"), 0},
		{"a typed key under the header of the config before", call(&callinfo.Call{Key: "z", HasKey: true, Header: "x-old"}), 1},
		{"A-05 no key", call(nil), -1},
		{"A-05 a typed key that is not on the wire, no header", call(&callinfo.Call{Key: "z", HasKey: true}), -1},
		{"two values", call(nil, "x-key", "a", "x-key", "z"), -1},
		{"IM-05 an inbound key is none", metadata.NewIncomingContext(context.Background(), metadata.Pairs("x-key", "z")), -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, err := twoOwners(t).Pick(lb.PickInfo{Ctx: tc.ctx})
			if tc.want < 0 {
				// A drop, so that an RPC that waits for ready does not hang; not
				// INVALID_ARGUMENT, which gRPC would turn into INTERNAL.
				if status.Code(err) != codes.Unavailable || !isDrop(err) || !strings.Contains(err.Error(), `"x-key"`) {
					t.Fatalf("got %v, %v; want UNAVAILABLE naming the header", res, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := res.SubConn.(*stubSubConn).endpoint; got != tc.want {
				t.Errorf("reached endpoint %d, want %d", got, tc.want)
			}
		})
	}
}

// TestA05OptionalKey: an RPC that an interceptor let through without a key goes
// anywhere.
func TestA05OptionalKey(t *testing.T) {
	p := twoOwners(t)
	seen := map[int]int{}
	for range 200 {
		res, err := p.Pick(lb.PickInfo{Ctx: callinfo.NewContext(context.Background(), &callinfo.Call{Header: "x-key"})})
		if err != nil {
			t.Fatal(err)
		}
		seen[res.SubConn.(*stubSubConn).endpoint]++
	}
	if len(seen) != 2 {
		t.Errorf("reached %v, want both endpoints", seen)
	}
	if got := p.counts().keyless.Load(); got != 200 {
		t.Errorf("counted %d keyless picks, want 200", got)
	}
}

// TestPickErrorsHoldNoKey looks for a marker key in every error a pick can end
// with, and for what the error has to say.
func TestPickErrorsHoldNoKey(t *testing.T) {
	const marker = "zz-secret-marker"
	owned := []*wire.PerSliceEndpointState{{EndpointIndex: 0}}
	slices := func(owners []*wire.PerSliceEndpointState, names ...string) *assignment.Assignment {
		return decodeSlices(t, 9, assignment.Revision202608, names, []*wire.SliceAssignment{{Slice: &wire.Slice{}, Endpoints: owners}})
	}
	down := func() []*endpoint { return []*endpoint{stub(0, "e0", connectivity.TransientFailure)} }
	for _, tc := range []struct {
		name string
		pub  *published
		want []string
	}{
		{"no endpoints", &published{fail: errors.New("no endpoints")}, []string{"no endpoints"}},
		{"no assignment", &published{phase: assignment.Failed, err: errors.New("no assignment")}, []string{"no assignment"}},
		{"server gave no owner", &published{phase: assignment.Assigned, slices: slices(nil, "e0"), view: newView(down())}, []string{"assigned no endpoint", "generation 9", "fallback is off"}},
		{"owner unknown", &published{phase: assignment.Assigned, slices: slices(owned, "stranger"), view: newView(down())}, []string{"resolver knows none", "generation 9"}},
		{"owner down", &published{phase: assignment.Assigned, slices: slices(owned, "e0"), view: newView(down())}, []string{"every owner", `"e0"`, "endpoint 0 is down"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.pub.config = &Config{KeyHeader: "x-key"}
			if tc.pub.view == nil {
				tc.pub.view = newView(nil)
			}
			tc.pub.resolveOwners()
			_, err := stillPicker(tc.pub).Pick(typedKey(marker, "x-key"))
			if err == nil || isDrop(err) {
				t.Fatalf("got %v, want an error that waits for ready", err)
			}
			if strings.Contains(err.Error(), marker) {
				t.Errorf("the key is in %q", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
		})
	}
}

// TestWaiting: a queued pick says what it waits for, returns gRPC's sentinel
// bare, and takes the note back once it has got through.
func TestWaiting(t *testing.T) {
	p := twoOwners(t)
	ready := p.cur.Load()
	waiting := &published{config: ready.config, phase: assignment.Waiting, view: ready.view, route: ready.route}
	call := &callinfo.Call{Key: "a", HasKey: true, Header: "x-key"}
	info := lb.PickInfo{Ctx: callinfo.NewContext(context.Background(), call)}

	p.cur.Store(waiting)
	if _, err := p.Pick(info); err != lb.ErrNoSubConnAvailable { //nolint:errorlint // gRPC compares with ==
		t.Fatalf("A-31: got %v, want the bare ErrNoSubConnAvailable", err)
	}
	if w := call.Waiting.Load(); w == nil || w.DelayType != "autosharding_assignment_pending" {
		t.Errorf("A-31: waiting for %+v, want autosharding_assignment_pending", w)
	}
	if !p.queued.Load() {
		t.Error("the policy does not know that somebody waits")
	}
	p.cur.Store(ready)
	if _, err := p.Pick(info); err != nil {
		t.Fatal(err)
	}
	if w := call.Waiting.Load(); w != nil {
		t.Errorf("a call that got through still waits for %+v", w)
	}
}
