package main

import (
	"context"

	"google.golang.org/grpc/codes"

	"github.com/slicewire/slicewire/interceptors"
)

// serverFaults are what happens to servers and to the network before them.
func (st *stage) serverFaults() []fault {
	s := st.servers
	anna, bert, dora := s.cluster.Backend("anna"), s.cluster.Backend("bert"), s.cluster.Backend("dora")
	return []fault{
		{"server-dies", "A server dies, and comes back", []step{
			{"bert is killed; nobody else owns his keys, and RPCs fall back", does(bert.Kill), []sign{
				appears("slicewire_endpoints", "target", mainTarget, "state", "transient_failure"),
				rises("slicewire_connection_closes_total", "target", mainTarget, "reason", "lost"),
				rises("slicewire_fallbacks_total", "target", mainTarget, "reason", "all_failing"),
				rises("slicewire_health_probes_total", "result", "no_verdict"),
			}},
			{"bert is back", tries(bert.Restart), []sign{
				vanishes("slicewire_endpoints", "target", mainTarget, "state", "transient_failure"),
				rises("slicewire_connection_opens_total", "target", mainTarget),
			}},
		}},
		{"server-slow", "A server is slow, and the breaker opens", []step{
			{"anna answers 250 ms late", does(func() { anna.SlowCalls(slowness) }), []sign{
				appears("slicewire_admission_breakers_open", "target", mainTarget),
				rises("slicewire_admission_rejections_total", "target", mainTarget),
			}},
			{"anna is quick again", does(func() { anna.SlowCalls(0) }), []sign{
				vanishes("slicewire_admission_breakers_open", "target", mainTarget),
			}},
		}},
		{"server-ill", "A server says in answer to probes that it is ill", []step{
			{"cleo says NOT_SERVING", does(func() { s.ill("cleo", true) }), []sign{
				rises("slicewire_health_probes_total", "result", "failed"),
				rises("slicewire_health_flips_total", "state", "unhealthy"),
				appears("slicewire_health_targets", "state", "unhealthy"),
			}},
			{"cleo says SERVING", does(func() { s.ill("cleo", false) }), []sign{
				rises("slicewire_health_flips_total", "state", "healthy"),
				vanishes("slicewire_health_targets", "state", "unhealthy"),
			}},
		}},
		{"server-silent", "The network before a server loses every byte", []step{
			{"what is sent to cleo is lost, and her connection stays open; there is another way to her", does(s.cleoLinks[0].BlackHole), []sign{
				rises("slicewire_pool_unresponsive_total", "target", mainTarget),
				rises("slicewire_connection_closes_total", "target", mainTarget, "reason", "unresponsive"),
			}},
			{"the network works", does(func() {
				s.cleoLinks[0].Heal()
				s.cleoLinks[1].Cut() // so that the first way is taken again
			}), []sign{
				rises("slicewire_connection_opens_total", "target", mainTarget),
				vanishes("slicewire_health_targets", "state", "unhealthy"),
			}},
		}},
		{"server-joins", "A server joins before it is ready, and leaves", []step{
			{"dora is announced; her machine takes connections, and says nothing", func(context.Context) error {
				err := dora.BlackHole()
				s.announce(true)
				return err
			}, []sign{
				appears("slicewire_endpoints", "target", mainTarget, "state", "connecting"),
				appears("slicewire_connections", "target", mainTarget, "state", "connecting"),
				appears("slicewire_health_targets", "state", "unknown"),
			}},
			{"dora is up", tries(dora.Restart), []sign{
				rises("slicewire_connection_opens_total", "target", mainTarget),
				vanishes("slicewire_endpoints", "target", mainTarget, "state", "connecting"),
				vanishes("slicewire_endpoints", "target", mainTarget, "state", "transient_failure"),
			}},
			{"dora leaves", does(func() { s.announce(false) }), []sign{
				rises("slicewire_connection_closes_total", "target", mainTarget, "reason", "removed"),
			}},
		}},
		{"burst", "A burst of streams, more than one connection takes", []step{
			{"35 streams to the replica are open", func(ctx context.Context) error { return st.openStreams(ctx, 35) }, []sign{
				rises("slicewire_pool_scalings_total", "target", replicaTarget, "direction", "up"),
				appears("slicewire_pool_connections", "target", replicaTarget),
				rises("slicewire_pool_streams", "target", replicaTarget),
			}},
			{"most of them end", does(func() { st.endStreams(4) }), []sign{
				rises("slicewire_pool_scalings_total", "target", replicaTarget, "direction", "down"),
				appears("slicewire_connections", "target", replicaTarget, "state", "draining"),
			}},
			{"all of them end", does(func() { st.endStreams(0) }), []sign{
				rises("slicewire_connection_closes_total", "target", replicaTarget, "reason", "scale_down"),
				vanishes("slicewire_connections", "target", replicaTarget, "state", "draining"),
			}},
		}},
		{"primary-down", "The primary address goes down, and comes back", []step{
			{"every server of main is killed; RPCs go to standby", does(s.killPrimary), []sign{
				rises("slicewire_picks_total", "target", mainTarget, "result", "failed"),
				rises("grpc_client_attempt_delay_duration_seconds", "grpc_delay_type", "picker_failing_with_wait_for_ready"),
				rises("slicewire_group_switches_total", "group", "default", "reason", "lost"),
				appears("slicewire_group_current", "group", "default", "target", standbyTarget),
				appears("slicewire_target_state", "group", "default", "target", mainTarget, "state", "down"),
				rises("slicewire_target_downtime_seconds_total", "group", "default", "target", mainTarget),
			}},
			{"they are back", tries(s.restartPrimary), []sign{
				rises("slicewire_group_switches_total", "group", "default", "reason", "recovered"),
				appears("slicewire_group_current", "group", "default", "target", mainTarget),
			}},
		}},
		{"errors", "A target is connected, and answers with errors", []step{
			{"the replica answers UNAVAILABLE to everything; reads go to standby", does(func() { s.replica.FailCalls(codes.Unavailable) }), []sign{
				appears("slicewire_target_error_ratio", "target", replicaTarget),
				rises("slicewire_group_switches_total", "group", readGroup, "reason", "error_ratio"),
			}},
			{"the replica answers", does(s.replica.Heal), []sign{
				rises("slicewire_group_switches_total", "group", readGroup, "reason", "recovered"),
			}},
		}},
		{"monitor", "A target is connected, and probes say that it is ill", []step{
			{"the replica says NOT_SERVING; reads go to standby", does(func() { s.ill("replica", true) }), []sign{
				rises("slicewire_target_probes_total", "result", "failed"),
				rises("slicewire_group_switches_total", "group", readGroup, "reason", "monitor"),
			}},
			{"the replica says SERVING", does(func() { s.ill("replica", false) }), []sign{
				rises("slicewire_group_switches_total", "group", readGroup, "reason", "recovered"),
			}},
		}},
	}
}

// openStreams opens streams of the group "read".
func (st *stage) openStreams(ctx context.Context, n int) error {
	for range n {
		ctx, cancel := context.WithCancel(interceptors.WithGroup(ctx, readGroup))
		stream, err := st.load.echo.Watch(interceptors.WithKeyString(ctx, someKey()), "")
		if err != nil {
			cancel()
			return err
		}
		st.streams = append(st.streams, func() {
			cancel()
			for err == nil { // it is in flight until its end was received
				_, err = stream.Recv()
			}
		})
	}
	return nil
}

// endStreams ends all streams but some, which are spread over the connections.
func (st *stage) endStreams(keep int) {
	var kept []func()
	for i, end := range st.streams {
		if keep > 0 && i%(len(st.streams)/keep) == 0 && len(kept) < keep {
			kept = append(kept, end)
			continue
		}
		end()
	}
	st.streams = kept
}

// does and tries are steps of a function that needs no context.
func does(f func()) func(context.Context) error {
	return func(context.Context) error { f(); return nil }
}

func tries(f func() error) func(context.Context) error {
	return func(context.Context) error { return f() }
}
