package main

import (
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/sdk"
)

// Names of targets, groups and selectors, as metrics have them.
const (
	mainTarget, standbyTarget, replicaTarget = "main", "standby", "replica"

	readGroup = "read"

	spreadSelector = "spread" // any server, the less busy of two
	ringSelector   = "ring"   // by key, on a hash ring
	mineSelector   = "mine"   // by a policy of our own
	nearSelector   = "near"   // by a policy of our own that builds data first
)

var plaintext = insecure.NewCredentials()

// dial makes the client whose telemetry is looked at. It has a bit of everything; the
// timings are a tenth of what a real program has, so that there is something to see.
func dial(s *servers, config string, meters metric.MeterProvider, probes *health.Registry, logger *slog.Logger) (*sdk.Client, error) {
	breaker, err := admission.NewBreaker(admission.BreakerOptions{
		MinThroughput: 5, Window: 2 * time.Second, OpenFor: time.Second, SlowAfter: slowAfter,
	})
	if err != nil {
		return nil, err
	}
	return sdk.Dial("",
		sdk.WithClientName("shop"),
		sdk.WithMeterProvider(meters),
		sdk.WithGRPCTelemetry(),
		sdk.WithLogger(logger),
		sdk.WithTransportCredentials(plaintext),
		sdk.WithResolvers(s.cluster.Resolver()),
		reconnectSoon(),
		sdk.WithTopology(topology(s, replicaTarget, standbyTarget)),
		sdk.WithDialProfile("guarded", sdk.WithAdmission(breaker)),
		sdk.WithShardingService("sharder", s.cluster.Sharding().Addr(), grpc.WithTransportCredentials(plaintext)),
		sdk.WithShardingStream(sdk.ShardingStream{
			Backoff: backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.2, MaxDelay: 400 * time.Millisecond},
			MinGap:  100 * time.Millisecond,
		}),
		sdk.WithConfigFile(config), // declares one more selector, "filed"
		sdk.WithSelector(spreadSelector, selection.P2C()),
		sdk.WithSelector(ringSelector, selection.Ketama(selection.KetamaOptions{})),
		sdk.WithSelector(mineSelector, selection.RoundRobin()),
		sdk.WithSelector(nearSelector, selection.CustomBuilt("near", near{}, false)),
		sdk.WithConnections(balancer.Connections{
			Max: 4, Streams: 10, ScaleDownAfter: time.Second, MaxAge: 10 * time.Second,
			Unresponsive: balancer.Unresponsive{Deadlines: 3, Window: time.Second},
		}),
		sdk.WithHealth(probes),
		sdk.WithMonitor(health.Options{Interval: 200 * time.Millisecond, FailAfter: 4}),
		sdk.WithDrainTimeout(time.Second),
	)
}

// newProbes makes what probes the servers, once for all clients.
func newProbes() (*health.Registry, error) {
	return health.NewRegistry(health.Options{
		Checker:  health.GRPC("", grpc.WithTransportCredentials(plaintext)),
		Interval: 200 * time.Millisecond, FailAfter: 2, Initial: health.Unknown,
	})
}

// topology is the targets and their groups, reads being the targets of the group
// "read", best first.
func topology(s *servers, reads ...string) sdk.Topology {
	timings := failover.Options{Recovery: time.Second}
	return sdk.Topology{
		Targets: []sdk.TargetConfig{
			{
				Name: mainTarget, URI: s.cluster.Target(), Profile: "guarded", MinReady: 3,
				Sharding: &sdk.Sharding{ServiceKey: "sharder", Target: shardingTarget, KeyHeader: keyHeader, Fallback: true},
			},
			{Name: standbyTarget, URI: "dns:///" + s.standby.Addr()},
			{
				Name: replicaTarget, URI: "dns:///" + s.replica.Addr(),
				ErrorRatio: &failover.RatioOptions{Window: time.Second, Threshold: 0.3, Probes: 2},
			},
		},
		Groups: []sdk.GroupConfig{
			{Name: sdk.DefaultGroup, Targets: []string{mainTarget, standbyTarget}, Failover: timings},
			{Name: readGroup, Targets: reads, Failover: timings},
		},
	}
}

// dialJob makes a second client, for a job that starts now and then. It follows a
// later draft of gRFC A119, which takes what is good of a bad assignment.
func dialJob(s *servers, meters metric.MeterProvider) (*sdk.Client, error) {
	return sdk.Dial(s.names.Scheme()+":///primary",
		sdk.WithClientName("job"),
		sdk.WithMeterProvider(meters),
		sdk.WithTransportCredentials(plaintext),
		sdk.WithResolvers(s.names),
		sdk.WithShardingService("sharder", s.cluster.Sharding().Addr(), grpc.WithTransportCredentials(plaintext)),
		sdk.WithSharding(sdk.Sharding{
			ServiceKey: "sharder", Target: shardingTarget, KeyHeader: keyHeader,
			Fallback: true, InitialTimeout: 500 * time.Millisecond, Revision: assignment.Revision202610,
		}))
}

func reconnectSoon() sdk.Option {
	return sdk.WithDialOptions(grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.2, MaxDelay: 300 * time.Millisecond},
		MinConnectTimeout: time.Second,
	}))
}
