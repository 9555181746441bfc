package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// often is how often the tests' monitors probe.
const often = 20 * time.Millisecond

// counted is a checker that counts the probes of each target.
type counted struct {
	checker health.Checker
	mu      sync.Mutex // guards what follows
	probes  map[string]int
	errs    map[string]error // of the newest probe
}

func count(c health.Checker) *counted {
	return &counted{checker: c, probes: make(map[string]int), errs: make(map[string]error)}
}

func (c *counted) Check(ctx context.Context, t health.Target) error {
	err := c.checker.Check(ctx, t)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probes[t.Name]++
	c.errs[t.Name] = err
	return err
}

// of is how often a target was probed, and what came of it last.
func (c *counted) of(target string) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.probes[target], c.errs[target]
}

// more waits for n more probes of a target.
func (c *counted) more(t testing.TB, target string, n int) {
	t.Helper()
	before, _ := c.of(target)
	eventually(t, fmt.Sprintf("%d more probes of %q", n, target), func() bool {
		now, _ := c.of(target)
		return now >= before+n
	})
}

// currentIs waits until a group's current target is the named one.
func currentIs(t testing.TB, client *sdk.Client, group, target string) {
	t.Helper()
	eventually(t, fmt.Sprintf("group %q at %q", group, target), func() bool { return client.Group(group).Current() == target })
}

// G-18: a target that is connected and not serving is left, and returned to. Probes
// go over the connection that is there.
func TestG18NotServing(t *testing.T) {
	t.Parallel()
	p, services := startWithHealth(t, "a", "b")
	client := dialGroups(t, p.topology(group("default", "a", "b"), group("standby", "b")), sdk.WithMonitor(health.Options{Interval: often}))
	goesTo(t, client, "", "a")
	goesTo(t, client, "standby", "b")
	for range 3 {
		services["a"].SetServingStatus("", healthgrpc.HealthCheckResponse_NOT_SERVING)
		currentIs(t, client, "", "b")
		eventually(t, "a to be down by its probes", func() bool {
			s := client.Status().Groups[0].Targets[0]
			return s.State == failover.Down && s.Reason == failover.Monitor
		})
		goesTo(t, client, "", "b")
		services["a"].SetServingStatus("", healthgrpc.HealthCheckResponse_SERVING)
		currentIs(t, client, "", "a")
		eventually(t, "RPCs at a", func() bool {
			got, err := in(within(t, time.Second), client, "")
			return err == nil && got == "a"
		})
	}
	// On a busy machine a probe may be too late, and make one more of each.
	if s := client.Status().Groups[0].Switches; s[failover.Monitor] < 3 || s[failover.Recovered] < 3 || len(s) != 2 {
		t.Errorf("switches %v", s)
	}
	connectionsTo(t, p["a"], 1, 1)
	connectionsTo(t, p["b"], 1, 1)
}

// G-18: without calls, probes alone keep a standby connected.
func TestG18ProbesKeepAStandbyWarm(t *testing.T) {
	t.Parallel()
	p, _ := startWithHealth(t, "a", "b")
	client := dialGroups(t, p.topology(group("default", "a", "b")), sdk.WithMonitor(health.Options{Interval: often}))
	for _, name := range []string{"a", "b"} {
		if err := p[name].WaitLive(within(t, 10*time.Second), 1); err != nil {
			t.Error(err)
		}
	}
	p["a"].Kill()
	currentIs(t, client, "", "b")
	goesTo(t, client, "", "b")
	connectionsTo(t, p["b"], 1, 1)
}

