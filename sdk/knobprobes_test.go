package sdk_test

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// probedServer answers probes, over HTTP at two addresses and as a health service, and
// remembers them.
type probedServer struct {
	healthgrpc.UnimplementedHealthServer
	http [2]*httptest.Server
	bad  atomic.Bool
	slow atomic.Bool // no answer comes

	mu       sync.Mutex // guards the rest
	asked    []sighting
	running  int
	most     int
	complete int // large bodies that were taken whole
}

func startProbed(t testing.TB) *probedServer {
	p := &probedServer{}
	for i := range p.http {
		p.http[i] = httptest.NewServer(p)
		t.Cleanup(p.http[i].Close)
	}
	return p
}

func (p *probedServer) addr(i int) string { return strings.TrimPrefix(p.http[i].URL, "http://") }

// sighting is one probe.
type sighting struct {
	what, of string // what was asked, and of which target
	at       time.Time
}

// largeBody is more than sockets buffer.
const largeBody = 8 << 20

func (p *probedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == "PRI" { // gRPC, which is not known here
		w.WriteHeader(http.StatusHTTPVersionNotSupported)
		return
	}
	p.probed(r.Context(), r.Method+" "+r.Host+r.URL.RequestURI(), r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
	if p.bad.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if r.URL.Path != "/large" {
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(largeBody))
	if n, err := w.Write(make([]byte, largeBody)); err == nil && n == largeBody {
		p.mu.Lock()
		p.complete++
		p.mu.Unlock()
	}
}

func (p *probedServer) Check(ctx context.Context, r *healthgrpc.HealthCheckRequest) (*healthgrpc.HealthCheckResponse, error) {
	from, _ := peer.FromContext(ctx)
	p.probed(ctx, "service "+r.GetService(), from.Addr.String())
	status := healthgrpc.HealthCheckResponse_SERVING
	if p.bad.Load() {
		status = healthgrpc.HealthCheckResponse_NOT_SERVING
	}
	return &healthgrpc.HealthCheckResponse{Status: status}, nil
}

func (p *probedServer) register(r grpc.ServiceRegistrar) { healthgrpc.RegisterHealthServer(r, p) }

func (p *probedServer) probed(ctx context.Context, what, of string) {
	p.mu.Lock()
	p.asked = append(p.asked, sighting{what, of, time.Now()})
	p.running++
	p.most = max(p.most, p.running)
	p.mu.Unlock()
	if p.slow.Load() {
		<-ctx.Done()
	}
	p.mu.Lock()
	p.running--
	p.mu.Unlock()
}

// probesAre says something of the probes so far.
func probesAre(is func(*probedServer) bool) func(*knobWorld) bool {
	return func(w *knobWorld) bool {
		w.probed.mu.Lock()
		defer w.probed.mu.Unlock()
		return is(w.probed)
	}
}

func askedFor(what string) func(*knobWorld) bool {
	return probesAre(func(p *probedServer) bool {
		return slices.ContainsFunc(p.asked, func(s sighting) bool { return strings.Contains(s.what, what) })
	})
}

func atLeast(n int) func(*knobWorld) bool {
	return probesAre(func(p *probedServer) bool { return len(p.asked) >= n })
}

// schedules are rows for the schedule of probes; bad says that they have failed.
func schedules(path string, text func(fields string) string, bad func(*knobWorld) bool) map[string]knob {
	good := func(w *knobWorld) bool { return !bad(w) }
	slow := func(w *knobWorld) { w.probed.slow.Store(true) }
	failing := func(w *knobWorld) { w.probed.bad.Store(true) }
	return map[string]knob{
		path + "interval": {from: text("interval: 24h"), to: text("interval: 10ms"), before: atLeast(1), after: atLeast(20)},
		path + "timeout": {
			from: text("interval: 1h, timeout: 1h"), to: text("interval: 1h, timeout: 10ms"), prepare: slow,
			before: func(w *knobWorld) bool { return atLeast(1)(w) && good(w) }, after: bad,
		},
		path + "jitter": { // without it no two probes of one target are closer than 100 ms
			from: text("interval: 100ms, jitter: 0"), to: text("interval: 100ms, jitter: 0.5"), before: atLeast(2),
			after: probesAre(func(p *probedServer) bool {
				last := make(map[string]time.Time)
				return slices.ContainsFunc(p.asked, func(s sighting) bool {
					before, again := last[s.of]
					last[s.of] = s.at
					return again && s.at.Sub(before) < 75*time.Millisecond
				})
			}),
		},
		path + "failAfter": {
			from: text("interval: 10ms, failAfter: 1000000"), to: text("interval: 10ms, failAfter: 2"), prepare: failing,
			before: func(w *knobWorld) bool { return atLeast(10)(w) && good(w) }, after: bad,
		},
		path + "passAfter": {
			from: text("interval: 10ms, initial: unhealthy, passAfter: 1000000"), to: text("interval: 10ms, initial: unhealthy, passAfter: 2"),
			before: func(w *knobWorld) bool { return atLeast(10)(w) && bad(w) }, after: good,
		},
		path + "workers": {
			from: text("interval: 1h, timeout: 1h, workers: 1"), to: text("interval: 1h, timeout: 1h, workers: 2"), prepare: slow,
			before: probesAre(func(p *probedServer) bool { return p.most == 1 }), after: probesAre(func(p *probedServer) bool { return p.running == 2 }),
		},
		path + "initial": {
			from: text("interval: 1h, timeout: 1h"), to: text("interval: 1h, timeout: 1h, initial: unhealthy"), prepare: slow,
			before: func(w *knobWorld) bool { return atLeast(1)(w) && good(w) }, after: bad,
		},
	}
}

// httpHealth probes two addresses that speak no gRPC.
func httpHealth(fields string) string {
	return "groups:\n  - {name: default, targets: [p, q]}\nhealth: {checker: {kind: http}, " + fields + "}\n"
}

func checker(fields string) string {
	return "groups:\n  - {name: default, targets: [p, q]}\nhealth: {checker: {" + fields + "}, interval: 20ms}\n"
}

// unhurried is checker for probes that take a while.
func unhurried(fields string) string {
	return strings.Replace(checker(fields), "interval: 20ms", "interval: 2s, timeout: 2s", 1)
}

// unhealthy says that probes of endpoints have failed.
func unhealthy(w *knobWorld) bool {
	return slices.ContainsFunc(w.client.Status().Targets, func(t sdk.TargetStatus) bool {
		return slices.ContainsFunc(t.Router.Endpoints, func(e balancer.EndpointStatus) bool { return e.Health == health.Unhealthy })
	})
}

const failsOpen = "groups:\n  - {name: default, targets: [h]}\nhealth: {checker: {kind: grpc}, interval: 10ms"

var healthKnobs = joinRows(schedules("health.", httpHealth, unhealthy), map[string]knob{
	"health.checker.kind":   {from: checker("kind: tcp"), to: checker("kind: http"), after: askedFor("GET")},
	"health.checker.path":   {from: checker("kind: http"), to: checker("kind: http, path: /ready"), before: askedFor("/"), after: askedFor("/ready")},
	"health.checker.method": {from: checker("kind: http"), to: checker("kind: http, method: HEAD"), before: askedFor("GET"), after: askedFor("HEAD")},
	"health.checker.host":   {from: checker("kind: http"), to: checker("kind: http, host: shop.example"), before: askedFor("GET"), after: askedFor("shop.example")},
	"health.checker.maxBody": {
		from: unhurried("kind: http, path: /large, maxBody: 1024"), to: unhurried("kind: http, path: /large, maxBody: 67108864"),
		before: func(w *knobWorld) bool {
			return atLeast(2)(w) && probesAre(func(p *probedServer) bool { return p.complete == 0 })(w)
		},
		after: probesAre(func(p *probedServer) bool { return p.complete > 0 }),
	},
	"health.checker.service": {
		from: failsOpen + "}\n", to: strings.Replace(failsOpen, "kind: grpc", "kind: grpc, service: shop", 1) + "}\n", run: hammer,
		before: askedFor("service "), after: askedFor("service shop"),
	},
	"health.failAllUnhealthy": {
		from: failsOpen + "}\n", to: failsOpen + ", failAllUnhealthy: true}\n", run: func(w *knobWorld) { w.probed.bad.Store(true) },
		before: func(w *knobWorld) bool { return w.goes(w.plain(), "h") && w.client.Status().AllUnhealthy },
		after:  func(w *knobWorld) bool { return w.fails(w.plain(), codes.Unavailable) },
	},
})

func monitored(fields string) string {
	return "groups:\n  - {name: default, targets: [h, i]}\nmonitor: {" + fields + "}\n"
}

// down says that the monitor has a target down.
func down(w *knobWorld) bool {
	for _, name := range []string{"h", "i"} {
		if s := targetState(w.client, "default", name); s.State == failover.Down && s.Reason == failover.Monitor {
			return true
		}
	}
	return false
}

var monitorKnobs = joinRows(schedules("monitor.", monitored, down), map[string]knob{
	"monitor.service": {from: monitored("interval: 20ms"), to: monitored("interval: 20ms, service: shop"), before: askedFor("service "), after: askedFor("service shop")},
})

var shardingKnobs = joinRows(
	shardings("sharding.", func(fields string) string { return onCluster + "sharding: {" + fields + "}\n" }),
	shardings("targets[].sharding.", func(fields string) string {
		return onCluster + "targets:\n  - {name: c, uri: '{c}', sharding: {" + fields + "}}\n"
	}),
)

func joinRows(all ...map[string]knob) map[string]knob {
	rows := make(map[string]knob)
	for _, some := range all {
		maps.Copy(rows, some)
	}
	return rows
}

// attempts waits for streams that came after the reload.
func attempts(n int) func(*knobWorld) bool {
	return func(w *knobWorld) bool {
		since, m := w.client.Status().Configuration.AppliedAt, 0
		for _, s := range w.cluster.Sharding().FirstMessages() {
			if s.Time.After(since) {
				m++
			}
		}
		return m >= n
	}
}

// closeAttempts waits for two streams after the reload that are closer than gap.
func closeAttempts(gap time.Duration) func(*knobWorld) bool {
	return func(w *knobWorld) bool {
		since, last := w.client.Status().Configuration.AppliedAt, time.Time{}
		for _, s := range w.cluster.Sharding().FirstMessages() {
			if !s.Time.After(since) {
				continue
			}
			if !last.IsZero() && s.Time.Sub(last) < gap {
				return true
			}
			last = s.Time
		}
		return false
	}
}

// large gives the sharding service an assignment of many kilobytes.
func large(w *knobWorld) {
	var slices []sdktest.Slice
	for i := range 1000 {
		slices = append(slices, sdktest.From(strings.Repeat("\x00", 1)+strconv.Itoa(100000+i), "e1", "e2"))
	}
	slices[0] = sdktest.From("", "e1", "e2")
	w.cluster.Sharding().Assign(testTarget, sdktest.Ranges(slices...))
}

// noAssignment says that a channel which was made anew gets no assignment.
func noAssignment(w *knobWorld) bool {
	ctx, cancel := context.WithTimeout(interceptors.WithKeyString(context.Background(), "k"), 20*time.Millisecond)
	defer cancel()
	_, err := sdktest.NewEcho(w.client).Who(ctx, "")
	s := w.client.Status()
	return err != nil && s.Generation == 0 && s.Assignment.LastError != ""
}

// background has do run until the test is over.
func (w *knobWorld) background(do func()) {
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	w.Cleanup(func() { <-done })
}

// holdIn opens a stream that stays until ctx ends.
func (w *knobWorld) holdIn(ctx context.Context) {
	w.Helper()
	s, err := sdktest.NewEcho(w.client).Talk(ctx)
	must(w, err)
	_, err = s.Ask("hello")
	must(w, err)
}
