package telemetry_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
	"github.com/slicewire/slicewire/telemetry"
)

// Field case TE-06: what has left is in no collection any more, not even as 0.
func TestTE06SeriesGoWithWhatTheyShow(t *testing.T) {
	w := startWorld(t, openEyes(t))
	if _, err := w.call(interceptors.WithGroup(keyed(t, "k"), "standby")); err != nil {
		t.Fatal(err)
	}
	all := w.collect(t)
	for name, labels := range map[string][]string{
		"slicewire.group.current": {"group", "standby"}, "slicewire.target.state": {"target", "other"}, "slicewire.endpoints": {"target", "other"},
		"slicewire.picks": {"target", "other"}, "slicewire.selector.builds": {"selector", "reads"},
	} {
		if len(find(all[name], labels...)) == 0 {
			t.Errorf("%s with %v is not there yet", name, labels)
		}
	}

	w.topology.Targets = w.topology.Targets[:1]
	w.topology.Groups = []sdk.GroupConfig{{Name: "default", Targets: []string{"main"}}}
	if _, err := w.client.UpdateTopology(w.topology); err != nil {
		t.Fatal(err)
	}
	if err := w.client.RemoveSelector("reads"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the target to leave", func() bool { return len(w.client.Status().Targets) == 1 })
	observed := slices.Collect(maps.Keys(rows()))
	for name, list := range w.collect(t) {
		if in := rows()[name]; in.Kind == telemetry.Histogram || name == "slicewire.policy.publications" {
			continue // what happened stays
		}
		for _, labels := range [][]string{{"group", "standby"}, {"target", "other"}, {"selector", "reads"}} {
			if found := find(list, labels...); slices.Contains(observed, name) && len(found) > 0 {
				t.Errorf("%s still has %v", name, found)
			}
		}
	}

	// A client that is closed leaves nothing but what histograms have seen.
	_ = w.client.Close()
	for name := range w.collect(t) {
		if rows()[name].Kind != telemetry.Histogram {
			t.Errorf("%s is there after Close", name)
		}
	}
}

// complaints collects what OpenTelemetry says to its error handler.
func complaints(t *testing.T) *book {
	b := &book{}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { fmt.Fprintln(b, err) }))
	t.Cleanup(func() { otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Print(err) })) })
	return b
}

// Field case TE-07: clients on one provider, with gRPC's own metrics beside, do not
// disturb each other and are told apart.
func TestTE07ClientsOfOneProvider(t *testing.T) {
	said := complaints(t)
	e := openEyes(t)
	first := dial(t, sdktest.NewCluster(t, "a"), e, nil, sdk.WithGRPCTelemetry())
	second := dial(t, sdktest.NewCluster(t, "b"), e, nil, sdk.WithGRPCTelemetry()) // wants the same name
	for i, f := range []*fixture{first, second} {
		f.AssignEven(shardingTarget)
		for range 3 * (i + 1) {
			f.who(t, "k")
		}
	}
	all := e.collect(t)
	for client, want := range map[string]float64{"c": 3, "c-2": 6} {
		if got := total(all["slicewire.picks"], "client", client, "result", "ready"); got != want {
			t.Errorf("client %s has %v picks, want %v", client, got, want)
		}
	}
	if got := total(all["slicewire.build_info"]); got != 1 {
		t.Errorf("slicewire.build_info adds up to %v", got)
	}
	own := make(map[string]bool)
	streams := make(map[string]bool)
	for _, scope := range e.scopes(t) {
		for _, m := range scope.Metrics {
			// What was registered twice and did not fit, which OpenTelemetry logs, is a
			// second stream of the name.
			if stream := scope.Scope.Name + " " + m.Name; streams[stream] {
				t.Errorf("there are two streams %s", stream)
			} else {
				streams[stream] = true
			}
			if m.Name == "grpc.client.call.duration" {
				for _, s := range points(m.Data) {
					own[s.labels["grpc.target"]] = true
					if s.count != 3 && s.count != 6 {
						t.Errorf("gRPC counts %d calls to %s", s.count, s.labels["grpc.target"])
					}
				}
			}
		}
	}
	if len(own) != 2 {
		t.Errorf("gRPC's own metrics are of %v, want two targets", own)
	}
	// One that closes does not take the other away.
	_ = first.client.Close()
	all = e.collect(t)
	if got := total(all["slicewire.picks"], "result", "ready"); got != 6 {
		t.Errorf("there are %v picks of the client that is left, want 6", got)
	}
	_ = second.client.Close()
	if s := said.String(); s != "" {
		t.Errorf("OpenTelemetry says:\n%s", s)
	}
}

