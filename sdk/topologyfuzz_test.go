package sdk_test

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// fuzzBytes are decoded to topologies; at their end everything is 0.
type fuzzBytes []byte

func (b *fuzzBytes) byte() byte {
	if len(*b) == 0 {
		return 0
	}
	v := (*b)[0]
	*b = (*b)[1:]
	return v
}

// upTo is a number below n, mostly a small one.
func (b *fuzzBytes) upTo(n int) int { return int(b.byte()) % n }

var (
	fuzzTargets = []string{
		"127.0.0.1:1", "127.0.0.1:2", "dns:///127.0.0.1:1", "x", "passthrough:///127.0.0.1:1", "y z",
		"unix:/nowhere", "dsn:///a:1", "dns://", "%zz", ":", "/", "//a", "a://b", "\xff", "",
	}
	fuzzNames     = []string{"a", "b", "c", "default", "read", "", "a\x00b", "\xff"}
	fuzzProfiles  = []string{"", "", "other", "nobody's"}
	fuzzDurations = []time.Duration{0, -1, time.Millisecond, time.Second, time.Hour, -1 << 63, 1<<63 - 1}
)

// pick takes one of the first few of list, now and then any of it.
func pick[T any](b *fuzzBytes, list []T, few int) T {
	if b.upTo(32) == 31 {
		few = len(list)
	}
	return list[b.upTo(few)]
}

// name is one of a list, or bytes as they come.
func (b *fuzzBytes) name(list []string, few int) string {
	if b.upTo(64) != 63 {
		return pick(b, list, few)
	}
	raw := make([]byte, b.upTo(20))
	for i := range raw {
		raw[i] = b.byte()
	}
	return string(raw)
}

func (b *fuzzBytes) duration() time.Duration { return pick(b, fuzzDurations, 6) }

func (b *fuzzBytes) topology() sdk.Topology {
	var t sdk.Topology
	names := []string{"a", "b", "c"}
	for i := range b.upTo(4) {
		c := sdk.TargetConfig{Name: names[i], URI: fuzzTargets[i], Profile: pick(b, fuzzProfiles, 3), MinReady: b.upTo(4) - 1}
		switch b.upTo(16) {
		case 14:
			c.Name = b.name(fuzzNames, 3)
		case 15:
			c.URI = b.name(fuzzTargets, 6)
		}
		if b.upTo(4) == 1 {
			c.ErrorRatio = &failover.RatioOptions{Threshold: float64(b.upTo(4)) / 3, MinFailures: b.upTo(4)}
			if b.upTo(16) == 15 {
				c.ErrorRatio.Window, c.ErrorRatio.Hold, c.ErrorRatio.Codes = b.duration(), b.duration(), []uint32{uint32(b.byte())}
			}
		}
		t.Targets = append(t.Targets, c)
	}
	for i := range 1 + b.upTo(4) {
		g := sdk.GroupConfig{Name: []string{"default", "read", "x", "y"}[i], Selector: pick(b, []string{"", "s"}, 2)}
		if b.upTo(16) == 15 {
			g.Name = b.name(fuzzNames, 3)
		}
		if b.upTo(2) == 1 {
			g.Failover = failover.Options{Recovery: b.duration(), MinUptime: b.duration(), InitialGrace: b.duration(), SwitchDelay: b.duration()}
		}
		// Each once, from anywhere on; now and then something else.
		var all []string
		for _, target := range t.Targets {
			all = append(all, target.Name)
		}
		all = append(all, fuzzTargets[3:5]...)
		from, n := b.upTo(len(all)), 1+b.upTo(3)
		for k := range min(n, len(all)) {
			g.Targets = append(g.Targets, all[(from+k)%len(all)])
		}
		switch b.upTo(32) {
		case 30:
			g.Targets = append(g.Targets, b.name(fuzzTargets, 6))
		case 31:
			g.Targets = nil
		}
		t.Groups = append(t.Groups, g)
	}
	if b.upTo(32) == 31 {
		t.Groups = nil
	}
	return t
}

