package balancer

import (
	"fmt"
	"reflect"
	"sync"
	"testing"

	lb "google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// builtIn are the policies of ours that picks go by plan with.
func builtIn() []selection.Policy {
	return []selection.Policy{
		selection.P2C(), selection.Random(), selection.RoundRobin(), selection.LeastPending(),
		selection.Weighted(nil), selection.Ketama(selection.KetamaOptions{}),
	}
}

// planned starts a Router and a policy on it over so many endpoints that are READY
// and offered to direct policies.
func planned(t *testing.T, endpoints int) (*Router, *policy) {
	t.Helper()
	router := NewRouter(RouterOptions{})
	t.Cleanup(router.Close)
	conn := newFakeConn(t)
	p := newPolicy(conn, lb.BuildOptions{})
	t.Cleanup(p.Close)
	resolveTo(t, p, router, endpoints)
	if _, err := router.Selector(DefaultSelector).Publish(selection.P2C(), FromCode); err != nil {
		t.Fatal(err)
	}
	soon(t, "endpoints in the table", func() bool {
		if p.picker.cur.Load() == nil {
			return false
		}
		_, _ = p.picker.Pick(methodInfo()) // the first one has all connected
		return p.picker.ready.Load().Len() == endpoints
	})
	return router, p
}

func resolveTo(t *testing.T, p *policy, router *Router, endpoints int) {
	t.Helper()
	config, err := ParseConfig([]byte(`{"sharding":false}`))
	if err != nil {
		t.Fatal(err)
	}
	var s resolver.State
	for i := range endpoints {
		s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: fmt.Sprintf("10.0.0.%d:1", i+1)}}})
	}
	err = p.UpdateClientConnState(lb.ClientConnState{ResolverState: SetRouter(s, router), BalancerConfig: config})
	if err != nil && endpoints > 0 {
		t.Fatal(err)
	}
}

func info(selector string) lb.PickInfo {
	i := typedKey("some key", "")
	callinfo.From(i.Ctx).Selector = callinfo.Selector(selector)
	return i
}

