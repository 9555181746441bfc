package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

const (
	throughputServers = 4
	// callers are so many that the CPUs, not the callers, are what is short.
	callers = 64
)

// measureThroughput sends small unary RPCs from many goroutines to servers on
// loopback, through our client with a key in every call, and through a channel
// with round_robin and no key.
func measureThroughput(s size) ([]row, error) {
	w := world{slices: s.middle, endpoints: throughputServers, replicas: 1, seed: 1}
	servers, err := startServers(w)
	if err != nil {
		return nil, err
	}
	defer servers.close()
	sh := newSharding()
	client, err := sdk.Dial(servers.target(),
		sdk.WithTransportCredentials(insecure.NewCredentials()),
		sdk.WithResolvers(servers.resolver),
		sdk.WithClientConnProvider(sh.provider),
		sdk.WithSharding(sdk.Sharding{ServiceKey: "main", Target: "bench", KeyHeader: keyHeader}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	plain, err := grpc.NewClient(servers.target(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithResolvers(servers.resolver),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	assigned := make(chan error, 1)
	go func() { assigned <- sh.assign(w.frames()) }() // ends with the client's ack
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	_, err = client.WaitReady(ctx) // leaves idle mode, so that there is a stream
	if err := errors.Join(err, <-assigned); err != nil {
		return nil, err
	}

	keys := make([]string, keysInTurn)
	for i, k := range w.keyspace().probes(keysInTurn) {
		keys[i] = fmt.Sprintf("%x", k[:8])
	}
	calls := func(cc grpc.ClientConnInterface, with func(key string) context.Context) func(int) (int, error) {
		return func(g int) (int, error) {
			const calls = 16
			for i := range calls {
				ctx := with(keys[(g*101+i*61)%len(keys)])
				if err := cc.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{}); err != nil {
					return 0, err
				}
			}
			return calls, nil
		}
	}
	background := context.Background()
	ours := calls(client, func(key string) context.Context { return interceptors.WithKeyString(background, key) })
	theirs := calls(plain, func(string) context.Context { return background })
	// What the header costs by itself, on the wire and at the server.
	withHeader := calls(plain, func(key string) context.Context {
		return metadata.AppendToOutgoingContext(background, keyHeader, key)
	})
	var cpu [3][]float64
	contest := func(side int, work func(int) (int, error)) contestant {
		return func() (float64, error) {
			before, began := processCPU(), time.Now()
			perSecond, err := rate(callers, work, s.sample)
			sent := perSecond * time.Since(began).Seconds()
			cpu[side] = append(cpu[side], float64(cpuSince(before).Nanoseconds())/1e3/sent)
			return perSecond, err
		}
	}
	for _, work := range []func(int) (int, error){ours, theirs} {
		if _, err := rate(callers, work, s.sample); err != nil { // connects
			return nil, err
		}
	}
	// Many short rounds: what else runs on the machine changes from second to second.
	perSecond, err := inRounds(5*s.rounds, contest(0, ours), contest(1, theirs), contest(2, withHeader))
	if err != nil {
		return nil, err
	}
	return []row{
		against("unary RPCs a second through the SDK", "RPC/s", perSecond[0], "round_robin", perSecond[1], atLeast(0.97)),
		against("the same", "RPC/s", perSecond[0], "round_robin, header too", perSecond[2], noGoal),
		against("CPU an RPC, server included", "us", cpu[0], "round_robin", cpu[1], noGoal),
		against("CPU an RPC, server included", "us", cpu[0], "round_robin, header too", cpu[2], noGoal),
	}, nil
}

// servers are gRPC servers on loopback that answer at once.
type servers struct {
	all      []*grpc.Server
	resolver *sdktest.Resolver
}

func startServers(w world) (*servers, error) {
	s := &servers{resolver: sdktest.NewResolver("bench")}
	endpoints := w.resolved()
	for i := range endpoints {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.close()
			return nil, err
		}
		server := grpc.NewServer()
		server.RegisterService(&echo, nil)
		s.all = append(s.all, server)
		go func() { _ = server.Serve(l) }() // ends with Stop, in close
		endpoints[i] = sdktest.Endpoint(w.name(i), l.Addr().String())
	}
	s.resolver.SetEndpoints(endpoints...)
	return s, nil
}

func (s *servers) target() string { return s.resolver.Scheme() + ":///echo" }

func (s *servers) close() {
	for _, server := range s.all {
		server.Stop()
	}
}

var echo = grpc.ServiceDesc{
	ServiceName: "bench.Echo",
	Methods: []grpc.MethodDesc{{
		MethodName: "Say",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var in emptypb.Empty
			return &in, decode(&in)
		},
	}},
}
