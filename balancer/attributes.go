package balancer

import (
	"google.golang.org/grpc/balancer/weightedtarget"
	"google.golang.org/grpc/experimental/balancer/hostname"
	"google.golang.org/grpc/resolver"
)

type (
	attachedKey struct{}
	// attached is what SetRouter puts in a resolver state, as a pointer, so that
	// attributes can be compared.
	attached struct {
		router *Router
		// names are the endpoints' names in the order of the state's endpoints.
		// grpc-go keeps that order, but behind an HTTP proxy it rebuilds every
		// endpoint with the proxy's address and without attributes.
		names []string
		known map[string]bool // names, as a set
	}

	localityKey struct{}
)

// SetRouter returns a copy of s that hands r, and the names of the endpoints
// in s, to the LB policy. Resolver wrappers call it on every update.
func SetRouter(s resolver.State, r *Router) resolver.State {
	a := &attached{router: r, names: endpointNames(s)}
	a.known = make(map[string]bool, len(a.names))
	for _, name := range a.names {
		a.known[name] = true
	}
	s.Attributes = s.Attributes.WithValue(attachedKey{}, a)
	return s
}

// restore replaces the names that endpoints have lost on their way. What an
// endpoint still says of itself goes first: a parent policy may have sorted the
// list, or left some out.
func (a *attached) restore(names []string, eps []resolver.Endpoint) {
	if len(a.names) != len(eps) {
		return
	}
	for i, e := range eps {
		if hostname.FromEndpoint(e) == "" && !a.known[names[i]] {
			names[i] = a.names[i]
		}
	}
}

func attachedFrom(s resolver.State) *attached {
	a, _ := s.Attributes.Value(attachedKey{}).(*attached)
	return a
}

// SetLocality returns a copy of s that says which locality its endpoints are
// in. It takes the place of "%s" in the slicing target (A119, sending the first
// message). Under xDS the weighted_target policy says so by itself.
func SetLocality(s resolver.State, locality string) resolver.State {
	s.Attributes = s.Attributes.WithValue(localityKey{}, locality)
	return s
}

func localityFrom(s resolver.State) string {
	if l, ok := s.Attributes.Value(localityKey{}).(string); ok {
		return l
	}
	return weightedtarget.LocalityFromResolverState(s)
}

// endpointNames returns the name of each endpoint in s.
func endpointNames(s resolver.State) []string {
	if s.Endpoints == nil {
		names := make([]string, len(s.Addresses))
		for i, a := range s.Addresses {
			names[i] = a.Addr
		}
		return names
	}
	names := make([]string, len(s.Endpoints))
	for i, e := range s.Endpoints {
		names[i] = endpointName(e)
	}
	return names
}

// endpointName is the hostname attribute, else the first address (A119, LB
// policy architecture), else "".
func endpointName(e resolver.Endpoint) string {
	if h := hostname.FromEndpoint(e); h != "" {
		return h
	}
	if len(e.Addresses) == 0 {
		return ""
	}
	return e.Addresses[0].Addr
}