// TestS24EachBuiltInThroughTheCell: a pick by a policy that can be replaced goes by
// one value behind one pointer and allocates nothing, for the default selector and
// for one that is named. internal/bench measures the time.
func TestS24EachBuiltInThroughTheCell(t *testing.T) {
	router, p := planned(t, 3)
	named, err := router.AddSelector("named", selection.P2C(), FromCode)
	if err != nil {
		t.Fatal(err)
	}
	over := lb.DoneInfo{BytesSent: true, BytesReceived: true}
	for _, s := range []*Selector{router.Selector(DefaultSelector), named} {
		for _, policy := range builtIn() {
			t.Run(s.Name()+"/"+policy.String(), func(t *testing.T) {
				pub, err := s.Publish(policy, FromCode)
				if err == nil {
					err = pub.Wait(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				i := info(s.Name())
				c := p.picker.plan.Load()
				if s == named {
					c = p.picker.planFor(callinfo.From(i.Ctx))
				}
				if c == nil || c.selector != s || !c.policy.Equal(policy) {
					t.Fatalf("the plan after Publish is %+v", c)
				}
				before := s.counts.ready.load()
				const runs = 1000
				if n := testing.AllocsPerRun(runs, func() {
					res, err := p.picker.Pick(i)
					if err != nil {
						t.Fatal(err)
					}
					res.Done(over)
				}); n != 0 {
					t.Errorf("%v allocations, want 0", n)
				}
				if n := s.counts.ready.load() - before; n != runs+1 { // and one to warm up
					t.Errorf("%d picks were counted, want %d", n, runs+1)
				}
			})
		}
	}
}

// TestPlanFollows: whatever a plan is made of changes, picks go by it or, where a
// pick has more to ask, by no plan.
func TestPlanFollows(t *testing.T) {
	router, p := planned(t, 3)
	main := router.Selector(DefaultSelector)
	publish := func(policy selection.Policy) {
		t.Helper()
		if _, err := main.Publish(policy, FromCode); err != nil {
			t.Fatal(err)
		}
	}
	kind := func() selection.Kind {
		if c := p.picker.plan.Load(); c != nil {
			return c.policy.Kind()
		}
		return 0
	}
	for _, policy := range []selection.Policy{
		selection.Random(), selection.Sliced(selection.Policy{}), selection.RoundRobin(),
		selection.Custom("first", first{}), selection.LeastPending(),
	} {
		publish(policy)
		want := policy.Kind()
		if want == selection.KindSliced || want == selection.KindCustom {
			want = 0
		}
		if got := kind(); got != want {
			t.Errorf("after %v was published the plan is of kind %d, want %d", policy, got, want)
		}
	}

	late, err := router.AddSelector("late", selection.Random(), FromCode)
	if err != nil {
		t.Fatal(err)
	}
	lateCall := callinfo.From(info("late").Ctx)
	if c := p.picker.planFor(lateCall); c == nil || c.selector != late || c.table.Len() != 3 {
		t.Errorf("the plan of a new selector is %+v", c)
	}

	for _, n := range []int{2, 1, 3} {
		resolveTo(t, p, router, n)
		soon(t, "another table", func() bool {
			c, l := p.picker.plan.Load(), p.picker.planFor(lateCall)
			return c != nil && c.table.Len() == n && c.several == (n > 1) && l != nil && l.table == c.table
		})
	}
	resolveTo(t, p, router, 0)
	soon(t, "no plan without endpoints", func() bool { return kind() == 0 && p.picker.planFor(lateCall) == nil })
	resolveTo(t, p, router, 3)
	soon(t, "a plan again", func() bool { return kind() == selection.KindLeastPending })

	if err := router.RemoveSelector("late"); err != nil {
		t.Fatal(err)
	}
	if c := p.picker.planFor(lateCall); c != nil {
		t.Errorf("a selector that is gone has the plan %+v", c)
	}
	p.Close()
	if c := router.main.Load().slots.Load().main.plan.Load(); c != nil {
		t.Errorf("after the policy has closed there is the plan %+v of its endpoints", c)
	}
}

// TestPlanIsTheNewest: many store what plans are made of at the same time. The one
// that is left is made of what is left.
func TestPlanIsTheNewest(t *testing.T) {
	pk := selectionWorld(t, 4, selection.P2C())
	rt := pk.cur.Load().route
	sl := rt.slots.Load().main
	members := make([]*selection.Member, 4)
	for i, ep := range pk.cur.Load().view.endpoints {
		members[i] = ep.member
	}
	for range 200 {
		var all sync.WaitGroup
		all.Go(func() { sl.setRule(&rule{generation: 2, policy: selection.Random(), source: FromCode}) })
		all.Go(func() {
			for n := range members {
				pk.ready.Store(selection.NewTable(members[n:]))
				rt.replan(sl)
			}
		})
		all.Go(func() { sl.setRule(&rule{generation: 3, policy: selection.RoundRobin(), source: FromCode}) })
		all.Wait()
		want := newPlan(pk, sl.selector, sl.cur.Load())
		if got := pk.plan.Load(); !reflect.DeepEqual(got, want) || sl.plan.Load() != got {
			t.Fatalf("the plan is %+v, want %+v", got, want)
		}
	}
}

// TestPassedOverShareIsSpread: the share of an endpoint that does not take attempts
// goes to all others alike, not to whoever comes after it (field case PF-07). A pick
// that went by its plan goes on from there.
func TestPassedOverShareIsSpread(t *testing.T) {
	for _, policy := range []selection.Policy{selection.P2C(), selection.Random(), selection.RoundRobin(), selection.Weighted(nil)} {
		for name, refuse := range map[string]func(*endpoint){
			"failing": func(ep *endpoint) {
				ep.cur.Store(&childState{connectivity: connectivity.TransientFailure, picker: stubPicker{err: stubError(2)}})
			},
			"disabled":     func(ep *endpoint) { ep.flags.Or(barred) },
			"not admitted": func(ep *endpoint) { d := &door{doors: newDoors(t)}; d.shut.Store(true); admitWith(ep, d) },
		} {
			t.Run(policy.String()+"/"+name, func(t *testing.T) {
				pk := selectionWorld(t, 5, policy)
				refuse(pk.cur.Load().view.endpoints[2])
				const picks = 8000
				var got [5]int
				for range picks {
					res, err := pk.Pick(methodInfo())
					if err != nil {
						t.Fatal(err)
					}
					got[res.SubConn.(*stubSubConn).endpoint]++
					res.Done(lb.DoneInfo{})
				}
				for i, n := range got {
					if i == 2 && n != 0 || i != 2 && (n < picks*22/100 || n > picks*28/100) {
						t.Errorf("endpoint %d got %d of %d picks: %v", i, n, picks, got)
					}
				}
			})
		}
	}
}
