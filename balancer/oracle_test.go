package balancer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/protobuf/proto"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
	"github.com/slicewire/slicewire/internal/wire"
)

// The oracle is the seed's pseudo-code, line by line, slow and obviously right:
// it filters names, precomputes fallback, and scans. It answers with every pick
// that some random start can give.

type oracleSlice struct {
	start     []byte
	endpoints []int // into resolved endpoints; unknown names are dropped
	kind      assignment.Kind
}

type oracle struct {
	states   []connectivity.State
	slices   []oracleSlice // nil: no assignment
	fallback bool
	revision assignment.Revision
}

// outcome of one pick: an endpoint, "queue", or an error; and the endpoint that
// is asked to connect, or -1.
type outcome struct {
	kind     string
	endpoint int
	asked    int
}

func (o *oracle) lookup(key []byte) int {
	idx, found := slices.BinarySearchFunc(o.slices, key, func(s oracleSlice, k []byte) int { return bytes.Compare(s.start, k) })
	if found {
		return idx
	}
	return idx - 1
}

func (o *oracle) inFallback(indices []int) bool {
	for _, i := range indices {
		if o.states[i] != connectivity.TransientFailure {
			return false
		}
	}
	return true
}

func (o *oracle) outcomes(key []byte) []outcome {
	pool := make([]int, len(o.states))
	for i := range pool {
		pool[i] = i
	}
	if o.slices == nil {
		if o.fallback {
			return o.scan(pool)
		}
		return []outcome{{"fail", -1, -1}}
	}
	s := o.slices[o.lookup(key)]
	// The one place where the drafts differ here: 2026-10 never falls back where
	// the service itself assigned no endpoint.
	forbidden := o.revision == assignment.Revision202610 && s.kind == assignment.Unassigned
	if o.inFallback(s.endpoints) && o.fallback && !forbidden {
		return o.scan(pool)
	}
	return o.scan(s.endpoints)
}

func (o *oracle) scan(indices []int) []outcome {
	if len(indices) == 0 {
		return []outcome{{"fail", -1, -1}}
	}
	var all []outcome
	for first := range indices {
		all = append(all, o.scanFrom(indices, first))
	}
	return all
}

func (o *oracle) scanFrom(indices []int, first int) outcome {
	asked, connecting := -1, false
	for i := range indices {
		ep := indices[(first+i)%len(indices)]
		switch o.states[ep] {
		case connectivity.Ready:
			return outcome{"ready", ep, asked}
		case connectivity.Connecting:
			connecting = true
		case connectivity.Idle:
			if asked < 0 {
				asked = ep
			}
		}
	}
	if asked >= 0 || connecting {
		return outcome{"queue", -1, asked}
	}
	return outcome{"error", indices[first], -1}
}

// stubPicker is the picker of a child that stands still.
type stubPicker struct {
	result lb.PickResult
	err    error
}

func (p stubPicker) Pick(lb.PickInfo) (lb.PickResult, error) { return p.result, p.err }

type stubSubConn struct {
	lb.SubConn
	endpoint int
}

type stubError int

func (e stubError) Error() string { return fmt.Sprintf("endpoint %d is down", int(e)) }

// stub makes an endpoint that stands still in a state.
func stub(i int, name string, state connectivity.State) *endpoint {
	ep := newEndpoint(name)
	ep.counted = state
	p := stubPicker{result: lb.PickResult{SubConn: &stubSubConn{endpoint: i}}}
	if state != connectivity.Ready {
		p = stubPicker{err: lb.ErrNoSubConnAvailable}
	}
	if state == connectivity.TransientFailure {
		p = stubPicker{err: stubError(i)}
	}
	ep.cur.Store(&childState{connectivity: state, picker: p, since: time.Now()})
	return ep
}

