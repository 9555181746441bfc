package balancer

import (
	"testing"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/assignment"
)

func TestStatusString(t *testing.T) {
	s := Status{
		Target:        "dns:///a",
		State:         connectivity.Ready,
		Generation:    7,
		UnknownOwners: 1,
		Readiness:     Readiness{Assigned: true, Connected: true},
		Assignment:    assignment.Status{Target: "users", Age: time.Minute, Slices: 3, Endpoints: 2, StaleFor: 1500 * time.Millisecond},
		Endpoints:     []EndpointStatus{{State: connectivity.Ready}, {State: connectivity.Idle}, {State: connectivity.Ready}},
		Picks:         PickCounts{Ready: 5, Queued: 4, Failed: 3, Dropped: 2},
	}
	const want = `target "dns:///a": READY, assigned and connected; generation 7 of "users", 1m0s old, with 3 slices over 2 endpoints, 1 unknown to the resolver; ` +
		`out of touch with the sharding service for 1.5s; 3 endpoints, 1 IDLE, 2 READY; picks: 5 ready, 4 queued, 3 failed, 2 dropped`
	if got := s.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