// FuzzTopology: whatever a topology says, a running client applies it or changes
// nothing, and ValidateTopology knows before.
func FuzzTopology(f *testing.F) {
	f.Add([]byte{})
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 6))
		data := make([]byte, 20+r.IntN(150))
		for i := range data {
			data[i] = byte(r.Uint32())
			if r.IntN(3) > 0 {
				data[i] %= 8 // small numbers make good topologies
			}
		}
		f.Add(data)
	}
	start := sdk.Topology{
		Targets: []sdk.TargetConfig{{Name: "a", URI: "127.0.0.1:1"}, {Name: "b", URI: "127.0.0.1:2"}},
		Groups:  []sdk.GroupConfig{group("default", "a", "b"), group("read", "b", "127.0.0.1:3")},
	}
	// Names lead to an address where nobody is, without a question to anybody.
	nowhere := sdktest.NewResolver("dns")
	nowhere.SetEndpoints(sdktest.Endpoint("nobody", closedPort))
	f.Fuzz(func(t *testing.T, data []byte) {
		client, err := sdk.Dial("", plain, sdk.WithResolvers(nowhere), sdk.WithTopology(start), sdk.WithDialProfile("other"), sdk.WithDrainTimeout(0))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		rest := fuzzBytes(data)
		for round := 0; len(rest) > 0 && round < 4; round++ {
			before, pools := client.Topology(), namesOf(client.Status())
			next := rest.topology()
			dry := client.ValidateTopology(next)
			change, err := client.UpdateTopology(next)
			if (dry == nil) != (err == nil) || err != nil && dry.Error() != err.Error() {
				t.Fatalf("ValidateTopology: %v; UpdateTopology: %v", dry, err)
			}
			if err != nil {
				if !reflect.DeepEqual(client.Topology(), before) || !change.Empty() || namesOf(client.Status()) != pools {
					t.Fatalf("refused, and yet there is a change %+v: %+v, pools %s", change, client.Topology(), namesOf(client.Status()))
				}
				continue
			}
			applied(t, client, next)
		}
	})
}

// namesOf are the pools that groups list, as one string.
func namesOf(s sdk.Status) string {
	var all string
	for _, target := range s.Targets {
		if target.Leaving {
			continue
		}
		all += target.Name + "|" + target.URI + "|" + target.Profile + "\n"
	}
	return all
}

// applied checks that client is as top says.
func applied(t *testing.T, client *sdk.Client, top sdk.Topology) {
	t.Helper()
	if got := client.Topology(); !reflect.DeepEqual(got, top) {
		t.Fatalf("the topology in force is %+v, want %+v", got, top)
	}
	s := client.Status()
	pools := make(map[string]bool)
	for _, target := range s.Targets {
		if target.Leaving {
			continue
		}
		if pools[target.Name] {
			t.Errorf("two pools have the name %q", target.Name)
		}
		pools[target.Name] = true
	}
	if len(s.Groups) != len(top.Groups) {
		t.Fatalf("%d groups, want %d", len(s.Groups), len(top.Groups))
	}
	for i, g := range top.Groups {
		is := s.Groups[i]
		if is.Name != g.Name || len(is.Targets) != len(g.Targets) {
			t.Errorf("group %d is %q with %d targets, want %q with %d", i+1, is.Name, len(is.Targets), g.Name, len(g.Targets))
		}
		var names []string
		for _, target := range is.Targets {
			names = append(names, target.Name)
			if !pools[target.Name] {
				t.Errorf("group %q has a target %q without a pool", g.Name, target.Name)
			}
		}
		in := client.Group(g.Name)
		if in == nil {
			t.Fatalf("there is no group %q", g.Name)
		}
		if current := in.Current(); !slices.Contains(names, current) {
			t.Errorf("group %q is at %q, which is none of %q", g.Name, current, names)
		}
		last := names[len(names)-1]
		if err := in.Pin(last, time.Hour); err != nil || in.Current() != last {
			t.Errorf("group %q pinned to %q is at %q: %v", g.Name, last, in.Current(), err)
		}
		if err := in.Unpin(); err != nil {
			t.Error(err)
		}
	}
	// An RPC finds its way, though nobody is there.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := in(ctx, client, top.Groups[0].Name); err == nil {
		t.Error("an RPC succeeded")
	}
}
