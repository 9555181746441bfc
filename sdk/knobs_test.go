package sdk_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/configsource"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// knob is one key of the configuration, changed by a reload.
type knob struct {
	// from and to are the file before and after, without what knobWorld puts before it.
	from, to string
	// prepare may prepare the servers before the client is made.
	prepare func(w *knobWorld)
	// run may make something happen all the time, until the test is over.
	run func(w *knobWorld)
	// before has to hold, at some time, before the reload; nil for nothing.
	before func(w *knobWorld) bool
	// after has to hold at some time after it.
	after func(w *knobWorld) bool
	// refused says that the reload is refused.
	refused bool
}

// knobWorld is a client of servers that the file names: the targets a and b, c with a
// cluster of e1 and e2 behind it, p and q that know HTTP probes alone, h and i that have
// a health service.
type knobWorld struct {
	*testing.T
	places
	cluster *sdktest.Cluster
	probed  *probedServer
	ring    *slowRing // of the selector "ring"
	other   *sdktest.ShardingService
	file    *configFile
	client  *sdk.Client
	dialled atomic.Int64 // connections of the profile "counted"
}

// text is the whole file for a knob's.
func (w *knobWorld) text(rest string) string {
	var head string
	if !strings.Contains(rest, "inCode:") {
		head += "inCode: {profiles: [counted], shardingServices: [main, backup], selectors: [bad, ring]}\n"
	}
	if !strings.Contains(rest, "targets:\n") {
		head += "targets:\n  - {name: a, uri: '{a}'}\n  - {name: b, uri: '{b}'}\n  - {name: c, uri: '{c}'}\n  - {name: p, uri: '{p}'}\n  - {name: q, uri: '{q}'}\n" +
			"  - {name: h, uri: '{h}'}\n  - {name: i, uri: '{i}'}\n"
	}
	if !strings.Contains(rest, "groups:\n") {
		head += "groups:\n  - {name: default, targets: [a]}\n"
	}
	return strings.NewReplacer("{a}", "dns:///"+w.places["a"].Addr(), "{b}", "dns:///"+w.places["b"].Addr(), "{c}", w.cluster.Target(),
		"{p}", "dns:///"+w.probed.addr(0), "{q}", "dns:///"+w.probed.addr(1), "{h}", "dns:///"+w.places["h"].Addr(), "{i}", "dns:///"+w.places["i"].Addr(),
		"{S1}", w.cluster.Sharding().Addr(), "{S2}", w.other.Addr()).Replace(head + rest)
}

// call sends a quick RPC and says who answered it.
func (w *knobWorld) call(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return sdktest.NewEcho(w.client).Who(ctx, "")
}

func (w *knobWorld) plain() context.Context { return context.Background() }

// fails says whether a call fails with a code; OK that it does not.
func (w *knobWorld) fails(ctx context.Context, code codes.Code) bool {
	_, err := w.call(ctx)
	return status.Code(err) == code
}

func (w *knobWorld) goes(ctx context.Context, to string) bool {
	name, err := w.call(ctx)
	return err == nil && name == to
}

func (w *knobWorld) keyed() context.Context {
	return interceptors.WithKeyString(context.Background(), "some key")
}

// lbConfig says that the LB config in force is so. A call brings the channel up.
func lbConfig(is func(*balancer.Config) bool) func(*knobWorld) bool {
	return func(w *knobWorld) bool {
		w.poke()
		s := w.client.Status()
		return s.Config != nil && is(s.Config)
	}
}

// poke sends a call that may fail.
func (w *knobWorld) poke() {
	ctx, cancel := context.WithTimeout(w.keyed(), 20*time.Millisecond)
	defer cancel()
	_, _ = sdktest.NewEcho(w.client).Who(ctx, "")
}

// hammer sends calls, that may fail, all the time.
func hammer(w *knobWorld) { w.forever(time.Millisecond, w.poke) }

func (w *knobWorld) forever(pace time.Duration, do func()) {
	halt, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-halt:
				return
			case <-time.After(pace):
				do()
			}
		}
	}()
	w.Cleanup(func() { close(halt); <-done })
}

// hold opens streams that stay until the test is over.
func (w *knobWorld) hold(n int) {
	w.Helper()
	for range n {
		ctx, cancel := context.WithCancel(context.Background())
		w.Cleanup(cancel)
		w.holdIn(ctx)
	}
}

// refusedEndpoint is how long the breaker refuses the endpoint of the default group
// for, 0 if it does not.
func (w *knobWorld) refusedFor() time.Duration {
	for _, e := range w.client.Status().Endpoints {
		return e.RetryAfter
	}
	return 0
}

