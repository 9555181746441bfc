package main

import (
	"context"
	"fmt"
	"slices"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/leastrequest"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/balancer/ringhash"
	"google.golang.org/grpc/balancer/roundrobin"
	"google.golang.org/grpc/balancer/weightedroundrobin"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/internal/callinfo"
)

const (
	keyHeader = "x-key"
	method    = "/bench.Echo/Say"
)

var ourConfig = fmt.Sprintf(
	`{"channelFactoryKey":"main","slicingTarget":"bench","sliceKeyHeaderName":%q}`, keyHeader)

// ours is our policy in a host, with a sharding service.
type ours struct {
	*host
	sharding *sharding
	config   *balancer.Config
	router   *balancer.Router // nil: the policy makes one
}

// newOurs builds our policy and resolves the endpoints. Nothing is assigned yet.
func newOurs(s *sharding, router *balancer.Router, endpoints []resolver.Endpoint) (*ours, error) {
	config, err := balancer.ParseConfig([]byte(ourConfig))
	if err != nil {
		return nil, err
	}
	h, err := newHost(balancer.Name)
	if err != nil {
		return nil, err
	}
	o := &ours{host: h, sharding: s, config: config, router: router}
	if err := o.resolve(endpoints); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *ours) resolve(endpoints []resolver.Endpoint) error {
	s := resolver.State{Endpoints: endpoints}
	if o.router != nil {
		s = balancer.SetRouter(s, o.router)
	}
	s = balancer.SetClientConnProvider(s, o.sharding.provider)
	return o.host.resolve(lb.ClientConnState{ResolverState: s, BalancerConfig: o.config})
}

// startOurs is our policy with the world's assignment in force.
func startOurs(w world) (*ours, error) {
	o, err := newOurs(newSharding(), nil, w.resolved())
	if err != nil {
		return nil, err
	}
	if err := o.sharding.assign(w.frames()); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// peers are grpc-go's policies, by the names that the table uses.
var peers = []struct{ label, name, config string }{
	// With the header of gRFC A76, as a user would who wants RPCs with one key on
	// one endpoint and has no sharding service.
	{"ring_hash", ringhash.Name, fmt.Sprintf(`{"requestHashHeader":%q}`, keyHeader)},
	{"round_robin", roundrobin.Name, ""}, // it has no config
	{"pick_first", pickfirst.Name, `{}`},
}

// selectionPeers are those that selection policies are compared with.
var selectionPeers = []struct{ label, name, config string }{
	{"least_request", leastrequest.Name, `{"choiceCount":2}`},
	{"weighted_round_robin", weightedroundrobin.Name, `{}`},
}

// startPeer is a policy of grpc-go over the same endpoints.
func startPeer(label string, endpoints []resolver.Endpoint) (*host, error) {
	for _, p := range slices.Concat(peers, selectionPeers) {
		if p.label != label {
			continue
		}
		config, err := parse(p.name, p.config)
		if err != nil {
			return nil, err
		}
		h, err := newHost(p.name)
		if err != nil {
			return nil, err
		}
		err = h.resolve(lb.ClientConnState{
			ResolverState:  resolver.State{Endpoints: endpoints},
			BalancerConfig: config,
		})
		if err != nil {
			h.close()
			return nil, err
		}
		return h, nil
	}
	return nil, fmt.Errorf("no peer %q", label)
}

// typed are RPCs whose key an interceptor of ours put in the context. On the
// wire it is in the header too, but the picker has no need to look there.
func typed(keys []string) []lb.PickInfo {
	infos := make([]lb.PickInfo, len(keys))
	for i, k := range keys {
		call := &callinfo.Call{Key: k, HasKey: true, Header: keyHeader}
		infos[i] = lb.PickInfo{FullMethodName: method, Ctx: callinfo.NewContext(context.Background(), call)}
	}
	return infos
}

// inHeader are RPCs whose key is in the outgoing metadata alone.
func inHeader(keys []string) []lb.PickInfo {
	infos := make([]lb.PickInfo, len(keys))
	for i, k := range keys {
		infos[i] = lb.PickInfo{FullMethodName: method, Ctx: metadata.AppendToOutgoingContext(context.Background(), keyHeader, k)}
	}
	return infos
}