// Field case TE-12: collections while everything changes.
func TestTE12CollectionsDuringChanges(t *testing.T) {
	w := startWorld(t, openEyes(t))
	if _, err := w.call(keyed(t, "k")); err != nil {
		t.Fatal(err)
	}
	end, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var busy sync.WaitGroup
	repeat := func(what func(i int)) {
		busy.Go(func() {
			for i := 0; end.Err() == nil; i++ {
				what(i)
			}
		})
	}
	small := w.topology
	small.Groups = slices.Clone(small.Groups[:1])
	for range 2 {
		repeat(func(i int) { _, _ = w.call(keyed(t, fmt.Sprintf("k%d", i))) })
	}
	repeat(func(i int) {
		_ = w.main.Resolve([]string{"a", "b"}[:1+i%2]...)
		w.main.AssignEven(shardingTarget)
		time.Sleep(time.Millisecond)
	})
	repeat(func(i int) {
		_, _ = w.client.Selector("reads").Publish([]selection.Policy{selection.P2C(), selection.Ketama(selection.KetamaOptions{})}[i%2], balancer.FromCode)
		_ = w.client.Group("").Pin([]string{"main", "other"}[i%2], time.Minute)
		_, _ = w.client.UpdateTopology([]sdk.Topology{small, w.topology}[i%2])
		time.Sleep(time.Millisecond)
	})
	repeat(func(int) {
		w.main.Backend("b").Kill()
		time.Sleep(5 * time.Millisecond)
		_ = w.main.Backend("b").Restart()
		time.Sleep(20 * time.Millisecond)
	})
	collections := 0
	var ready float64
	for end.Err() == nil {
		collections++
		all := w.collect(t)
		for name, list := range all {
			for _, s := range list {
				flag := slices.Contains([]string{"slicewire.sharding.stream.connected", "slicewire.group.current", "slicewire.target.state", "slicewire.target.error_ratio"}, name)
				if s.value < 0 || flag && s.value > 1 || s.value > 1e9 {
					t.Fatalf("%s is %v with %v", name, s.value, s.labels)
				}
			}
		}
		now := total(all["slicewire.picks"], "target", "main", "selector", "default", "result", "ready") +
			total(all["slicewire.picks"], "target", "main", "selector", "default", "result", "fallback")
		if now < ready {
			t.Fatalf("the count of picks went from %v to %v", ready, now)
		}
		ready = now
	}
	busy.Wait()
	if collections < 3 {
		t.Errorf("there were %d collections", collections)
	}
}

