package balancer

import (
	"encoding/json"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/serviceconfig"
)

func init() {
	lb.Register(builder{AutoshardingName})
	lb.Register(builder{Name})
}

// builder makes policies under one of the two registered names.
type builder struct{ name string }

func (b builder) Name() string { return b.name }

func (builder) Build(cc lb.ClientConn, opts lb.BuildOptions) lb.Balancer {
	return newPolicy(cc, opts)
}

func (builder) ParseConfig(js json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	return ParseConfig(js)
}