// G-18: a checker of the program's own.
func TestG18PluggableChecker(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	var sick atomic.Value
	sick.Store("")
	checker := count(health.Func(func(ctx context.Context, target health.Target) error {
		if target.Name == sick.Load() {
			return errors.New("sick")
		}
		got, err := sdktest.NewEcho(target.Conn()).Who(ctx, "probe")
		if err == nil && got != target.Name {
			err = fmt.Errorf("the probe of %q reached %q", target.Name, got)
		}
		return err
	}))
	client := dialGroups(t, p.topology(group("default", "a", "b"), group("alone", "a")), sdk.WithMonitor(health.Options{Checker: checker, Interval: often}))
	for _, name := range []string{"a", "b"} {
		checker.more(t, name, 3)
		if _, err := checker.of(name); err != nil {
			t.Errorf("the probe of %q: %v", name, err)
		}
	}
	sick.Store("a")
	currentIs(t, client, "", "b")
	goesTo(t, client, "alone", "a") // which has nowhere to go
	sick.Store("b")
	currentIs(t, client, "", "a")
	connectionsTo(t, p["a"], 1, 1)
	connectionsTo(t, p["b"], 1, 1)
	if n := poolOf(client, "a").InFlight; n != 0 {
		t.Errorf("probes count as %d RPCs in flight", n)
	}
}

// G-18: a target that is sharded is probed without a key.
func TestG18ShardedTarget(t *testing.T) {
	t.Parallel()
	checker := count(health.Func(func(ctx context.Context, target health.Target) error {
		_, err := sdktest.NewEcho(target.Conn()).Who(ctx, "probe")
		return err
	}))
	r := startRegions(t, sdk.WithMonitor(health.Options{Checker: checker, Interval: often}))
	for _, name := range []string{"east", "west", "plain"} {
		checker.more(t, name, 3)
		if _, err := checker.of(name); err != nil {
			t.Errorf("the probe of %q: %v", name, err)
		}
	}
	probed := 0
	for _, b := range append(r.Backends(), r.west.Backends()...) {
		probed += b.Count()
		if keys := b.Keys(testHeader); len(keys) > 0 {
			t.Errorf("probes of %q carry keys", b.Name())
		}
	}
	if probed < 6 {
		t.Errorf("the servers have seen %d probes", probed)
	}
	if got := r.who(t, "k"); got != "e1" {
		t.Errorf("the key's RPC reached %q", got)
	}
}