// Label sets stay bounded whatever callers and servers do.
func TestLabelSetsAreBounded(t *testing.T) {
	count := func(e *eyes) (n int) {
		for _, list := range e.collect(t) {
			n += len(list)
		}
		return n
	}
	t.Run("keys, selectors and generations", func(t *testing.T) {
		f := start(t, nil, []string{"a"}, sdk.WithSelector("reads", selection.P2C()))
		f.AssignEven(shardingTarget)
		call := func(i int) {
			ctx := keyed(t, fmt.Sprintf("key-%d", i))
			if i%2 > 0 {
				ctx = interceptors.WithSelector(ctx, fmt.Sprintf("unknown-%d", i))
			}
			if _, err := f.echo.Who(ctx, ""); err != nil {
				t.Fatal(err)
			}
		}
		call(0)
		call(1)
		_, _ = f.echo.Who(within(t, time.Second), "")
		before := count(f.eyes)
		for i := range 5000 {
			call(i)
		}
		var last int64
		for range 300 {
			last = f.AssignEven(shardingTarget)
			if _, err := f.client.Selector("reads").Publish(selection.P2C().WithPenalty(time.Duration(last)*time.Millisecond), balancer.FromCode); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "the last generation", func() bool { return f.client.Status().Generation == last })
		for i := range 5 {
			_, _ = f.echo.Who(interceptors.WithSelector(within(t, time.Second), fmt.Sprintf("unknown-%d", i)), "")
		}
		// Reasons and types that were not seen before may join.
		if after := count(f.eyes); after > before+5 {
			t.Errorf("there were %d series, then %d", before, after)
		}
	})
	t.Run("endpoints", func(t *testing.T) {
		e := openEyes(t)
		r, err := telemetry.New(telemetry.Options{MeterProvider: e.meters, Client: "many"})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		src := &fixed{snapshotOf(10)}
		r.Show(src)
		before := count(e)
		src.s = snapshotOf(3000)
		if after := count(e); after != before {
			t.Errorf("10 endpoints have %d series and 3,000 have %d", before, after)
		}
	})
	t.Run("clients", func(t *testing.T) {
		e := openEyes(t)
		var most int
		for i := range 1000 {
			client, err := sdk.Dial("passthrough:///127.0.0.1:1", append(e.options(), insecurely, sdk.WithSelector(sdk.DefaultSelector, selection.P2C()))...)
			if err != nil {
				t.Fatal(err)
			}
			if i%100 == 0 {
				_, _ = newEcho(client).Who(within(t, time.Second), "")
				n := count(e)
				if i == 0 {
					most = n
				}
				if n > most+1 {
					t.Fatalf("the first client has %d series, number %d has %d", most, i, n)
				}
			}
			_ = client.Close()
		}
		e.allEnded(t)
	})
	t.Run("names of clients", func(t *testing.T) {
		e := openEyes(t)
		for i := range 1000 {
			r, err := telemetry.New(telemetry.Options{MeterProvider: e.meters, Client: fmt.Sprintf("pod-%d", i)})
			if err != nil {
				t.Fatal(err)
			}
			for k := range 300 {
				if i == 0 || k == 0 {
					r.KeySize(context.Background(), fmt.Sprintf("selector-%d", k), 8)
					r.KeyMissing(fmt.Sprintf("selector-%d", k))
				}
			}
			r.Close()
		}
		if n := len(e.collect(t)["slicewire.key.size"]); n < 2 || n > 600 {
			t.Errorf("slicewire.key.size has %d series", n)
		}
	})
}

// snapshotOf is a snapshot with a target of n endpoints, in a group.
func snapshotOf(n int) telemetry.Snapshot {
	s := balancer.Status{
		Config:    &balancer.Config{},
		Endpoints: make([]balancer.EndpointStatus, n),
		Selectors: []balancer.SelectorStatus{{Name: "default", Kind: selection.KindP2C, Picks: balancer.PickCounts{Fallbacks: map[string]uint64{"gap": 1}}}},
	}
	for i := range s.Endpoints {
		s.Endpoints[i] = balancer.EndpointStatus{Name: fmt.Sprintf("endpoint-%d", i), State: 2, Connections: balancer.ConnectionStates{Ready: 1, Streams: i % 7}}
	}
	return telemetry.Snapshot{
		Targets: []telemetry.Target{{Name: "t", Router: s}},
		Groups:  []telemetry.Group{{Name: "g", Current: "t", Targets: []failover.TargetState{{Name: "t", State: failover.Ready}}}},
	}
}

// Names of clients are unique while they are open, and free afterwards.
func TestNamesOfClients(t *testing.T) {
	e := openEyes(t)
	open := func(name string) *telemetry.Registration {
		r, err := telemetry.New(telemetry.Options{MeterProvider: e.meters, Client: name})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		return r
	}
	a, b := open("named"), open("named")
	if a.Client() != "named" || b.Client() != "named-2" {
		t.Errorf("the names are %q and %q", a.Client(), b.Client())
	}
	a.Close()
	a.Close()
	if c := open("named"); c.Client() != "named" {
		t.Errorf("the name is %q, want the one that is free", c.Client())
	}
	if d := open(""); !strings.HasPrefix(d.Client(), "client-") {
		t.Errorf("the name is %q", d.Client())
	}
}

// BenchmarkScrape is a collection of a client, without an exporter. One of 1,000
// endpoints is to take less than 5 ms.
func BenchmarkScrape(b *testing.B) {
	for _, n := range []int{10, 1000, 5000} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			c := sdktest.NewCluster(b, "a")
			endpoints := make([]resolver.Endpoint, n)
			for i := range endpoints {
				endpoints[i] = sdktest.Endpoint(fmt.Sprintf("endpoint-%d", i), c.Backend("a").Addr())
			}
			c.SetEndpoints(endpoints...)
			f := dial(b, c, openEyes(b), nil, sdk.WithSelector(sdk.DefaultSelector, selection.RoundRobin()))
			for range 20 {
				f.who(b, "k")
			}
			b.ReportAllocs()
			for b.Loop() {
				f.scopes(b)
			}
		})
	}
}
