package balancer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/internal/wire"
)

// TestReconnectedUnseen: an endpoint that lost its connection and is READY again
// before the policy looks still wakes RPCs, for one may hold the lost connection.
func TestReconnectedUnseen(t *testing.T) {
	ep := stub(0, "a", connectivity.Ready)
	p := &policy{view: newView([]*endpoint{ep}), wake: make(chan struct{}, 1)}
	p.picker = &picker{policy: p}
	child := adopt(p, ep)
	for _, s := range []connectivity.State{connectivity.Idle, connectivity.Connecting, connectivity.Ready} {
		child.UpdateState(lb.State{ConnectivityState: s, Picker: stubPicker{}})
	}
	p.handleChange(ep)
	if !p.mustReport {
		t.Error("no new picker for RPCs that hold the lost connection")
	}
	p.mustReport = false
	p.handleChange(ep)
	if p.mustReport {
		t.Error("one loss is reported twice")
	}
}

// sideEffect is a child's picker that lets the world go on in the middle of a pick.
type sideEffect func()

func (f sideEffect) Pick(lb.PickInfo) (lb.PickResult, error) {
	f()
	return lb.PickResult{}, lb.ErrNoSubConnAvailable
}

// TestAnswerThatCameAlready: the endpoint that the first look asked to connect
// has failed, and the policy has dealt with it, before the RPC counts as queued.
// The second look must not wait for it.
func TestAnswerThatCameAlready(t *testing.T) {
	for name, idleLeft := range map[string]bool{"all failing": false, "another is idle": true} {
		// Scans start anywhere, so the first look asks in some rounds only.
		t.Run(name, func(t *testing.T) {
			for range 50 {
				answerThatCameAlready(t, idleLeft)
			}
		})
	}
}

func answerThatCameAlready(t *testing.T, idleLeft bool) {
	t.Helper()
	asked, mid := stub(0, "asked", connectivity.Idle), stub(1, "mid", connectivity.Ready)
	eps, names := []*endpoint{asked, mid}, []string{"asked", "mid"}
	if idleLeft {
		eps, names = append(eps, stub(2, "idle", connectivity.TransientFailure)), append(names, "idle")
	}
	var owners []*wire.PerSliceEndpointState
	for i := range eps {
		owners = append(owners, &wire.PerSliceEndpointState{EndpointIndex: int32(i)})
	}
	pub := &published{
		config: &Config{KeyHeader: "k"},
		phase:  assignment.Assigned,
		slices: decodeSlices(t, 1, assignment.Revision202608, names, []*wire.SliceAssignment{{Slice: &wire.Slice{}, Endpoints: owners}}),
		view:   newView(eps),
	}
	pub.resolveOwners()
	p := stillPicker(pub)
	down := func(ep *endpoint) {
		ep.cur.Store(&childState{connectivity: connectivity.TransientFailure, picker: stubPicker{err: stubError(0)}, since: time.Now()})
	}
	mid.cur.Store(&childState{connectivity: connectivity.Ready, picker: sideEffect(func() {
		// The policy acted on another pick's wish meanwhile, and all failed.
		down(asked)
		down(mid)
		if idleLeft {
			eps[2].cur.Store(&childState{connectivity: connectivity.Idle})
		}
		asked.connectAsked.Store(true)
	})})
	info := typedKey("x", "k")
	_, err := p.Pick(info)
	if !idleLeft {
		if err == nil || err == lb.ErrNoSubConnAvailable { //nolint:errorlint // as gRPC compares it
			t.Errorf("got %v; want the endpoints' failure", err)
		}
		return
	}
	if wishes := p.takeAsked(); err != lb.ErrNoSubConnAvailable || len(wishes) == 0 || wishes[len(wishes)-1] != eps[2] { //nolint:errorlint // as gRPC compares it
		t.Errorf("got %v, and %d wishes; want to wait for the endpoint that is left", err, len(wishes))
	}
}

// TestNewestUpdateWins: field case EC-06. Updates that come while the policy is at
// work are handled as one, the newest.
func TestNewestUpdateWins(t *testing.T) {
	p := &policy{wake: make(chan struct{}, 1)}
	for _, addrs := range [][]string{{"a"}, {"b", "c"}, {"d"}} {
		p.ResolverError(errors.New("older than the update"))
		if err := p.UpdateClientConnState(poolUpdate(addrs...)); err != nil {
			t.Fatal(err)
		}
	}
	if u := p.inbox.update; u == nil || len(u.usable) != 1 || u.usable[0].name != "d" || p.inbox.resolverError != nil {
		t.Errorf("in the inbox: %+v, %v", u, p.inbox.resolverError)
	}
}

// TestChildStatusIsNoDrop: a dialer or handshaker that fails with a gRPC status
// does not end RPCs that wait for ready, nor makes others INTERNAL.
func TestChildStatusIsNoDrop(t *testing.T) {
	ep := stub(0, "a", connectivity.TransientFailure)
	ep.cur.Store(&childState{connectivity: connectivity.TransientFailure, picker: stubPicker{err: fmt.Errorf("dialing: %w", status.Error(codes.InvalidArgument, "no such name"))}})
	p := stillPicker(&published{config: &Config{KeyHeader: "k", EnableFallback: true}, phase: assignment.Failed, view: newView([]*endpoint{ep})})
	_, err := p.Pick(typedKey("x", "k"))
	if err == nil || isDrop(err) || !strings.Contains(err.Error(), "no such name") {
		t.Errorf("got %v, a drop: %v; want a plain error with the cause", err, isDrop(err))
	}
}

// TestAckWaitsForPicks: case A-18. The watcher, whose ack follows, gets on only
// once picks use the assignment, or the policy closes.
func TestAckWaitsForPicks(t *testing.T) {
	for name, closes := range map[string]bool{"published": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				router := NewRouter(RouterOptions{})
				defer router.Close()
				p := &policy{cc: &countingConn{}, view: newView(nil), config: &Config{KeyHeader: "k"}, wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{})}
				p.picker = &picker{policy: p}
				p.route = router.claim(p)
				told := make(chan bool, 1)
				go func() {
					p.assignmentChanged()
					told <- p.picker.cur.Load() != nil
				}()
				synctest.Wait()
				if len(told) > 0 {
					t.Fatal("the watcher gets on while picks do not use the assignment")
				}
				if closes {
					go p.Close()
					synctest.Wait()
				}
				go p.run() // ends with Close
				synctest.Wait()
				p.Close()
				if inForce := <-told; inForce == closes {
					t.Errorf("in force: %v", inForce)
				}
			})
		})
	}
}
