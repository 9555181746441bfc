package balancer

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/wire"
)

// shut is a guard that refuses everything.
type shut struct{ open }

func (shut) TryAcquire(string) (admission.Token, bool) { return 0, false }
func (shut) RetryAfter() time.Duration                 { return time.Second }

// explained is the explanation of a pick by p's default selector.
func explained(t *testing.T, p *picker, key string, limit int) Explanation {
	t.Helper()
	pub := p.cur.Load()
	pub.route.current.Store(pub)
	e, err := pub.route.router.selectors[0].Explain(key, limit)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// agrees holds an explanation against what picks of key can come to, and that it
// changed nothing.
func agrees(t *testing.T, p *picker, key string, possible []outcome) {
	t.Helper()
	before := p.counts().counts()
	for range 8 {
		e := explained(t, p, key, 0)
		got := outcome{"fail", -1, -1}
		var down stubError
		switch {
		case e.Outcome == Picked:
			n, _ := strconv.Atoi(strings.TrimPrefix(e.Endpoint, "e"))
			got = outcome{"ready", n, -1}
		case e.Outcome == Queued:
			got.kind = "queue"
		case errors.As(e.Err, &down):
			got = outcome{"error", int(down), -1}
		}
		if e.Connects != "" {
			got.asked, _ = strconv.Atoi(strings.TrimPrefix(e.Connects, "e"))
		}
		if !slices.Contains(possible, got) {
			t.Errorf("key %x: explained as %+v (%s), picks can give %+v", key, got, e.Why, possible)
		}
		if e.Why == "" {
			t.Errorf("key %x: %v without a reason", key, e.Outcome)
		}
	}
	if asked := p.takeAsked(); len(asked) > 0 {
		t.Errorf("explaining asked %d endpoints to connect", len(asked))
	}
	if after := p.counts().counts(); !reflect.DeepEqual(before, after) {
		t.Errorf("explaining counted: %+v, before %+v", after, before)
	}
}

// TestExplainEachPolicy: what is explained is what a pick gives, and the turns of
// round robin do not move.
func TestExplainEachPolicy(t *testing.T) {
	for _, policy := range everyPolicy() {
		t.Run(policy.String(), func(t *testing.T) {
			p := selectionWorld(t, 20, policy)
			if p.plan.Load() == nil && policy.Kind() != selection.KindCustom && policy.Kind() != selection.KindCustomBuilt {
				t.Fatal("picks have no plan; then the fast path is not compared")
			}
			for key := range 50 {
				key := fmt.Sprint("key-", key)
				e := explained(t, p, key, 5)
				if e.Outcome != Picked || e.Endpoint == "" || e.Err != nil {
					t.Fatalf("explained as %+v", e)
				}
				if len(e.Candidates) != 5 || e.More != 15 {
					t.Errorf("%d candidates and %d more, want 5 and 15", len(e.Candidates), e.More)
				}
				switch policy.Kind() {
				case selection.KindKetama, selection.KindRoundRobin, selection.KindCustomBuilt:
					res, err := p.Pick(typedKey(key, ""))
					if err != nil {
						t.Fatal(err)
					}
					if got := res.SubConn.(*stubSubConn).endpoint; fmt.Sprintf("host-%05d", got) != e.Endpoint {
						t.Errorf("picked endpoint %d, explained %s", got, e.Endpoint)
					}
				}
			}
		})
	}
}

// TestExplainStates: an endpoint that is disabled, or that admission refuses, is
// passed over, and the explanation says why nobody is left.
func TestExplainStates(t *testing.T) {
	p := selectionWorld(t, 2, selection.RoundRobin())
	pub := p.cur.Load()
	router := pub.route.router
	pub.route.current.Store(pub)
	router.SetEnabled("host-00000", false, "for repair")
	for range 4 {
		if e := explained(t, p, "k", 0); e.Endpoint != "host-00001" {
			t.Errorf("explained as %+v, want the endpoint that is enabled", e)
		}
	}
	admitWith(pub.view.endpoints[1], shut{})
	e := explained(t, p, "k", 0)
	if e.Outcome != Failed || !strings.Contains(e.Why, "admission refused every candidate") {
		t.Errorf("explained as %+v", e)
	}
}

// TestExplainFull: an endpoint whose connections are full, while another one is on
// its way, is explained as picks find it. Asking neither opens one nor takes a place.
func TestExplainFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPoolWorld(t, Connections{Max: 2, Streams: 1}, "a")
		w.connected()
		w.cc.answer("a", holds)
		rpc := w.begin()
		look := func() Explanation {
			t.Helper()
			e, err := w.router.Selector(DefaultSelector).Explain("k", 0)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		if e := look(); e.Outcome != Queued {
			t.Errorf("explained as %+v, want an RPC that waits for a connection", e)
		}
		synctest.Wait()
		if s := w.states("a"); s.Ready != 1 || s.Connecting != 0 || s.Streams != 1 {
			t.Errorf("explaining made connections: %+v", s)
		}
		if _, err := w.policy.picker.Pick(selectorInfo("")); !errors.Is(err, lb.ErrNoSubConnAvailable) {
			t.Errorf("a pick gave %v, and not that it waits", err)
		}
		synctest.Wait()
		wait(2 * time.Second) // longer than RPCs wait for the other connection
		if e := look(); e.Outcome != Picked || e.Endpoint != "a" {
			t.Errorf("explained as %+v, want a place on the full connection", e)
		}
		rpc.end()
		if e := look(); e.Outcome != Picked || w.states("a").Streams != 0 {
			t.Errorf("explained as %+v, with connections %+v", e, w.states("a"))
		}
	})
}

