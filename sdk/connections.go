package sdk

import "github.com/slicewire/slicewire/balancer"

// WithConnections says how many connections each endpoint has, for how long, when
// one is held for dead, and how many endpoints are connected without any RPC; that
// last one TargetConfig.MinReady decides for targets in a group of several. By
// default an endpoint has one connection, from the first RPC that wants it, for as
// long as it holds.
func WithConnections(c balancer.Connections) Option {
	return func(s *settings) { s.router.Connections = c }
}