// decodeSlices makes an assignment as if it had come off the wire.
func decodeSlices(t testing.TB, generation int64, revision assignment.Revision, names []string, list []*wire.SliceAssignment) *assignment.Assignment {
	t.Helper()
	chunk := &wire.AssignmentChunk{SliceAssignments: list}
	for _, n := range names {
		chunk.Endpoints = append(chunk.Endpoints, &wire.EndpointState{Endpoint: n})
	}
	frame, err := proto.Marshal(&wire.WatchShardingAssignmentResponse{
		Response: &wire.WatchShardingAssignmentResponse_Chunk{Chunk: chunk},
	})
	if err != nil {
		t.Fatal(err)
	}
	a, _, err := assignment.Decode(generation, revision, frame)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// stillPicker is a picker over a policy whose goroutine does not run.
func stillPicker(pub *published) *picker {
	p := &picker{policy: &policy{wake: make(chan struct{}, 1)}}
	if pub.route == nil {
		pub.route = stillRoute(selection.Sliced(selection.Policy{}))
	}
	pub.target = "test"
	p.cur.Store(pub)
	p.policy.picker = p
	pub.route.policy.Store(p.policy)
	pub.route.replan(pub.route.slots.Load().all()...)
	return p
}

// stillRoute is a route with one selector and no watcher.
func stillRoute(policy selection.Policy) *route {
	r := &Router{options: RouterOptions{Logger: slog.New(slog.DiscardHandler)}, gate: processGate.gate}
	r.disabled.Store(&map[string]Disabled{})
	s := &Selector{name: DefaultSelector, router: r, counts: new(counters), rule: &rule{generation: 1, policy: policy}}
	r.selectors = []*Selector{s}
	rt := &route{router: r}
	rt.slots.Store(&slotTable{main: newSlot(s, rt)})
	rt.slots.Load().main.setRule(s.rule)
	r.main.Store(rt)
	return rt
}

// counts are those of the default selector.
func (p *picker) counts() *counters { return p.cur.Load().route.slots.Load().main.selector.counts }

// asked returns and forgets who was asked to connect.
func (p *picker) takeAsked() []*endpoint {
	eps := p.policy.inbox.connect
	p.policy.inbox = inbox{}
	for _, ep := range eps {
		ep.connectAsked.Store(false)
	}
	return eps
}

func typedKey(key, header string) lb.PickInfo {
	return lb.PickInfo{Ctx: callinfo.NewContext(context.Background(), &callinfo.Call{Key: key, HasKey: true, Header: header})}
}

// TestPickAgreesWithSeed holds A-07 to A-12 (what is picked, queued, failed, and
// who is asked to connect) against the oracle, over random worlds.
func TestPickAgreesWithSeed(t *testing.T) {
	states := []connectivity.State{connectivity.Idle, connectivity.Connecting, connectivity.Ready, connectivity.TransientFailure}
	for world := range 400 {
		rng := rand.New(rand.NewPCG(7, uint64(world)))
		n := 1 + rng.IntN(5)
		o := &oracle{fallback: rng.IntN(2) == 0, revision: assignment.Revision(rng.IntN(2))}
		var eps []*endpoint
		var names []string
		mix := states[rng.IntN(4):] // some worlds lack some states
		for i := range n {
			s := mix[rng.IntN(len(mix))]
			o.states = append(o.states, s)
			names = append(names, fmt.Sprint("e", i))
			eps = append(eps, stub(i, names[i], s))
		}
		names = append(names, "stranger", "alien") // the resolver knows neither
		pub := &published{
			config: &Config{KeyHeader: "k", EnableFallback: o.fallback, Revision: o.revision},
			phase:  assignment.Failed,
			err:    errors.New("no assignment"),
			view:   newView(eps),
		}
		if rng.IntN(5) > 0 {
			cuts := 1 + rng.IntN(4)
			var list []*wire.SliceAssignment
			for c := range cuts {
				sa := &wire.SliceAssignment{Slice: &wire.Slice{StartKey: bytes.Repeat([]byte{byte(c * 60)}, min(c, 1))}}
				if c+1 < cuts {
					sa.Slice.EndKey = []byte{byte((c + 1) * 60)}
				}
				s := oracleSlice{start: sa.Slice.StartKey}
				for _, owner := range rng.Perm(len(names))[:rng.IntN(min(4, len(names)))] {
					sa.Endpoints = append(sa.Endpoints, &wire.PerSliceEndpointState{EndpointIndex: int32(owner)})
					if owner < n {
						s.endpoints = append(s.endpoints, owner)
					}
				}
				if len(sa.Endpoints) == 0 {
					s.kind = assignment.Unassigned
				}
				o.slices = append(o.slices, s)
				list = append(list, sa)
			}
			pub.phase = assignment.Assigned
			pub.slices = decodeSlices(t, 1, o.revision, names, list)
		}
		pub.resolveOwners()
		p := stillPicker(pub)
		for range 4 {
			key := []byte{byte(rng.IntN(256))}
			possible := o.outcomes(key)
			seen := map[outcome]bool{}
			for range 60 * len(possible) {
				got := pickOutcome(t, p, string(key))
				if !slices.Contains(possible, got) {
					t.Fatalf("world %d, %v %+v, key %x: got %+v, possible are %+v", world, o.states, o.slices, key, got, possible)
				}
				seen[got] = true
			}
			agrees(t, p, string(key), possible)
			for _, want := range possible {
				if !seen[want] {
					t.Errorf("world %d, %v %+v, key %x: never saw %+v", world, o.states, o.slices, key, want)
				}
			}
		}
	}
}

func pickOutcome(t *testing.T, p *picker, key string) outcome {
	t.Helper()
	res, err := p.Pick(typedKey(key, "k"))
	got := outcome{"fail", -1, -1}
	var down stubError
	switch {
	case err == nil:
		got = outcome{"ready", res.SubConn.(*stubSubConn).endpoint, -1}
	case err == lb.ErrNoSubConnAvailable: //nolint:errorlint // gRPC compares with ==
		got.kind = "queue"
	case errors.As(err, &down):
		got = outcome{"error", int(down), -1}
	}
	if asked := p.takeAsked(); len(asked) > 1 {
		t.Fatalf("one pick asked %d endpoints to connect", len(asked))
	} else if len(asked) == 1 {
		got.asked = asked[0].index
	}
	return got
}
