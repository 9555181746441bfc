package sdk_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/lazy"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// parent is the smallest LB policy that has ours for a child, through nothing but
// the public builder.
type parent struct {
	name string
	// passOn changes what the child is given.
	passOn func(*lb.ClientConnState)
	// lazily builds the child with the first call.
	lazily bool
}

type parentConfig struct {
	serviceconfig.LoadBalancingConfig
	child serviceconfig.LoadBalancingConfig
}

func (p parent) Name() string { return p.name }

func (p parent) builder() lb.Builder { return lb.Get(balancer.AutoshardingName) }

func (p parent) Build(cc lb.ClientConn, opts lb.BuildOptions) lb.Balancer {
	build := p.builder().Build
	if p.lazily {
		return &parentPolicy{lazy.NewBalancer(cc, opts, build), p.passOn}
	}
	return &parentPolicy{build(cc, opts), p.passOn}
}

func (p parent) ParseConfig(js json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	child, err := p.builder().(lb.ConfigParser).ParseConfig(js)
	return &parentConfig{child: child}, err
}

type parentPolicy struct {
	lb.Balancer
	passOn func(*lb.ClientConnState)
}

func (p *parentPolicy) UpdateClientConnState(s lb.ClientConnState) error {
	s.BalancerConfig = s.BalancerConfig.(*parentConfig).child
	if p.passOn != nil {
		p.passOn(&s)
	}
	return p.Balancer.UpdateClientConnState(s)
}

// TestChildOfAnotherPolicy_A30: the policy gives the same results at the top of a
// channel and below other policies.
func TestChildOfAnotherPolicy_A30(t *testing.T) {
	lb.Register(parent{name: "slicewire_test_parent"})
	lb.Register(parent{name: "slicewire_test_lazy", lazily: true})
	// As random_subsetting does.
	lb.Register(parent{name: "slicewire_test_sorting", passOn: func(s *lb.ClientConnState) {
		s.ResolverState.Endpoints = slices.Clone(s.ResolverState.Endpoints)
		slices.Reverse(s.ResolverState.Endpoints)
		js, err := json.Marshal(s.BalancerConfig)
		if err == nil {
			s.BalancerConfig, err = lb.Get(balancer.AutoshardingName).(lb.ConfigParser).ParseConfig(js)
		}
		if err != nil {
			t.Errorf("the config does not survive JSON: %v", err)
		}
	}})
	const child = `{"channelFactoryKey":"main","slicingTarget":"users","sliceKeyHeaderName":"x-user","enableFallback":true}`
	for name, config := range map[string]string{
		"top":            fmt.Sprintf(`{"autosharding_experimental":%s}`, child),
		"parent":         fmt.Sprintf(`{"slicewire_test_parent":%s}`, child),
		"lazy parent":    fmt.Sprintf(`{"slicewire_test_lazy":%s}`, child),
		"sorting parent": fmt.Sprintf(`{"slicewire_test_sorting":%s}`, child),
	} {
		for _, routed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/router=%v", name, routed), func(t *testing.T) {
				t.Parallel()
				c := sdktest.NewCluster(t, "a", "b", "c")
				c.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
				state := balancer.SetClientConnProvider(resolver.State{Endpoints: c.Endpoints()},
					func(string) (grpc.ClientConnInterface, func(), error) {
						cc, err := grpc.NewClient(c.Sharding().Addr(), plaintext)
						if err != nil {
							return nil, nil, err
						}
						return cc, func() { _ = cc.Close() }, nil
					})
				if routed {
					router := balancer.NewRouter(balancer.RouterOptions{})
					defer router.Close()
					state = balancer.SetRouter(state, router)
				}
				c.Resolver().UpdateState(state)
				cc, err := grpc.NewClient(c.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithResolvers(c.Resolver()),
					grpc.WithDefaultServiceConfig(fmt.Sprintf(`{"loadBalancingConfig":[%s]}`, config)))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = cc.Close() }()
				key, err := interceptors.NewKey(testHeader)
				if err != nil {
					t.Fatal(err)
				}
				who := func(k string) string {
					ctx, err := key.Outgoing(interceptors.WithKeyString(within(t, 5*time.Second), k), "/"+sdktest.EchoService+"/Who", nil)
					if err != nil {
						t.Fatal(err)
					}
					got, err := sdktest.NewEcho(cc).Who(ctx, "")
					if err != nil {
						t.Fatalf("key %q: %v", k, err)
					}
					return got
				}
				for range 3 {
					if k, z := who("k"), who("z"); k != "a" || z != "b" {
						t.Fatalf("reached %q and %q, want a and b", k, z)
					}
				}
				if _, err := c.Sharding().Move(testTarget, "z", "c"); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the move", func() bool { return who("z") == "c" })
				c.SetEndpoints(c.Endpoints()[:2]...)
				eventually(t, "fallback", func() bool { got := who("z"); return got == "a" || got == "b" })
			})
		}
	}
}
