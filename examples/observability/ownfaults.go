package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
)

// ownFaults are what the program, its operator and its name resolver do to the
// client.
func (st *stage) ownFaults() []fault {
	s := st.servers
	return []fault{
		{"policy-panics", "A policy of one's own has bugs", []step{
			{"a policy that panics is published", st.publishes(mineSelector, func() selection.Policy { return selection.Custom("broken", broken{}) }), []sign{
				rises("slicewire_policy_publications_total", "selector", mineSelector, "source", "code", "result", "accepted"),
				rises("slicewire_policy_bad_results_total", "selector", mineSelector, "reason", "panic"),
				rises("slicewire_policy_bad_results_total", "selector", mineSelector, "reason", "out_of_range"),
			}},
			{"a policy that is not allowed is refused", st.publishNonsense, []sign{
				rises("slicewire_policy_publications_total", "selector", mineSelector, "result", "refused"),
			}},
			{"round robin is published", st.publishes(mineSelector, selection.RoundRobin), []sign{
				rises("slicewire_policy_publications_total", "selector", mineSelector, "source", "code", "result", "accepted"),
			}},
		}},
		{"builds", "A policy takes long to build its data, and the list of servers changes meanwhile", []step{
			{"a policy that takes 0.7 s is published; dora comes, goes and comes, and assignments wait for their turn", st.publishSlow, []sign{
				appears("slicewire_selector_lag", "target", mainTarget, "selector", nearSelector, "type", "policy"),
				appears("slicewire_selector_lag", "target", mainTarget, "selector", nearSelector, "type", "membership"),
				rises("slicewire_selector_builds_total", "target", mainTarget, "selector", nearSelector),
				rises("slicewire_selector_coalesced_total", "target", mainTarget, "selector", nearSelector),
				rises("slicewire_assignment_updates_total", "target", mainTarget, "result", "superseded"),
			}},
			{"a selector is added, and its first RPC waits for its data", st.useNewSelector, []sign{
				rises("grpc_client_attempt_delay_duration_seconds", "grpc_delay_type", "selector_build_pending"),
			}},
			{"a policy that cannot be built is published; the one before stays", st.publishes(nearSelector, func() selection.Policy { return st.nextNear(0, true) }), []sign{
				rises("slicewire_selector_build_failures_total", "target", mainTarget, "selector", nearSelector),
				appears("slicewire_selector_lag", "target", mainTarget, "selector", nearSelector, "type", "policy"),
			}},
			{"a good one is published, and dora goes", func(ctx context.Context) error {
				s.announce(false)
				return st.publishes(nearSelector, func() selection.Policy { return st.nextNear(0, false) })(ctx)
			}, []sign{
				rises("slicewire_selector_queue_duration_seconds", "target", mainTarget, "selector", nearSelector),
				rises("slicewire_selector_build_duration_seconds", "target", mainTarget, "selector", nearSelector),
				vanishes("slicewire_selector_lag", "target", mainTarget, "selector", nearSelector, "type", "policy"),
				rises("slicewire_connection_closes_total", "target", mainTarget, "reason", "removed"),
			}},
		}},
		{"no-key", "A caller forgets the key", []step{
			{"10 RPCs without a key are refused", st.forgetKeys, []sign{
				rises("slicewire_key_missing_total"),
				rises("slicewire_key_size_bytes"),
			}},
		}},
		{"drill", "An operator drills with the group \"read\"", []step{
			{"it is pinned to standby", st.pins, []sign{
				rises("slicewire_group_switches_total", "group", readGroup, "reason", "pinned"),
				appears("slicewire_group_current", "group", readGroup, "target", standbyTarget),
			}},
			{"the pin ends, the replica is taken out and put back, the order is reversed, and the replica alone is left", st.drills, []sign{
				rises("slicewire_group_switches_total", "group", readGroup, "reason", "unpinned"),
				rises("slicewire_group_switches_total", "group", readGroup, "reason", "disabled"),
				rises("slicewire_group_switches_total", "group", readGroup, "reason", "recovered"),
				rises("slicewire_group_switches_total", "group", readGroup, "reason", "reordered"),
				rises("slicewire_group_switches_total", "group", readGroup, "reason", "removed"),
			}},
			{"the targets are as they were", func(context.Context) error { return st.reads(replicaTarget, standbyTarget) }, []sign{
				appears("slicewire_group_current", "group", readGroup, "target", replicaTarget),
			}},
		}},
		{"service-config", "The name resolver sends a service config", []step{
			{"it has the selector \"mine\" choose at random", does(func() { s.cluster.Resolver().SetServiceConfig(serviceConfig(`{"` + mineSelector + `": "random"}`)) }), []sign{
				rises("slicewire_policy_publications_total", "selector", mineSelector, "source", "resolver", "result", "accepted"),
			}},
			{"it takes that back", does(func() { s.cluster.Resolver().SetServiceConfig(serviceConfig(`{}`)) }), []sign{
				rises("slicewire_picks_total", "target", mainTarget, "selector", mineSelector, "policy", "round_robin"),
			}},
		}},
	}
}