// TestExplainSlice: the slice, its bounds and its owners, known to the resolver or
// not, and why all endpoints are candidates.
func TestExplainSlice(t *testing.T) {
	states := []connectivity.State{connectivity.TransientFailure, connectivity.Ready}
	pub := &published{
		config: &Config{KeyHeader: "k", EnableFallback: true},
		phase:  assignment.Assigned,
		slices: decodeSlices(t, 7, assignment.Revision202608, []string{"e0", "e1", "stranger"}, []*wire.SliceAssignment{
			{Slice: &wire.Slice{EndKey: []byte("m")}, Endpoints: []*wire.PerSliceEndpointState{{EndpointIndex: 0}, {EndpointIndex: 2}}},
			{Slice: &wire.Slice{StartKey: []byte("m")}, Endpoints: []*wire.PerSliceEndpointState{{EndpointIndex: 1}}},
		}),
		view: newView([]*endpoint{stub(0, "e0", states[0]), stub(1, "e1", states[1])}),
	}
	pub.resolveOwners()
	p := stillPicker(pub)

	e := explained(t, p, "a", 0)
	if e.Outcome != Picked || e.Endpoint != "e1" || e.Fallback != "all_failing" || e.Generation != 7 || !strings.Contains(e.Why, "every owner") {
		t.Errorf("explained as %+v, want e1 in fallback", e)
	}
	s := e.Slice
	if s == nil || s.Number != 0 || len(s.Start) != 0 || string(s.End) != "m" || s.Last || s.AllOwners != 2 {
		t.Fatalf("slice %+v", s)
	}
	if o := s.Owners; len(o) != 2 || !o[0].Known || o[0].State != states[0] || o[1].Known || o[1].Name != "stranger" {
		t.Errorf("owners %+v", o)
	}
	if e = explained(t, p, "z", 0); e.Endpoint != "e1" || e.Fallback != "" || !e.Slice.Last || e.Slice.End != nil {
		t.Errorf("explained as %+v, want the owner", e)
	}

	table := pub.route.router.Slices()
	if table.Len() != 2 || table.Generation() != 7 || !table.InUse() || table.Find("mm") != 1 || len(table.Slice(0, 1).Owners) != 1 {
		t.Errorf("slice table %+v", table)
	}
	if n := testing.AllocsPerRun(100, func() { pub.route.router.Slices().Find("q") }); n > 1 {
		t.Errorf("a slice table costs %v allocations", n)
	}
}

// TestExplainOfClosed: without a policy there is nothing to look at, and that is
// said.
func TestExplainOfClosed(t *testing.T) {
	r := NewRouter(RouterOptions{})
	e, err := r.Selector(DefaultSelector).Explain("k", 0)
	if err != nil || e.Outcome != Queued || !strings.Contains(e.Why, "idle") {
		t.Errorf("got %+v, %v", e, err)
	}
	if r.Slices() != nil {
		t.Error("a slice table without an assignment")
	}
	s, err := r.AddSelector("s", selection.P2C(), FromCode)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.RemoveSelector("s"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Explain("k", 0); !errors.Is(err, ErrNoSelector) {
		t.Errorf("explaining by a selector that is gone: %v", err)
	}
	r.Close()
}
