package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// selected is our policy without sharding, whose default selector can be given
// policies while it runs.
type selected struct {
	*host
	router   *balancer.Router
	selector *balancer.Selector
	picker   lb.Picker
}

// startSelected starts it over endpoints that are all READY.
func startSelected(endpoints []resolver.Endpoint, infos []lb.PickInfo, p selection.Policy) (*selected, error) {
	config, err := balancer.ParseConfig([]byte(`{"sharding":false}`))
	if err != nil {
		return nil, err
	}
	h, err := newHost(balancer.Name)
	if err != nil {
		return nil, err
	}
	s := &selected{host: h, router: balancer.NewRouter(balancer.RouterOptions{})}
	s.selector = s.router.Selector(balancer.DefaultSelector)
	err = h.resolve(lb.ClientConnState{
		ResolverState:  balancer.SetRouter(resolver.State{Endpoints: endpoints}, s.router),
		BalancerConfig: config,
	})
	if err == nil {
		err = s.publish(selection.P2C()) // which has all endpoints connected
	}
	if err == nil {
		err = h.connect(infos, len(endpoints))
	}
	if err == nil {
		err = s.publish(p)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.picker, _ = s.host.picker()
	return s, nil
}

func (s *selected) publish(p selection.Policy) error {
	pub, err := s.selector.Publish(p, balancer.FromCode)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	return pub.Wait(ctx)
}

func (s *selected) close() {
	s.host.close()
	s.router.Close()
}

// fixed is the rule alone: one policy over one list of members that never changes,
// with the counts that the policy reads. It looks at no state of an endpoint and at
// nothing that a selector has.
type fixed struct {
	policy  selection.Policy
	table   *selection.Table
	order   selection.Order
	members []*selection.Member
	state   selection.State
}

type fixedMember struct {
	member *selection.Member
	result lb.PickResult
}

func newFixed(p selection.Policy, endpoints []resolver.Endpoint) (*fixed, error) {
	f := &fixed{policy: p}
	for _, e := range endpoints {
		m := &fixedMember{}
		m.member = selection.NewMember(e.Addresses[0].Addr, selection.Info{Address: e.Addresses[0].Addr, Weight: 1}, m)
		m.result = lb.PickResult{SubConn: &subConn{}, Done: func(info lb.DoneInfo) { m.member.End(info.Err != nil) }}
		f.members = append(f.members, m.member)
	}
	f.table = selection.NewTable(f.members)
	var err error
	if p.Built() {
		f.order, err = p.Build(context.Background(), selection.Membership{Generation: 1, Members: f.members}, &f.state)
	}
	return f, err
}

func (f *fixed) Pick(info lb.PickInfo) (lb.PickResult, error) {
	call := selection.Call{Context: info.Ctx, Method: info.FullMethodName}
	if c := callinfo.From(info.Ctx); c != nil {
		call.Key, call.HasKey = c.Key, c.HasKey
	}
	var m *selection.Member
	if f.order != nil {
		i, _ := f.policy.Next(f.order, &call, selection.Cursor{})
		m = f.members[i]
	} else {
		view := selection.ViewOf(f.table)
		m = f.table.At(f.policy.Choose(&view, &call, &f.state))
	}
	m.Start()
	return m.Handle().(*fixedMember).result, nil
}

// timeRPCs is timePicks with the end of each RPC, where policies give back what
// they counted.
func timeRPCs(p lb.Picker, infos []lb.PickInfo, d time.Duration) (float64, error) {
	n := 0
	over := lb.DoneInfo{BytesSent: true, BytesReceived: true}
	began, before := time.Now(), processCPU()
	for n == 0 || time.Since(began) < d {
		for _, info := range infos {
			res, err := p.Pick(info)
			if err != nil {
				return 0, err
			}
			if res.Done != nil {
				res.Done(over)
			}
		}
		n += len(infos)
	}
	return float64(cpuSince(before).Nanoseconds()) / float64(n), nil
}

// hardWired is the twin of our picker in which the policy that is in force now cannot
// be replaced: package balancer has it when it is built with the tag hardwired, as
// ../main.go does. Else it is nil.
func hardWired(p lb.Picker) lb.Picker {
	if ours, ok := p.(interface{ HardWired() lb.Picker }); ok {
		return ours.HardWired()
	}
	return nil
}

// measureCell compares a policy that can be replaced with the same pick that has the
// policy wired in (seed row S-24).
func measureCell(s size, name string, p lb.Picker, infos []lb.PickInfo) ([]row, error) {
	twin := hardWired(p)
	if twin == nil {
		return nil, nil
	}
	const part = 20 // of a sample
	contest := func(p lb.Picker) contestant {
		return func() (float64, error) { return timeRPCs(p, infos, s.sample/part) }
	}
	cell, wired, err := inTurn(part*s.rounds/2, contest(p), contest(twin))
	if err != nil {
		return nil, err
	}
	return []row{against(name+", through the cell", "ns CPU", cell, "the same pick hard-wired", wired, atMost(1.03))}, nil
}

// measureSelection compares each built-in policy, swapped in at run time, with
// the same pick hard-wired, with its rule alone and with grpc-go's policy of its kind.
func measureSelection(s size) ([]row, error) {
	w := pickWorld(s)
	keys := w.keyspace().probes(keysInTurn)
	infos, header := typed(keys), inHeader(keys)
	contest := func(p lb.Picker, infos []lb.PickInfo) contestant {
		return func() (float64, error) { return timeRPCs(p, infos, s.sample) }
	}
	var rows []row
	for _, c := range []struct {
		policy selection.Policy
		peer   string // of grpc-go, "" for none
		goal   goal
	}{
		{selection.P2C(), "least_request", atMost(1)},
		{selection.Random(), "", noGoal},
		{selection.RoundRobin(), "round_robin", atMost(1.1)},
		{selection.LeastPending(), "", noGoal},
		{selection.Weighted(nil), "weighted_round_robin", atMost(1)},
		{selection.Ketama(selection.KetamaOptions{}), "ring_hash", atMost(0.6)},
	} {
		name := "selection, " + c.policy.String()
		ours, err := startSelected(w.resolved(), infos, c.policy)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		direct, err := newFixed(c.policy, w.resolved())
		if err != nil {
			ours.close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		contestants := []contestant{contest(ours.picker, infos), contest(direct, infos)}
		if c.peer != "" {
			h, err := startPeer(c.peer, w.resolved())
			if err == nil {
				err = h.connect(header, w.endpoints)
			}
			if err != nil {
				ours.close()
				return nil, fmt.Errorf("%s: %w", c.peer, err)
			}
			defer h.close()
			p, _ := h.picker()
			contestants = append(contestants, contest(p, header))
		}
		ns, err := inRounds(s.rounds, contestants...)
		if err == nil {
			var cell []row
			cell, err = measureCell(s, name, ours.picker, infos)
			rows = append(rows, cell...)
			rows = append(rows, against(name, "ns CPU", ns[0], "the rule alone", ns[1], noGoal),
				alone(name+": allocations", "", rpcAllocs(ours.picker, infos), atMost(0)))
			if c.peer != "" {
				rows = append(rows, against(name, "ns CPU", ns[0], c.peer, ns[2], c.goal))
			}
		}
		ours.close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	swaps, err := measureSwaps(s, w, infos)
	return append(rows, swaps...), err
}

func rpcAllocs(p lb.Picker, infos []lb.PickInfo) []float64 {
	i := 0
	return []float64{testing.AllocsPerRun(10*len(infos), func() {
		res, _ := p.Pick(infos[i%len(infos)])
		if res.Done != nil {
			res.Done(lb.DoneInfo{BytesSent: true, BytesReceived: true})
		}
		i++
	})}
}

// measureSwaps asks what is left of many publications, and what a policy costs
// where there is a single endpoint and nothing to choose.
func measureSwaps(s size, w world, infos []lb.PickInfo) ([]row, error) {
	fresh, err := startSelected(w.resolved(), infos, selection.RoundRobin())
	if err != nil {
		return nil, err
	}
	defer fresh.close()
	swapped, err := startSelected(w.resolved(), infos, selection.RoundRobin())
	if err != nil {
		return nil, err
	}
	defer swapped.close()
	const publications = 1000
	for i := range publications {
		if err := swapped.publish([]selection.Policy{selection.RoundRobin(), selection.Random()}[(i+1)%2]); err != nil {
			return nil, err
		}
	}
	if err := swapped.publish(selection.RoundRobin()); err != nil {
		return nil, err
	}
	one := w.resolved()[:1]
	single, err := startSelected(one, infos, selection.P2C())
	if err != nil {
		return nil, err
	}
	defer single.close()
	other, err := startSelected(one, infos, selection.LeastPending())
	if err != nil {
		return nil, err
	}
	defer other.close()
	var contestants []contestant
	for _, p := range []lb.Picker{fresh.picker, swapped.picker, single.picker, other.picker} {
		contestants = append(contestants, func() (float64, error) {
			ns, err := timeRPCs(p, infos, s.sample)
			return 1000 / ns, err
		})
	}
	rate, err := inRounds(s.rounds, contestants...)
	if err != nil {
		return nil, err
	}
	return []row{
		against("selection, picks after 1,000 publications", "per µs", rate[1], "before any", rate[0], atLeast(0.97)),
		against("selection, a single endpoint, least_pending", "per µs", rate[3], "p2c", rate[2], atLeast(0.97)),
	}, nil
}
