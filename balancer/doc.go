// Package balancer is the load-balancing policy of Slicewire: it sends each
// RPC of a gRPC channel to an endpoint that owns the RPC's key.
//
// Importing it registers the policy as "autosharding_experimental" (the name
// of gRFC A119) and as "slicewire". A plain grpc-go user names it in a service
// config and puts a [ClientConnProvider] in the resolver's state with
// [SetClientConnProvider]; nothing else of Slicewire is needed. Package sdk
// also hands the policy a [Router], which outlives the policy.
//
// What belongs here: the policy, its endpoints, the picker, the Router. What
// decides alone has a room below: keyrange (key to slice), assignment (client
// of the sharding service). Who may import it: sdk and telemetry.
package balancer
