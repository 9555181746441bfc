package balancer

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/wire"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// TestUsableEndpoints_A02_A03: names, order, what is skipped, and that nothing
// is shared with the resolver (LL-07).
func TestUsableEndpoints_A02_A03(t *testing.T) {
	at := func(addrs ...string) resolver.Endpoint {
		var e resolver.Endpoint
		for _, a := range addrs {
			e.Addresses = append(e.Addresses, resolver.Address{Addr: a})
		}
		return e
	}
	homeless := sdktest.Endpoint("h0", "x")
	homeless.Addresses = nil
	s := resolver.State{Endpoints: []resolver.Endpoint{
		sdktest.Endpoint("h2", "two"),
		homeless,
		sdktest.Endpoint("h1", "one"),
		at("nameless", "its second address"),
		sdktest.Endpoint("h1", "one again"),
		at(),
		at("nameless"),
	}}
	var got []string
	usable := usableEndpoints(s)
	for _, e := range s.Endpoints {
		for i := range e.Addresses {
			e.Addresses[i].Addr = "changed by the resolver"
		}
	}
	for _, u := range usable {
		text := u.name
		for _, a := range u.target.Addresses {
			text += " @" + a.Addr
		}
		got = append(got, text)
	}
	if want := []string{"h2 @two", "h1 @one", "nameless @nameless @its second address"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPickSeesOneValue: config and assignment change together, and no pick has
// one from before with the other from after. Either header's key is on e0.
func TestPickSeesOneValue(t *testing.T) {
	eps := []*endpoint{stub(0, "e0", connectivity.Ready), stub(1, "e1", connectivity.Ready)}
	rt := stillRoute(selection.Sliced(selection.Policy{}))
	value := func(header string, low, high int32) *published {
		pub := &published{
			config: &Config{KeyHeader: header},
			phase:  assignment.Assigned,
			slices: decodeSlices(t, 1, assignment.Revision202608, []string{"e0", "e1"}, []*wire.SliceAssignment{
				{Slice: &wire.Slice{EndKey: []byte("m")}, Endpoints: []*wire.PerSliceEndpointState{{EndpointIndex: low}}},
				{Slice: &wire.Slice{StartKey: []byte("m")}, Endpoints: []*wire.PerSliceEndpointState{{EndpointIndex: high}}},
			}),
			view:  newView(eps),
			route: rt,
		}
		pub.resolveOwners()
		return pub
	}
	before, after := value("x-old", 0, 1), value("x-new", 1, 0)
	p := stillPicker(before)
	halt, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-halt:
				return
			default:
				p.cur.Store(after)
				p.cur.Store(before)
			}
		}
	}()
	info := lb.PickInfo{Ctx: metadata.AppendToOutgoingContext(context.Background(), "x-old", "a", "x-new", "z")}
	for range 20_000 {
		res, err := p.Pick(info)
		if err != nil || res.SubConn.(*stubSubConn).endpoint != 0 {
			t.Errorf("picked %+v, %v; want e0", res.SubConn, err)
			break
		}
	}
	close(halt)
	<-ended
}

// TestPickTakesNoLock: a pick with a READY endpoint goes through while somebody
// holds each lock that a pick could reach.
func TestPickTakesNoLock(t *testing.T) {
	router := NewRouter(RouterOptions{})
	defer router.Close()
	p := twoOwners(t)
	p.policy.route = router.main.Load()
	for _, mu := range []sync.Locker{&p.policy.mu, &router.mu, &router.changes.mu} {
		mu.Lock()
		defer mu.Unlock() // before the router closes
	}
	picked := make(chan error, 2)
	go func() {
		for _, info := range []lb.PickInfo{typedKey("a", "x-key"), headerKey("z")} {
			_, err := p.Pick(info)
			picked <- err
		}
	}()
	for range cap(picked) {
		select {
		case err := <-picked:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the pick waits for a lock")
		}
	}
}
