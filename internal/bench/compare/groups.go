package main

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
)

// oneWay is a way in which calls go to a target.
type oneWay struct {
	name   string
	cc     grpc.ClientConnInterface
	ctx    func() context.Context
	limit  goal // of what it costs more than a client of one target, ns
	allocs goal
}

// measureGroups measures what a group of two targets costs in front of a call,
// against a client of one target with the same policy. Calls are answered by an
// interceptor of the channel, so that nothing else is in it; then real RPCs.
func measureGroups(s size) ([]row, error) {
	servers, err := startServers(world{endpoints: 1, seed: 1})
	if err != nil {
		return nil, err
	}
	defer servers.close()
	// One server at both, so that nothing but the group makes a difference; a profile
	// of its own tells the second target from the first.
	topology := sdk.Topology{
		Targets: []sdk.TargetConfig{
			{Name: "main", URI: servers.target()},
			{Name: "replica", URI: servers.target(), Profile: "replica", ErrorRatio: &failover.RatioOptions{}},
		},
		Groups: []sdk.GroupConfig{{Name: "default", Targets: []string{"main", "replica"}}, {Name: "judged", Targets: []string{"replica", "main"}}},
	}
	declared := slices.Clip([]sdk.Option{sdk.WithTopology(topology), sdk.WithDialProfile("replica")})
	dial := func(target string, opts ...sdk.Option) (*sdk.Client, error) {
		return sdk.Dial(target, append(opts,
			sdk.WithTransportCredentials(insecure.NewCredentials()),
			sdk.WithResolvers(servers.resolver),
			sdk.WithSelector(sdk.DefaultSelector, selection.P2C()))...)
	}
	answered := sdk.WithDialOptions(grpc.WithChainUnaryInterceptor(
		func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
			return nil
		}))
	rows, err := inFront(s, dial, declared, servers.target(), answered)
	if err != nil {
		return nil, err
	}
	more, err := throughGroup(s, dial, declared, servers.target())
	return append(rows, more...), err
}

type dialFunc func(target string, opts ...sdk.Option) (*sdk.Client, error)

func inFront(s size, dial dialFunc, declared []sdk.Option, target string, answered sdk.Option) ([]row, error) {
	plain, err := dial(target, answered)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	grouped, err := dial("", append(declared, answered)...)
	if err != nil {
		return nil, err
	}
	defer grouped.Close()
	byMethod, err := dial("", append(declared, answered, sdk.WithGroupsByMethod(map[string]string{method: "default"}))...)
	if err != nil {
		return nil, err
	}
	defer byMethod.Close()

	background := context.Background()
	always := func(ctx context.Context) func() context.Context { return func() context.Context { return ctx } }
	ways := []oneWay{
		{"one target", plain, always(background), noGoal, noGoal},
		{"the default group", grouped, always(background), atMost(100), atMost(1)},
		{"a context's group", grouped, always(interceptors.WithGroup(background, "default")), atMost(100), atMost(1)},
		{"a method's group", byMethod, always(background), atMost(100), atMost(1)},
		{"Group.Conn", grouped.Group("default").Conn(), always(background), atMost(100), atMost(1)},
		{"a context made for the call", grouped, func() context.Context { return interceptors.WithGroup(background, "default") }, noGoal, noGoal},
		{"a group with an error ratio", grouped.Group("judged").Conn(), always(background), noGoal, noGoal},
	}
	var contestants []contestant
	for _, w := range ways {
		contestants = append(contestants, func() (float64, error) { return timeCalls(w, s.sample/8) })
	}
	// What is to be seen is small: many short rounds.
	ns, err := inRounds(5*s.rounds, contestants...)
	if err != nil {
		return nil, err
	}
	baseline := callAllocs(ways[0])
	rows := []row{alone("a call to one target, answered by an interceptor", "ns CPU", ns[0], noGoal)}
	for i, w := range ways[1:] {
		more := make([]float64, len(ns[0]))
		for r := range more {
			more[r] = ns[i+1][r] - ns[0][r]
		}
		rows = append(rows,
			alone("a call by "+w.name+", more than to one target", "ns CPU", more, w.limit),
			alone("the same: more allocations", "", []float64{callAllocs(w) - baseline}, w.allocs))
	}
	return rows, nil
}

// timeCalls is nanoseconds of CPU a call.
func timeCalls(w oneWay, d time.Duration) (float64, error) {
	in, out := &emptypb.Empty{}, &emptypb.Empty{}
	n := 0
	began, before := time.Now(), processCPU()
	for n == 0 || time.Since(began) < d {
		const calls = 256
		for range calls {
			if err := w.cc.Invoke(w.ctx(), method, in, out); err != nil {
				return 0, fmt.Errorf("%s: %w", w.name, err)
			}
		}
		n += calls
	}
	return float64(cpuSince(before).Nanoseconds()) / float64(n), nil
}

func callAllocs(w oneWay) float64 {
	in, out := &emptypb.Empty{}, &emptypb.Empty{}
	return testing.AllocsPerRun(2000, func() { _ = w.cc.Invoke(w.ctx(), method, in, out) })
}

// throughGroup sends real RPCs through a group and to one target.
func throughGroup(s size, dial dialFunc, declared []sdk.Option, target string) ([]row, error) {
	plain, err := dial(target)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	grouped, err := dial("", declared...)
	if err != nil {
		return nil, err
	}
	defer grouped.Close()
	var cpu [2][]float64
	contest := func(side int, cc grpc.ClientConnInterface) contestant {
		return func() (float64, error) {
			before, began := processCPU(), time.Now()
			perSecond, err := rate(callers, func(int) (int, error) {
				const calls = 16
				for range calls {
					if err := cc.Invoke(context.Background(), method, &emptypb.Empty{}, &emptypb.Empty{}); err != nil {
						return 0, err
					}
				}
				return calls, nil
			}, s.sample)
			sent := perSecond * time.Since(began).Seconds()
			cpu[side] = append(cpu[side], float64(cpuSince(before).Nanoseconds())/1e3/sent)
			return perSecond, err
		}
	}
	ours, theirs := contest(0, grouped), contest(1, plain)
	for _, warm := range []contestant{ours, theirs} {
		if _, err := warm(); err != nil {
			return nil, err
		}
	}
	cpu = [2][]float64{}
	perSecond, err := inRounds(3*s.rounds, ours, theirs)
	if err != nil {
		return nil, err
	}
	return []row{
		against("unary RPCs a second through a group of 2", "RPC/s", perSecond[0], "one target", perSecond[1], atLeast(0.97)),
		against("CPU an RPC through a group, server included", "us", cpu[0], "one target", cpu[1], noGoal),
	}, nil
}
