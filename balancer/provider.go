package balancer

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
)

// ClientConnProvider is A119's channel factory: given the channelFactoryKey of
// the LB config it returns a channel to the sharding service, and a function
// that the policy calls exactly once when it is done with the channel, after
// every stream on it has ended.
//
// The provider owns credentials and per-request metadata; the config carries
// neither (A119, load balancing configuration). It must be safe for concurrent
// use and should not block: until it returns RPCs wait for the first assignment
// with no timeout, and closing the channel waits for it, so it must not close the
// channel itself. An error leaves the assignment in force as it is and is tried
// again with backoff.
type ClientConnProvider func(key string) (grpc.ClientConnInterface, func(), error)

type (
	providerKey struct{}
	// providerValue is a pointer in the attributes, so that attributes can be compared.
	providerValue struct{ provider ClientConnProvider }
)

// SetClientConnProvider returns a copy of s that carries p for the LB policy
// (A119, creating a gRPC channel to the sharding service).
func SetClientConnProvider(s resolver.State, p ClientConnProvider) resolver.State {
	s.Attributes = s.Attributes.WithValue(providerKey{}, &providerValue{p})
	return s
}

// ClientConnProviderFromResolverState returns the provider that s carries, or
// nil.
func ClientConnProviderFromResolverState(s resolver.State) ClientConnProvider {
	v, _ := s.Attributes.Value(providerKey{}).(*providerValue)
	if v == nil {
		return nil
	}
	return v.provider
}