func (w *knobWorld) condemned(name string) bool {
	for _, t := range w.client.Status().Targets {
		if t.Name == name && t.ErrorRatio != nil {
			return t.ErrorRatio.Condemned
		}
	}
	return false
}

func (w *knobWorld) live(name string) int { return w.places[name].Connections().Live }

// says checks what a selector's policy is.
func says(name string, want selection.Policy) func(*knobWorld) bool {
	return func(w *knobWorld) bool {
		s := w.client.Selector(name)
		return s != nil && s.Policy().Equal(want)
	}
}

// TestEveryKnob: every key of the configuration is changed by a reload, and the effect
// is seen. A key without a row fails.
func TestEveryKnob(t *testing.T) {
	t.Parallel()
	rows := make(map[string]knob)
	for _, some := range []map[string]knob{clientKnobs, topologyKnobs, ratioKnobs, selectorKnobs, shardingKnobs, streamKnobs, healthKnobs, monitorKnobs, breakerKnobs, connectionKnobs} {
		maps.Copy(rows, some)
	}
	known := make(map[string]bool)
	for _, k := range configsource.Keys() {
		known[k.Path] = true
		if strings.HasSuffix(k.Kind, "object") || strings.HasSuffix(k.Kind, "objects") {
			continue // its keys come
		}
		row, ok := rows[k.Path]
		if !ok {
			t.Errorf("the key %s has no row", k.Path)
			continue
		}
		t.Run(k.Path, func(t *testing.T) { t.Parallel(); row.test(t, k) })
	}
	for _, path := range slices.Sorted(maps.Keys(rows)) {
		if !known[path] {
			t.Errorf("there is a row for %s, which is no key", path)
		}
	}
}

func (k knob) test(t *testing.T, key configsource.Key) {
	w := &knobWorld{T: t, places: startPlaces(t, "a", "b"), cluster: sdktest.NewCluster(t, "e1", "e2"), probed: startProbed(t), ring: &slowRing{let: make(chan struct{}, 100)}}
	for range cap(w.ring.let) {
		w.ring.let <- struct{}{}
	}
	for _, name := range []string{"h", "i"} {
		b, err := sdktest.StartBackend(name, sdktest.WithServices(w.probed.register))
		must(t, err)
		t.Cleanup(b.Close)
		w.places[name] = b
	}
	var err error
	w.other, err = sdktest.StartSharding()
	must(t, err)
	t.Cleanup(w.other.Close)
	for _, s := range []*sdktest.ShardingService{w.cluster.Sharding(), w.other} {
		s.AssignEven(testTarget, "e1", "e2")
		s.AssignEven("orders", "e1", "e2")
	}
	if k.prepare != nil {
		k.prepare(w)
	}
	w.file = newConfigFile(t, w.text(k.from))
	dialer := grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		w.dialled.Add(1)
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	})
	service := func(key string) sdk.Option {
		return sdk.WithShardingService(key, w.cluster.Sharding().Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	w.client = dialConfigured(t, w.file, sdk.WithResolvers(w.cluster.Resolver()), service("main"), service("backup"),
		sdk.WithSelector("bad", selection.Custom("bad", selectFunc(func(in selection.Input) int { return in.Len() }))),
		sdk.WithSelector("ring", selection.CustomBuilt("ring", w.ring, true)), sdk.WithGate(balancer.NewGate()),
		sdk.WithDialProfile("counted", sdk.WithDialOptions(dialer)))
	if k.run != nil {
		k.run(w)
	}
	if k.before != nil {
		eventually(t, "what holds before the reload", func() bool { return k.before(w) })
	}
	w.file.save(w.text(k.to))
	if k.refused {
		s := refusals(t, w.client, 1)
		if !strings.Contains(s.LastError.Error(), key.Path) || s.Applied != 1 {
			t.Errorf("the refusal says %v", s.LastError)
		}
		return
	}
	s := versions(t, w.client, 2)
	last := key.Path[strings.LastIndexAny(key.Path, ".")+1:]
	if !slices.ContainsFunc(s.Changed.Changes, func(c configsource.Change) bool {
		return strings.HasSuffix(c.Path, last) || strings.Contains(c.Old+c.New, last)
	}) {
		t.Errorf("the reload changed %v, want %s among that", s.Changed.Changes, key.Path)
	}
	eventually(t, "the effect of "+fmt.Sprint(s.Changed.Changes), func() bool { return k.after(w) })
}
