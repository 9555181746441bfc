package main

import (
	"errors"

	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/sdk/sdktest"
)

// shardingTarget is what the sharding service is asked to shard, keyHeader the
// request header that carries the key.
const (
	shardingTarget = "profiles"
	keyHeader      = "x-profile-id"
)

// servers are everything that is not the client: the service at its primary address,
// which is sharded, at its standby address, and a replica that only reads.
type servers struct {
	cluster *sdktest.Cluster // the primary address, with its sharding service
	// names resolves the primary address too, without ever sending a service config.
	names            *sdktest.Resolver
	standby, replica *sdktest.Backend
	// cleoLinks are the two ways to cleo, which can lose bytes.
	cleoLinks [2]*sdktest.Gate
	health    map[string]*grpchealth.Server // by server
}

func startServers() (s *servers, err error) {
	s = &servers{health: make(map[string]*grpchealth.Server), names: sdktest.NewResolver("plain")}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.cluster, err = sdktest.StartCluster(); err != nil {
		return s, err
	}
	for _, name := range []string{"anna", "bert", "cleo", "dora"} {
		if _, err = s.cluster.Start(name, s.withHealth(name)); err != nil {
			return s, err
		}
	}
	for i := range s.cleoLinks {
		if s.cleoLinks[i], err = sdktest.StartGate(s.cluster.Backend("cleo").Addr()); err != nil {
			return s, err
		}
	}
	if s.standby, err = sdktest.StartBackend("standby", s.withHealth("standby")); err != nil {
		return s, err
	}
	if s.replica, err = sdktest.StartBackend("replica", s.withHealth("replica")); err != nil {
		return s, err
	}
	s.announce(false)
	s.assign()
	return s, nil
}

// withHealth gives a server gRPC's health service, for probes.
func (s *servers) withHealth(name string) sdktest.Option {
	h := grpchealth.NewServer()
	s.health[name] = h
	return sdktest.WithServices(func(r grpc.ServiceRegistrar) { healthpb.RegisterHealthServer(r, h) })
}

// ill has a server say in answer to probes whether it is well. It serves RPCs as
// before.
func (s *servers) ill(name string, yes bool) {
	status := healthpb.HealthCheckResponse_SERVING
	if yes {
		status = healthpb.HealthCheckResponse_NOT_SERVING
	}
	s.health[name].SetServingStatus("", status)
}

// announce has the name resolvers of the primary address list its servers, with dora
// or without.
func (s *servers) announce(dora bool) {
	list := []resolver.Endpoint{
		sdktest.Endpoint("anna", s.cluster.Backend("anna").Addr()),
		sdktest.Endpoint("bert", s.cluster.Backend("bert").Addr()),
		sdktest.Endpoint("cleo", s.cleoLinks[0].Addr(), s.cleoLinks[1].Addr()),
	}
	if dora {
		list = append(list, sdktest.Endpoint("dora", s.cluster.Backend("dora").Addr()))
	}
	s.cluster.SetEndpoints(list...)
	s.names.SetEndpoints(list...)
}

// assign gives every key an owner.
func (s *servers) assign() {
	s.cluster.Sharding().Assign(shardingTarget, sdktest.Ranges(
		sdktest.From("", "anna"), sdktest.From("h", "bert"), sdktest.From("q", "cleo")))
}

// unassign gives the keys up to h to nobody, and those up to q to a server that does
// not exist.
func (s *servers) unassign() {
	s.cluster.Sharding().Assign(shardingTarget, sdktest.Ranges(
		sdktest.From(""), sdktest.From("h", "nobody-knows-me"), sdktest.From("q", "cleo")))
}

// assignGap says nothing of the keys up to h, which it may not.
func (s *servers) assignGap() {
	s.cluster.Sharding().Assign(shardingTarget, sdktest.Ranges(
		sdktest.From("h", "bert"), sdktest.From("q", "cleo")))
}

func (s *servers) killPrimary() {
	for _, b := range s.cluster.Backends() {
		b.Kill()
	}
}

func (s *servers) restartPrimary() error {
	var errs []error
	for _, b := range s.cluster.Backends() {
		errs = append(errs, b.Restart())
	}
	return errors.Join(errs...)
}

func (s *servers) close() {
	for _, b := range []*sdktest.Backend{s.standby, s.replica} {
		if b != nil {
			b.Close()
		}
	}
	for _, link := range s.cleoLinks {
		if link != nil {
			link.Close()
		}
	}
	if s.cluster != nil {
		s.cluster.Close()
	}
}