// serviceConfig says what topology says, and what policies selectors have.
func serviceConfig(selectors string) string {
	return `{"loadBalancingConfig": [{"slicewire": {
		"channelFactoryKey": "sharder", "slicingTarget": "` + shardingTarget + `", "sliceKeyHeaderName": "` + keyHeader + `",
		"enableFallback": true, "selectors": ` + selectors + `
	}}]}`
}

func (st *stage) publishes(selector string, policy func() selection.Policy) func(context.Context) error {
	return func(context.Context) error {
		_, err := st.client.Selector(selector).Publish(policy(), balancer.FromCode)
		return err
	}
}

// publishNonsense publishes a policy within the slices of slices.
func (st *stage) publishNonsense(context.Context) error {
	_, err := st.client.Selector(mineSelector).Publish(selection.Sliced(selection.Sliced(selection.P2C())), balancer.FromCode)
	if err == nil {
		return errors.New("it was taken")
	}
	say("  refused: %v", err)
	return nil
}

// nextNear is a policy that differs from those before.
func (st *stage) nextNear(takes time.Duration, fails bool) selection.Policy {
	st.version++
	return selection.CustomBuilt("near", near{st.version, takes, fails}, false)
}

const buildTime = 700 * time.Millisecond

func (st *stage) publishSlow(ctx context.Context) error {
	slow := func() selection.Policy { return st.nextNear(buildTime, false) }
	if err := st.publishes(nearSelector, slow)(ctx); err != nil {
		return err
	}
	for _, dora := range []bool{true, false, true} {
		was := st.client.Status().Membership
		st.servers.announce(dora)
		if err := await(ctx, "the client knows the new list", func() bool { return st.client.Status().Membership > was }); err != nil {
			return err
		}
		st.servers.assign() // builds go one at a time: the last one overtakes the others
	}
	return nil
}

// useNewSelector sends an RPC that names a selector which has no data yet.
func (st *stage) useNewSelector(ctx context.Context) error {
	const name = "new"
	if _, err := st.client.AddSelector(name, st.nextNear(buildTime/4, false)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(interceptors.WithKeyString(interceptors.WithSelector(ctx, name), someKey()), most)
	defer cancel()
	if _, err := st.load.echo.Who(ctx, ""); err != nil {
		return err
	}
	return st.client.RemoveSelector(name)
}

// forgetKeys sends RPCs without a key.
func (st *stage) forgetKeys(ctx context.Context) error {
	for range 10 {
		if _, err := st.load.echo.Who(ctx, ""); status.Code(err) != codes.InvalidArgument {
			return fmt.Errorf("an RPC without a key ended with %w, want INVALID_ARGUMENT", err)
		}
	}
	return nil
}

func (st *stage) pins(context.Context) error {
	return st.client.Group(readGroup).Pin(standbyTarget, time.Hour)
}

// drills moves the group to and fro.
func (st *stage) drills(ctx context.Context) error {
	for _, move := range []struct {
		do   func() error
		goal string
	}{
		{st.client.Group(readGroup).Unpin, replicaTarget},
		{func() error { return st.client.SetTargetEnabled(replicaTarget, false, "a drill") }, standbyTarget},
		{func() error { return st.client.SetTargetEnabled(replicaTarget, true, "") }, replicaTarget},
		{func() error { return st.reads(standbyTarget, replicaTarget) }, standbyTarget},
		{func() error { return st.reads(replicaTarget) }, replicaTarget},
	} {
		if err := move.do(); err != nil {
			return err
		}
		err := await(ctx, "reads go to "+move.goal, func() bool { return st.client.Group(readGroup).Current() == move.goal })
		if err != nil {
			return err
		}
	}
	return nil
}

// reads gives the group "read" other targets.
func (st *stage) reads(targets ...string) error {
	_, err := st.client.UpdateTopology(topology(st.servers, targets...))
	return err
}

// job is the second client.
type job struct {
	client *sdk.Client
	load   *load
}
