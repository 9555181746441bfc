package sdk_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/configsource"
	"github.com/slicewire/slicewire/sdk"
)

// randomConfig changes what may change while RPCs run and none may fail: all but the
// group z and its target d.
func (p places) randomConfig(r *rand.Rand) configsource.Config {
	d := func(most int) *time.Duration { return new(time.Duration(1+r.IntN(most)) * time.Millisecond) }
	maybe := func() bool { return r.IntN(2) == 0 }
	c := configsource.Config{InCode: &configsource.InCode{Profiles: []string{"other"}}}
	var names []string
	for _, t := range p.topology().Targets {
		own := configsource.Target{Name: t.Name, URI: t.URI}
		if t.Name != "d" {
			names = append(names, t.Name)
			if maybe() {
				own.Profile = new("other")
			}
			if maybe() {
				own.MinReady = new(r.IntN(2))
			}
			if maybe() {
				own.ErrorRatio = &configsource.ErrorRatio{Window: new(time.Duration(1+r.IntN(5)) * time.Second)}
			}
		}
		c.Targets = append(c.Targets, own)
	}
	groups := []string{"default", "x", "y"}
	r.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	for _, name := range groups[:1+r.IntN(len(groups))] {
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		g := configsource.Group{Name: name, Targets: append([]string(nil), names[:1+r.IntN(len(names))]...)}
		if maybe() {
			g.Recovery, g.SwitchDelay, g.MinUptime = d(10), d(10), d(10)
		}
		c.Groups = append(c.Groups, g)
	}
	c.Groups = append(c.Groups, configsource.Group{Name: "z", Targets: []string{"d"}})
	kinds := []string{"p2c", "random", "round_robin", "least_pending", "ketama", "weighted"}
	for _, name := range []string{"default", "one", "two"} {
		if maybe() {
			c.Selectors = append(c.Selectors, configsource.Selector{Name: name, Policy: configsource.Policy{Kind: kinds[r.IntN(len(kinds))]}})
		}
	}
	if n := len(c.Selectors); n > 0 {
		c.SelectorsByMethod = []configsource.MethodSelector{{Pattern: "*", Selector: c.Selectors[r.IntN(n)].Name}}
	}
	if maybe() {
		c.Breaker = &configsource.Breaker{MinThroughput: new(1 + r.IntN(3))}
	}
	if maybe() {
		c.Health = &configsource.Health{Checker: configsource.Checker{Kind: "grpc"}, Schedule: configsource.Schedule{FailAfter: new(1 + r.IntN(2))}}
	}
	if maybe() {
		c.Monitor = &configsource.Monitor{Schedule: configsource.Schedule{FailAfter: new(1 + r.IntN(2))}}
	}
	c.Connections = &configsource.Connections{Streams: new(50 + r.IntN(3))}
	c.Client.RetireTimeout = d(1000)
	c.Client.Keys = new([]string{"required", "optional"}[r.IntN(2)])
	return c
}

// TestReloadStorm: 200 versions of a configuration a second, for 10 s under the race
// detector, beside 8 callers. No RPC fails, the target that no version changes keeps
// its one connection, the last version is in force in the end, and nothing is left. Not
// parallel: it counts what is held.
func TestReloadStorm(t *testing.T) {
	duration := 3 * time.Second
	switch {
	case testing.Short():
		duration = 300 * time.Millisecond
	case raceDetector:
		duration = 10 * time.Second
	}
	p := startPlaces(t, "a", "b", "c", "d")
	last := configsource.Config{}
	for _, target := range p.topology().Targets {
		last.Targets = append(last.Targets, configsource.Target{Name: target.Name, URI: target.URI})
	}
	for i, name := range stormNames {
		last.Groups = append(last.Groups, configsource.Group{Name: name, Targets: []string{string(rune('a' + i))}})
	}
	last.InCode = &configsource.InCode{Profiles: []string{"other"}}
	var now atomic.Pointer[configsource.Config]
	now.Store(&last)
	changed := make(chan struct{})
	src := configsource.Func("the storm", func(context.Context) (configsource.Config, error) { return *now.Load(), nil },
		configsource.FuncOptions{Changed: changed})
	client, err := sdk.Dial("", sdk.WithTransportCredentials(insecure.NewCredentials()), quickReconnect,
		sdk.WithDialProfile("other", sdk.WithDialOptions(grpc.WithUserAgent("other"))), sdk.WithConfigSource(src))
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	settle := func() held {
		t.Helper()
		for i, server := range []string{"a", "b", "c", "d"} {
			goesTo(t, client, stormNames[i], server)
			must(t, p[server].WaitLive(within(t, 10*time.Second), 1))
		}
		return p.settled(t)
	}
	before := settle()
	heap := heapInUse()
	reload := func(c configsource.Config) {
		now.Store(&c)
		select {
		case changed <- struct{}{}:
		case <-time.After(10 * time.Second):
			t.Fatal("nobody follows the configuration")
		}
	}

	s := startStorm(client, 8, func(err error) bool { return err == nil })
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	reloads := 0
	for began := time.Now(); time.Since(began) < duration; reloads++ {
		<-tick.C
		reload(p.randomConfig(random))
	}
	reload(last)
	eventually(t, "the last version", func() bool {
		top := client.Topology()
		return len(top.Groups) == len(stormNames) && fmt.Sprint(top.Groups[1].Targets) == "[b]" && len(client.Status().Selectors) == 1
	})
	s.end(t)
	status := client.Status().Configuration
	t.Logf("%d versions in %v, %d applied, %d RPCs (seed %d)", reloads, duration, status.Applied, s.calls.Load(), seed)
	if status.Refused != 0 || status.LastError != nil {
		t.Errorf("%d versions were refused, the last for %v", status.Refused, status.LastError)
	}
	if status.Applied < uint64(reloads)/4 {
		t.Errorf("%d versions were applied of %d", status.Applied, reloads)
	}
	if n := p["d"].Connections().Accepted; n != 1 {
		t.Errorf("the target that no version changes had %d connections, want 1", n)
	}
	eventually(t, "pools that left to be gone", func() bool { return len(client.Status().Targets) == 4 })
	settle()
	p.back(t, before)
	for _, b := range p {
		b.Forget() // what it remembers of calls
	}
	if more := heapInUse() - heap; more > 8<<20 {
		t.Errorf("%d versions left %d KiB on the heap", reloads, more>>10)
	}
}
