// Package balancer is the load-balancing policy of Slicewire: it sends each
// RPC of a gRPC channel to an endpoint that owns the RPC's key.
//
// Most users want package sdk, which sets everything up. For a plain grpc-go
// channel, import this package for its side effect: it registers the policy as
// "autosharding_experimental" (the name of gRFC A119) and as "slicewire". Name one
// of them in the service config:
//
//	{"loadBalancingConfig": [{"autosharding_experimental": {
//	    "channelFactoryKey":        "sharder",
//	    "slicingTarget":            "profiles",
//	    "sliceKeyHeaderName":       "x-profile-id",
//	    "enableFallback":           true,
//	    "initialAssignmentTimeout": "10s",
//	    "specRevision":             "2026-08"
//	}}]}
//
// The last three may be left out; see [Config]. Let the channel's resolver pass
// every state through [SetClientConnProvider]: the provider makes the channel to
// the sharding service when the policy asks for "sharder". Endpoints are known by
// the name that hostname.Set of google.golang.org/grpc/experimental/balancer/hostname
// gives them, else by their first address; the sharding service has to use the
// same names. Give each RPC its key with the interceptors of package interceptors,
// or set the header "x-profile-id" in its outgoing metadata. An RPC without a key
// fails with UNAVAILABLE here, the interceptors refuse it first with
// INVALID_ARGUMENT.
//
// What belongs here: the policy, its endpoints, the picker, the Router. What
// decides alone has a room below: keyrange (key to slice), assignment (client
// of the sharding service). Who may import it: users of plain grpc-go, sdk and
// telemetry.
package balancer
