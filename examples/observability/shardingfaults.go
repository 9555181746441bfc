package main

import (
	"context"

	"github.com/slicewire/slicewire/sdk/sdktest"
)

// shardingFaults are what the sharding service does wrong.
func (st *stage) shardingFaults() []fault {
	s := st.servers
	sharding := s.cluster.Sharding()
	return []fault{
		{"uncovered", "Slices have no owner", []step{
			{"nobody owns the keys up to q", does(s.unassign), []sign{
				appears("slicewire_assignment_uncovered_slices", "target", mainTarget),
				rises("slicewire_fallbacks_total", "target", mainTarget, "reason", "server_empty"),
				rises("slicewire_fallbacks_total", "target", mainTarget, "reason", "unknown_endpoint"),
			}},
			{"every key has an owner", does(s.assign), []sign{
				vanishes("slicewire_assignment_uncovered_slices", "target", mainTarget),
				rises("slicewire_assignment_updates_total", "target", mainTarget, "result", "accepted"),
			}},
		}},
		{"refused", "The sharding service sends assignments that are refused", []step{
			{"nothing is said of the keys up to h; \"shop\" refuses that, and \"job\", which starts, takes the rest", func(ctx context.Context) error {
				s.assignGap()
				return st.startJob(ctx)
			}, []sign{
				rises("slicewire_assignment_updates_total", "client", "shop", "target", mainTarget, "result", "invalid"),
				rises("slicewire_sharding_acks_total", "client", "shop", "target", mainTarget, "result", "refused"),
				rises("slicewire_fallbacks_total", "client", "job", "reason", "gap"),
			}},
			{"a good assignment comes, and then an old one again", func(ctx context.Context) error {
				s.assign()
				err := await(ctx, "the good one is in force", func() bool {
					return st.client.Status().Generation == sharding.Generation(shardingTarget)
				})
				sharding.Corrupt(sdktest.CorruptStale)
				return err
			}, []sign{
				rises("slicewire_assignment_updates_total", "client", "shop", "target", mainTarget, "result", "stale"),
			}},
			{"assignments are right again, and the job ends", does(func() {
				sharding.Heal()
				st.endJob()
			}), []sign{
				rises("slicewire_assignment_updates_total", "target", mainTarget, "result", "accepted"),
				rises("slicewire_assignment_size_bytes", "target", mainTarget),
				rises("slicewire_assignment_build_duration_seconds", "target", mainTarget),
			}},
		}},
		{"sharding-down", "The sharding service stops, and a client starts without it", []step{
			{"the sharding service is stopped; RPCs go on by what it said last", does(sharding.Stop), []sign{
				vanishes("slicewire_sharding_stream_connected", "target", mainTarget),
				appears("slicewire_assignment_age_seconds", "target", mainTarget),
			}},
			{"the client \"job\" starts, waits for an assignment, and falls back", st.startJob, []sign{
				rises("slicewire_fallbacks_total", "client", "job", "reason", "no_assignment"),
				rises("grpc_client_attempt_delay_duration_seconds", "grpc_delay_type", "autosharding_assignment_pending"),
				rises("grpc_client_call_delay_duration_seconds", "grpc_delay_type", "resolving"),
			}},
			{"the sharding service is back, and the job ends", func(context.Context) error {
				st.endJob()
				return sharding.Restart()
			}, []sign{
				appears("slicewire_sharding_stream_connected", "client", "shop", "target", mainTarget),
				rises("slicewire_sharding_streams_total", "client", "shop", "target", mainTarget),
			}},
		}},
	}
}

// startJob starts the second client and its callers.
func (st *stage) startJob(ctx context.Context) error {
	client, err := dialJob(st.servers, st.meters)
	if err != nil {
		return err
	}
	st.job = &job{client: client, load: startLoad(ctx, client)}
	return nil
}

// endJob ends the second client, if there is one.
func (st *stage) endJob() {
	if st.job == nil {
		return
	}
	st.job.load.stop()
	_ = st.job.client.Close()
	st.job = nil
}
