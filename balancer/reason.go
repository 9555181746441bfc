package balancer

import (
	"fmt"

	"github.com/slicewire/slicewire/balancer/assignment"
)

// reason says why an RPC is in fallback.
type reason uint8

const (
	gap             reason = iota // no usable slice covers the key (revision 2026-10)
	serverEmpty                   // the sharding service assigned no endpoint
	unknownEndpoint               // the resolver knows none of the owners
	allFailing                    // every known owner is in TRANSIENT_FAILURE
	noAssignment                  // there is no assignment
	reasons
)

// String returns the label of the fallback metrics.
func (r reason) String() string {
	return [...]string{"gap", "server_empty", "unknown_endpoint", "all_failing", "no_assignment"}[r]
}

func fallbackReason(kind assignment.Kind, v verdict) reason {
	switch {
	case kind == assignment.Gap:
		return gap
	case kind == assignment.Unassigned:
		return serverEmpty
	case v == nobody:
		return unknownEndpoint
	}
	return allFailing
}

func nobodyError(pub *published, slice int, reason reason) error {
	why := [...]string{
		gap:             "no usable slice of the assignment covers the RPC's key",
		serverEmpty:     "the sharding service assigned no endpoint to the key's slice",
		unknownEndpoint: "the name resolver knows none of the endpoints that own the key's slice",
	}[reason]
	if reason == unknownEndpoint {
		why += ": " + pub.strangers()
	}
	hint := "; fallback is off"
	if pub.config.EnableFallback {
		hint = "; revision 2026-10 does not fall back here"
	}
	return fmt.Errorf("slicewire: target %q: slice %d of generation %d: %s%s", pub.target, slice, pub.slices.Generation, why, hint)
}
