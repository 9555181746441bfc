package telemetry_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
	"github.com/slicewire/slicewire/telemetry"
)

// A client is shown on the MeterProvider that it is given. A program has one with an
// exporter where this one has a reader.
func Example() {
	cluster, err := sdktest.StartCluster("a", "b")
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	cluster.AssignEven("users")

	reader := metric.NewManualReader()
	plain := insecure.NewCredentials()
	client, err := sdk.Dial(cluster.Target(),
		sdk.WithTransportCredentials(plain),
		sdk.WithResolvers(cluster.Resolver()),
		sdk.WithShardingService("main", cluster.Sharding().Addr(), grpc.WithTransportCredentials(plain)),
		sdk.WithSharding(sdk.Sharding{ServiceKey: "main", Target: "users", KeyHeader: "x-user"}),
		sdk.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		sdk.WithClientName("example"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for _, key := range []string{"alice", "zoe", "bob"} {
		if _, err := sdktest.NewEcho(client).Who(interceptors.WithKeyString(context.Background(), key), ""); err != nil {
			log.Fatal(err)
		}
	}

	var data metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &data); err != nil {
		log.Fatal(err)
	}
	for _, m := range data.ScopeMetrics[0].Metrics {
		sum, ok := m.Data.(metricdata.Sum[int64])
		for _, p := range sum.DataPoints {
			if result, _ := p.Attributes.Value(telemetry.LabelResult); ok && m.Name == "slicewire.picks" && result.AsString() == "ready" {
				fmt.Println(m.Name, result.AsString(), p.Value)
			}
		}
	}
	// Output: slicewire.picks ready 3
}

// Instruments is what documents and dashboards are made from.
func ExampleInstruments() {
	for _, in := range telemetry.Instruments() {
		if in.Topic == "Keys" {
			fmt.Println(in.Name, in.Kind, in.Unit)
		}
	}
	// Output:
	// slicewire.key.missing counter {call}
	// slicewire.key.size histogram By
}