// HR-04: a probe that hangs delays no other probe, no RPC, no update and no Close.
func TestG18HR04HangingProbe(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b", "c")
	var sick atomic.Bool
	hanging := make(chan struct{})
	var once sync.Once
	checker := count(health.Func(func(ctx context.Context, target health.Target) error {
		switch {
		case target.Name == "b":
			once.Do(func() { close(hanging) })
			<-ctx.Done()
			return ctx.Err()
		case target.Name == "a" && sick.Load():
			return errors.New("sick")
		}
		return nil
	}))
	client := dialGroups(t, p.topology(group("default", "a", "b", "c")), sdk.WithMonitor(health.Options{
		Checker: checker, Interval: time.Minute, Timeout: time.Minute, FailAfter: 1,
	}))
	<-hanging
	soon(t, 5*time.Second, "all that beside a hanging probe", func() {
		goesTo(t, client, "", "a")
		update(t, client, p.topology(group("default", "c", "b"), group("other", "a", "b")))
		goesTo(t, client, "", "c")
		sick.Store(true)
		// A target that comes is probed at once.
		update(t, client, p.topology(group("default", "c", "b")))
		update(t, client, p.topology(group("default", "a", "c", "b")))
		currentIs(t, client, "", "c")
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
}

// G-18: a target that no group of several lists is probed no more, and probed anew,
// at once, when it is back.
func TestG18ProbedWhileListed(t *testing.T) {
	t.Parallel()
	p, services := startWithHealth(t, "a", "b")
	checker := count(health.GRPC(""))
	both, alone := p.topology(group("default", "a", "b")), p.topology(group("default", "b"))
	client := dialGroups(t, both, sdk.WithMonitor(health.Options{Checker: checker, Interval: often}))
	services["a"].SetServingStatus("", healthgrpc.HealthCheckResponse_NOT_SERVING)
	currentIs(t, client, "", "b")

	for _, gone := range []sdk.Topology{alone, p.topology(group("default", "b"), group("other", "a"))} {
		update(t, client, gone)
		eventually(t, "probes of a to end", func() bool {
			before, _ := checker.of("a")
			time.Sleep(3 * often)
			after, _ := checker.of("a")
			return after == before
		})
		goesTo(t, client, "", "b")
		for _, g := range client.Status().Groups {
			for _, target := range g.Targets {
				if target.Reason == failover.Monitor {
					t.Errorf("group %q: target %q is %v by probes that have ended", g.Name, target.Name, target.State)
				}
			}
		}
		update(t, client, both)
		checker.more(t, "a", 1)
		currentIs(t, client, "", "b")
	}
	services["a"].SetServingStatus("", healthgrpc.HealthCheckResponse_SERVING)
	currentIs(t, client, "", "a")
}

// G-18: what probes said of a target's old URI is not held against the new one.
func TestG18AnotherURI(t *testing.T) {
	t.Parallel()
	p, services := startWithHealth(t, "a", "b", "c")
	services["a"].SetServingStatus("", healthgrpc.HealthCheckResponse_NOT_SERVING)
	top := p.topology(group("default", "a", "b"))
	client := dialGroups(t, top, sdk.WithMonitor(health.Options{Interval: time.Hour}))
	currentIs(t, client, "", "b")
	top.Targets[0].URI, top.Targets[2].URI = top.Targets[2].URI, top.Targets[0].URI
	update(t, client, top)
	currentIs(t, client, "", "a")
	goesTo(t, client, "", "c")
}

// G-18: while a target cannot be reached there is nothing to probe, so that it is
// used again as soon as it is connected, not after the next probe.
func TestG18NoVerdictWithoutConnection(t *testing.T) {
	t.Parallel()
	p, _ := startWithHealth(t, "a", "b")
	checker := count(health.GRPC(""))
	client := dialGroups(t, p.topology(group("default", "a", "b")), sdk.WithMonitor(health.Options{Checker: checker, Interval: often}))
	goesTo(t, client, "", "a")
	p["a"].Kill()
	currentIs(t, client, "", "b")
	eventually(t, "a probe without a connection", func() bool {
		_, err := checker.of("a")
		return errors.Is(err, health.ErrNoVerdict)
	})
	for range 20 {
		checker.more(t, "a", 1)
		if s := client.Status().Groups[0].Targets[0]; s.Reason != failover.Lost && s.Reason != failover.Monitor {
			t.Errorf("a is %v for %v", s.State, s.Reason)
		}
	}
	if err := p["a"].Restart(); err != nil {
		t.Fatal(err)
	}
	currentIs(t, client, "", "a")
	goesTo(t, client, "", "a")
}

// wiretap counts what a client writes to its connections.
type wiretap struct{ writes atomic.Int64 }

type tapped struct {
	net.Conn
	tap *wiretap
}

func (c tapped) Write(b []byte) (int, error) {
	c.tap.writes.Add(1)
	return c.Conn.Write(b)
}

func (w *wiretap) option() sdk.Option {
	return sdk.WithDialOptions(grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return tapped{c, w}, nil
	}))
}

// G-18: a server as it is by default sends GOAWAY to a client that pings without
// RPCs. An idle client is silent for longer than 10 s, which is as often as gRPC
// lets a client ping; and probes, each an RPC, cost no connection.
func TestG18NoPings(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs 11 s")
	}
	const longerThanAPing = 11 * time.Second
	p, _ := startWithHealth(t, "a", "b")
	top := p.topology(group("default", "a", "b"), group("standby", "b"))
	var idle, probed wiretap
	silent := dialGroups(t, top, idle.option())
	watchful := dialGroups(t, top, probed.option(), sdk.WithMonitor(health.Options{Interval: often}))
	for _, client := range []*sdk.Client{silent, watchful} {
		goesTo(t, client, "", "a")
		goesTo(t, client, "standby", "b")
	}
	// The last frames that a connection begins with.
	written := int64(-1)
	eventually(t, "the idle client to be silent", func() bool {
		before := written
		written = idle.writes.Load()
		time.Sleep(20 * time.Millisecond)
		return written == before
	})
	time.Sleep(longerThanAPing)
	if n := idle.writes.Load() - written; n != 0 {
		t.Errorf("an idle client wrote %d times in %v", n, longerThanAPing)
	}
	if n := probed.writes.Load(); n < 100 {
		t.Errorf("probes were %d writes", n)
	}
	for _, b := range p {
		connectionsTo(t, b, 2, 2)
	}
}
