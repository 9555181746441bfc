package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// dialerThat dials as gRPC does, and tells before.
func dialerThat(tell func(address string)) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		tell(address)
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
}

// held are resources, for what must not grow.
type held struct {
	goroutines, descriptors int
	connections             map[string]sdktest.Connections
}

// settled counts what p's servers and this process hold, once it stands still.
func (p places) settled(t *testing.T) held {
	t.Helper()
	h := held{goroutines: settledGoroutines(t), descriptors: descriptors(), connections: make(map[string]sdktest.Connections)}
	for name, b := range p {
		h.connections[name] = b.Connections()
	}
	return h
}

// back waits until no more is held than before.
func (p places) back(t *testing.T, before held) {
	t.Helper()
	eventually(t, "goroutines and descriptors at the baseline", func() bool {
		return runtime.NumGoroutine() <= before.goroutines && descriptors() <= before.descriptors
	})
}

// G-12: members are matched by name, pools of before are not touched, and calls that
// begin after the update go by it.
func TestG12RunTimeUpdate(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b", "c")
	client := dialGroups(t, p.topology(group("x", "a"), group("y", "b")))
	goesTo(t, client, "x", "a")
	goesTo(t, client, "y", "b")
	for i := range 100 {
		update(t, client, p.topology(group("x", "b", "a"), group("y", "a")))
		goesTo(t, client, "y", "a")
		update(t, client, p.topology(group("y", "b"), group("x", "a")))
		goesTo(t, client, "x", "a")
		goesTo(t, client, "y", "b")
		if i%10 == 0 {
			goesTo(t, client, "", "b") // the default group
		}
	}
	connectionsTo(t, p["a"], 1, 1)
	connectionsTo(t, p["b"], 1, 1)
	connectionsTo(t, p["c"], 0, 0)

	// A group that comes, and one that goes.
	update(t, client, p.topology(group("y", "b"), group("z", "c")))
	goesTo(t, client, "z", "c")
	goesTo(t, client, "x", "b") // not declared any more: the default group's
	if client.Group("x") != nil || client.Group("z").Current() != "c" || client.Status().UnknownGroups == 0 {
		t.Errorf("group x: %v, z: %v, %d RPCs of unknown groups", client.Group("x"), client.Group("z"), client.Status().UnknownGroups)
	}
}

// groupsOf is what Status says of groups and pools, without counts of RPCs.
func groupsOf(client *sdk.Client) string {
	s := client.Status()
	var b strings.Builder
	for _, g := range s.Groups {
		fmt.Fprintf(&b, "group %q: %q since %v, %v", g.Name, g.Current, g.Since, g.Reason)
		for _, t := range g.Targets {
			fmt.Fprintf(&b, "; %q %v since %v", t.Name, t.State, t.Since)
		}
		b.WriteByte('\n')
	}
	for _, t := range s.Targets {
		fmt.Fprintf(&b, "target %q: %q %q %v, leaving %v\n", t.Name, t.URI, t.Profile, t.State, t.Leaving)
	}
	return b.String()
}

// badTopologies are updates of a good topology that are refused, with words of the
// error.
func badTopologies(good sdk.Topology) map[string]func() (sdk.Topology, []string) {
	change := func(f func(*sdk.Topology), words ...string) func() (sdk.Topology, []string) {
		return func() (sdk.Topology, []string) {
			next := sdk.Topology{Targets: slices.Clone(good.Targets), Groups: slices.Clone(good.Groups)}
			f(&next)
			return next, words
		}
	}
	fresh := sdk.TargetConfig{Name: "new", URI: "dns:///" + closedPort}
	return map[string]func() (sdk.Topology, []string){
		"no group": change(func(t *sdk.Topology) { t.Groups = nil }, "no group"),
		"a group without targets, beside a new target": change(func(t *sdk.Topology) {
			t.Targets = append(t.Targets, fresh)
			t.Groups = append(t.Groups, group("new", "new"), group("empty"))
		}, `"empty"`, "no target"),
		"an unknown profile": change(func(t *sdk.Topology) {
			fresh := fresh
			fresh.Profile = "nobody's"
			t.Targets = append(t.Targets, fresh)
		}, `"nobody's"`),
		"two targets of one name": change(func(t *sdk.Topology) {
			t.Targets = append(t.Targets, t.Targets[0])
		}, "twice"),
		"two targets of one place": change(func(t *sdk.Topology) {
			t.Targets = append(t.Targets, sdk.TargetConfig{Name: "other", URI: t.Targets[0].URI})
		}, `"other"`, "same URI"),
		"a target twice in a group": change(func(t *sdk.Topology) {
			t.Groups = append(t.Groups, group("double", t.Targets[0].Name, t.Targets[0].URI))
		}, `"double"`, "twice"),
		"a target without a name": change(func(t *sdk.Topology) { t.Targets = append(t.Targets, sdk.TargetConfig{URI: "a:1"}) }, "no name"),
		"a target without a URI":  change(func(t *sdk.Topology) { t.Targets = append(t.Targets, sdk.TargetConfig{Name: "nowhere"}) }, `"nowhere"`),
		"no such scheme": change(func(t *sdk.Topology) {
			t.Groups = append(t.Groups, group("new", "dsn:///a:1"))
		}, `"new"`, "dsn"),
		"two groups of one name":       change(func(t *sdk.Topology) { t.Groups = append(t.Groups, t.Groups[0]) }, "twice"),
		"a group without a name":       change(func(t *sdk.Topology) { t.Groups = append(t.Groups, group("", t.Targets[0].Name)) }, "no name"),
		"the group that a method has":  change(func(t *sdk.Topology) { t.Groups = t.Groups[:1] }, "WithGroupsByMethod", `"read"`, sdktest.EchoWatch),
		"a timing that is not allowed": change(func(t *sdk.Topology) { t.Groups[0].Failover.Recovery = 48 * time.Hour }, "Recovery", "48h"),
		"an error ratio that is not allowed": change(func(t *sdk.Topology) {
			t.Targets[0].ErrorRatio = &failover.RatioOptions{Threshold: 2}
		}, "ErrorRatio", "Threshold"),
	}
}

// G-13: a bad update changes nothing and leaks nothing, and says all that is wrong.
// Not parallel: it counts what is held.
func TestG13BadUpdates(t *testing.T) {
	p := startPlaces(t, "a", "b")
	good := p.topology(group("default", "a", "b"), group("read", "b", "a"))
	client := dialGroups(t, good, sdk.WithGroupsByMethod(map[string]string{sdktest.EchoWatch: "read", "*": "default"}))
	goesTo(t, client, "", "a")
	goesTo(t, client, "read", "b")
	before := p.settled(t)
	status := groupsOf(client)
	for name, bad := range badTopologies(good) {
		t.Run(name, func(t *testing.T) {
			next, words := bad()
			dry := client.ValidateTopology(next)
			change, err := client.UpdateTopology(next)
			if err == nil || dry == nil || err.Error() != dry.Error() || !change.Empty() {
				t.Fatalf("UpdateTopology: %v, %+v; ValidateTopology: %v", err, change, dry)
			}
			for _, word := range append(words, "nothing changed") {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error does not say %s: %v", word, err)
				}
			}
			if !reflect.DeepEqual(client.Topology(), good) {
				t.Errorf("the topology is %+v", client.Topology())
			}
			goesTo(t, client, "", "a")
			goesTo(t, client, "read", "b")
		})
	}
	if _, err := client.UpdateTopology(sdk.Topology{
		Targets: []sdk.TargetConfig{{Name: "x", URI: "", Profile: "p"}, {URI: "a:1"}},
		Groups:  []sdk.GroupConfig{{Targets: []string{"y z"}}},
	}); err == nil || strings.Count(err.Error(), "\n") < 4 {
		t.Errorf("not all that is wrong: %v", err)
	}
	if got := groupsOf(client); got != status {
		t.Errorf("Status was\n%s\nand is\n%s", status, got)
	}
	p.back(t, before)
	for name, b := range p {
		if b.Connections() != before.connections[name] {
			t.Errorf("%q has connections %+v, had %+v", name, b.Connections(), before.connections[name])
		}
	}
}

// G-13: ValidateTopology is a dry run. Not parallel: it counts what is held.
func TestG13ValidateIsADryRun(t *testing.T) {
	p := startPlaces(t, "a", "b", "c")
	good := p.topology(group("default", "a", "b"), group("standby", "b", "a"))
	client := dialGroups(t, good)
	goesTo(t, client, "", "a")
	goesTo(t, client, "standby", "b")
	before := p.settled(t)
	for range 100 {
		if err := client.ValidateTopology(p.topology(group("default", "c"), group("new", "b", "c", "dns:///"+closedPort))); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(client.Topology(), good) || len(client.Status().Targets) != 2 {
		t.Errorf("a dry run changed the topology: %+v", client.Topology())
	}
	p.back(t, before)
	connectionsTo(t, p["c"], 0, 0)
	goesTo(t, client, "", "a")
}

// The change that UpdateTopology reports, for every kind.
func TestTopologyChange(t *testing.T) {
	t.Parallel()
	start := func() sdk.Topology {
		return sdk.Topology{
			Targets: []sdk.TargetConfig{{Name: "a", URI: "127.0.0.1:1"}, {Name: "b", URI: "127.0.0.1:2"}, {Name: "unused", URI: "127.0.0.1:3"}},
			Groups:  []sdk.GroupConfig{group("x", "a", "b"), group("y", "b")},
		}
	}
	type change = sdk.Change
	names := func(list ...string) []string { return list }
	for _, c := range []struct {
		name            string
		edit            func(*sdk.Topology)
		targets, groups change
	}{
		{"nothing", func(*sdk.Topology) {}, change{}, change{}},
		{"targets declared in another order", func(t *sdk.Topology) { slices.Reverse(t.Targets) }, change{}, change{}},
		{"a target that no group lists", func(t *sdk.Topology) { t.Targets = t.Targets[:2] }, change{}, change{}},
		{
			"a target joins",
			func(t *sdk.Topology) { t.Groups[1].Targets = names("b", "unused") },
			change{Added: names("unused")},
			change{Changed: names("y")},
		},
		{
			"a dial target joins",
			func(t *sdk.Topology) { t.Groups[1].Targets = names("b", "127.0.0.1:4") },
			change{Added: names("127.0.0.1:4")},
			change{Changed: names("y")},
		},
		{
			"a target leaves all groups",
			func(t *sdk.Topology) { t.Groups[0].Targets = names("b") },
			change{Removed: names("a")},
			change{Changed: names("x")},
		},
		{
			"a target leaves one group",
			func(t *sdk.Topology) { t.Groups[0].Targets = names("a") },
			change{},
			change{Changed: names("x")},
		},
		{
			"another order in a group",
			func(t *sdk.Topology) { t.Groups[0].Targets = names("b", "a") },
			change{},
			change{Changed: names("x")},
		},
		{
			"another URI",
			func(t *sdk.Topology) { t.Targets[0].URI = "127.0.0.1:9" },
			change{Added: names("a"), Removed: names("a")},
			change{},
		},
		{
			"another spelling of the URI",
			func(t *sdk.Topology) { t.Targets[0].URI = "dns:///127.0.0.1:1" },
			change{Changed: names("a")},
			change{},
		},
		{
			"another profile",
			func(t *sdk.Topology) { t.Targets[0].Profile = "p" },
			change{Added: names("a"), Removed: names("a")},
			change{},
		},
		{
			"another name",
			func(t *sdk.Topology) { t.Targets[0].Name, t.Groups[0].Targets = "z", names("z", "b") },
			change{Added: names("z"), Removed: names("a")},
			change{Changed: names("x")},
		},
		{"min ready", func(t *sdk.Topology) { t.Targets[1].MinReady = 2 }, change{Changed: names("b")}, change{}},
		{
			"an error ratio",
			func(t *sdk.Topology) { t.Targets[1].ErrorRatio = &failover.RatioOptions{Threshold: .5} },
			change{Changed: names("b")},
			change{},
		},
		{
			"a group comes",
			func(t *sdk.Topology) { t.Groups = append(t.Groups, group("z", "a")) },
			change{},
			change{Added: names("z")},
		},
		{
			"a group goes, and its target",
			func(t *sdk.Topology) { t.Groups = t.Groups[1:] },
			change{Removed: names("a")},
			change{Removed: names("x"), Changed: names("y")}, // y is the default one now
		},
		{
			"a group of another name",
			func(t *sdk.Topology) { t.Groups[1].Name = "z" },
			change{},
			change{Added: names("z"), Removed: names("y")},
		},
		{
			"another default group",
			func(t *sdk.Topology) { slices.Reverse(t.Groups) },
			change{},
			change{Changed: names("y")},
		},
		{
			"a new default group",
			func(t *sdk.Topology) { t.Groups = slices.Insert(t.Groups, 0, group("z", "a")) },
			change{},
			change{Added: names("z")},
		},
		{"a timing", func(t *sdk.Topology) { t.Groups[0].Failover.Recovery = time.Second }, change{}, change{Changed: names("x")}},
		{"another selector", func(t *sdk.Topology) { t.Groups[0].Selector = "s" }, change{}, change{Changed: names("x")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			next := start()
			next.Groups[0].Targets = slices.Clone(next.Groups[0].Targets)
			c.edit(&next)
			client := dialGroups(t, start(), sdk.WithDialProfile("p"), sdk.WithSelector("s", selection.RoundRobin()))
			got := update(t, client, next)
			if want := (sdk.TopologyChange{Targets: c.targets, Groups: c.groups}); !reflect.DeepEqual(got, want) {
				t.Errorf("there:  %+v, want %+v", got, want)
			}
			if nothing := reflect.DeepEqual(got, sdk.TopologyChange{}); got.Empty() != nothing {
				t.Errorf("Empty is %v of %+v", got.Empty(), got)
			}
			if !reflect.DeepEqual(client.Topology(), next) {
				t.Errorf("the topology in force is %+v, want %+v", client.Topology(), next)
			}
			back := update(t, client, start())
			if len(got.Targets.Added) != len(back.Targets.Removed) || len(got.Targets.Removed) != len(back.Targets.Added) ||
				len(got.Groups.Added) != len(back.Groups.Removed) || len(got.Groups.Removed) != len(back.Groups.Added) ||
				got.Empty() != back.Empty() {
				t.Errorf("there: %+v, back: %+v", got, back)
			}
		})
	}
}

// ME-08: a value that is all that an update alters is in force at once.
func TestME08AlteredSettings(t *testing.T) {
	t.Parallel()
	none, long := time.Duration(-1), time.Hour
	start := func(t *testing.T, o failover.Options, opts ...sdk.Option) (places, sdk.Topology, *sdk.Client) {
		t.Helper()
		p := startPlaces(t, "a", "b")
		top := p.topology(sdk.GroupConfig{Name: "default", Targets: []string{"a", "b"}, Failover: o})
		client := dialGroups(t, top, opts...)
		goesTo(t, client, "", "a")
		return p, top, client
	}
	stateIs := func(t *testing.T, client *sdk.Client, target int, want failover.State) {
		t.Helper()
		eventually(t, fmt.Sprintf("target %d to be %v", target+1, want), func() bool {
			return client.Status().Groups[0].Targets[target].State == want
		})
	}
	becomes := func(t *testing.T, client *sdk.Client, want string) {
		t.Helper()
		eventually(t, "the current target to be "+want, func() bool { return client.Group("").Current() == want })
	}
	currentIs := func(t *testing.T, client *sdk.Client, want string) {
		t.Helper()
		if got := client.Group("").Current(); got != want {
			t.Errorf("the current target is %q, want %q", got, want)
		}
	}
	alter := func(t *testing.T, client *sdk.Client, top sdk.Topology, edit func(*failover.Options)) {
		t.Helper()
		top.Groups = slices.Clone(top.Groups)
		edit(&top.Groups[0].Failover)
		if change := update(t, client, top); fmt.Sprint(change.Groups.Changed) != "[default]" || len(change.Targets.Changed) > 0 {
			t.Errorf("the change is %+v", change)
		}
		if got := client.Topology().Groups[0].Failover; got != top.Groups[0].Failover {
			t.Errorf("the timings in force are %+v", got)
		}
	}

	t.Run("recovery", func(t *testing.T) {
		t.Parallel()
		p, top, client := start(t, failover.Options{Recovery: long, MinUptime: none, InitialGrace: none})
		p["a"].Kill()
		_, _ = in(within(t, time.Second), client, "") // has it connect
		stateIs(t, client, 0, failover.Recovering)
		currentIs(t, client, "a")
		alter(t, client, top, func(o *failover.Options) { o.Recovery = none })
		currentIs(t, client, "b")
		goesTo(t, client, "", "b")
		connectionsTo(t, p["b"], 1, 1)
	})
	t.Run("initial grace", func(t *testing.T) {
		t.Parallel()
		p := startPlaces(t, "a", "b")
		p["a"].Kill()
		top := p.topology(sdk.GroupConfig{Name: "default", Targets: []string{"a", "b"}, Failover: failover.Options{InitialGrace: long}})
		client := dialGroups(t, top)
		_, _ = in(within(t, time.Second), client, "") // has it connect
		stateIs(t, client, 0, failover.Recovering)
		currentIs(t, client, "a")
		alter(t, client, top, func(o *failover.Options) { o.InitialGrace = none })
		becomes(t, client, "b") // once it is up: it has no grace either
	})
	t.Run("switching delay", func(t *testing.T) {
		t.Parallel()
		p, top, client := start(t, failover.Options{Recovery: none, MinUptime: none, InitialGrace: none, SwitchDelay: long})
		p["a"].Kill()
		eventually(t, "the switch", func() bool { return client.Group("").Current() == "b" })
		if err := p["a"].Restart(); err != nil {
			t.Fatal(err)
		}
		stateIs(t, client, 0, failover.Ready)
		currentIs(t, client, "b")
		alter(t, client, top, func(o *failover.Options) { o.SwitchDelay = none })
		currentIs(t, client, "a")
	})
	t.Run("minimum uptime", func(t *testing.T) {
		t.Parallel()
		p, top, client := start(t, failover.Options{Recovery: none, MinUptime: long, InitialGrace: none})
		p["a"].Kill()
		eventually(t, "the switch", func() bool { return client.Group("").Current() == "b" })
		if err := p["a"].Restart(); err != nil {
			t.Fatal(err)
		}
		stateIs(t, client, 0, failover.Ready)
		currentIs(t, client, "b")
		alter(t, client, top, func(o *failover.Options) { o.MinUptime = none })
		currentIs(t, client, "a")
	})
	t.Run("profile", func(t *testing.T) {
		t.Parallel()
		p, top, client := start(t, atOnce, sdk.WithDialProfile("other", sdk.WithDialOptions(grpc.WithUserAgent("other"))))
		calls := holdCalls(t, client, "", p["a"], 3)
		top.Targets[0].Profile = "other"
		change := update(t, client, top)
		if fmt.Sprint(change.Targets.Added, change.Targets.Removed) != "[a] [a]" {
			t.Errorf("the change is %+v", change)
		}
		p["a"].Release()
		calls.finish(t, codes.OK) // over the connection of before
		p["a"].Forget()
		goesTo(t, client, "", "a")
		if got := strings.Join(p["a"].Keys("user-agent"), ", "); !strings.HasPrefix(got, "other ") {
			t.Errorf("the user agent is %q, not that of the new profile", got)
		}
		if err := p["a"].WaitLive(within(t, 10*time.Second), 1); err != nil {
			t.Error(err)
		}
		connectionsTo(t, p["a"], 2, 1)
	})
	t.Run("error ratio", func(t *testing.T) {
		t.Parallel()
		p, top, client := start(t, atOnce)
		fail := func(n int) {
			t.Helper()
			p["a"].FailNext(n, codes.Unavailable)
			for range n {
				if got, err := in(within(t, 10*time.Second), client, ""); err == nil {
					t.Fatalf("an RPC that should fail reached %q", got)
				}
			}
		}
		ratio := func(o *failover.RatioOptions) {
			t.Helper()
			top.Targets = slices.Clone(top.Targets)
			top.Targets[0].ErrorRatio = o
			if change := update(t, client, top); fmt.Sprint(change.Targets.Changed) != "[a]" || len(change.Groups.Changed) > 0 {
				t.Errorf("the change is %+v", change)
			}
		}
		if s := poolOf(client, "a").ErrorRatio; s != nil {
			t.Errorf("RPCs are judged though nobody asked for that: %+v", s)
		}
		fail(5)
		ratio(&failover.RatioOptions{})
		goesTo(t, client, "", "a")
		fail(5)
		currentIs(t, client, "a") // one RPC of 6 did not fail
		if s := poolOf(client, "a").ErrorRatio; s == nil || s.Failures != 5 || s.Calls != 6 {
			t.Errorf("the error ratio is %+v", s)
		}
		ratio(&failover.RatioOptions{Threshold: .5, MinFailures: 6})
		currentIs(t, client, "a")
		ratio(&failover.RatioOptions{Threshold: .5})
		currentIs(t, client, "b") // for what was counted before
		ratio(nil)
		becomes(t, client, "a") // once it is known to be up, which RPCs may know before
	})
}

// A topology's groups in another order: calls that name none go to the first one
// from the next call on, and streams stay.
func TestDefaultGroupChanges(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	client := dialGroups(t, p.topology(group("x", "a"), group("y", "b")))
	stream, err := sdktest.NewEcho(client).Talk(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	ask(t, stream, "a")
	update(t, client, p.topology(group("y", "b"), group("x", "a")))
	goesTo(t, client, "", "b")
	if got := client.Group("").Name(); got != "y" {
		t.Errorf("the default group is %q", got)
	}
	if s := client.Status(); s.Groups[0].Name != "y" || s.Target != "b" && s.Target != poolOf(client, "b").Router.Target {
		t.Errorf("Status has the default group %q with the target %q", s.Groups[0].Name, s.Target)
	}
	ask(t, stream, "a")
	connectionsTo(t, p["a"], 1, 1)
}

// G-11, G-12: a group's targets in another order, and the best one first.
func TestG12Reordered(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b", "c")
	client := dialGroups(t, p.topology(group("default", "a", "b", "c"), group("b", "b"), group("c", "c")))
	goesTo(t, client, "", "a")
	goesTo(t, client, "b", "b")
	goesTo(t, client, "c", "c")
	eventually(t, "all to be up", func() bool {
		return !slices.ContainsFunc(client.Status().Groups[0].Targets, func(s failover.TargetState) bool { return s.State != failover.Ready })
	})
	for _, order := range [][]string{{"b", "a", "c"}, {"c", "b", "a"}, {"a", "c", "b"}, {"a", "b", "c"}} {
		update(t, client, p.topology(group("default", order...)))
		goesTo(t, client, "", order[0])
		var listed []string
		for _, s := range client.Status().Groups[0].Targets {
			listed = append(listed, s.Name)
		}
		if !slices.Equal(listed, order) {
			t.Errorf("Status lists %v, want %v", listed, order)
		}
	}
	if s := client.Status().Groups[0]; s.Switches[failover.Reordered] != 3 || len(s.Switches) != 1 {
		t.Errorf("switches %v, want 3 for the order", s.Switches)
	}
	for _, b := range p {
		connectionsTo(t, b, 1, 1)
	}
}

// A client that was dialled with a single target gets groups later.
func TestUpdateOfASingleTarget(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	client, err := sdk.Dial("dns:///"+p["a"].Addr(), plain, quickReconnect, sdk.WithSelector(sdk.DefaultSelector, selection.RoundRobin()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	goesTo(t, client, "", "a")
	next := client.Topology()
	if len(next.Groups) != 1 || next.Groups[0].Name != sdk.DefaultGroup || len(next.Groups[0].Targets) != 1 {
		t.Fatalf("the topology is %+v", next)
	}
	next.Groups[0].Targets = append(next.Groups[0].Targets, "dns:///"+p["b"].Addr())
	next.Groups[0].Failover = atOnce
	next.Groups = append(next.Groups, group("b", next.Groups[0].Targets[1]))
	change := update(t, client, next)
	if len(change.Targets.Added) != 1 || len(change.Targets.Removed) > 0 || fmt.Sprint(change.Groups.Changed, change.Groups.Added) != "[default] [b]" {
		t.Errorf("the change is %+v", change)
	}
	goesTo(t, client, "", "a")
	goesTo(t, client, "b", "b")
	p["a"].Kill()
	eventually(t, "failover", func() bool {
		got, err := in(within(t, time.Second), client, "")
		return err == nil && got == "b"
	})
	connectionsTo(t, p["a"], 1, 0)
	connectionsTo(t, p["b"], 1, 1)
}

// LL-02: after Close an update is ErrClosed and opens nothing.
func TestLL02UpdateAfterClose(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	client := dialGroups(t, p.topology(group("default", "a")))
	goesTo(t, client, "", "a")
	g := client.Group("")
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		change, err := client.UpdateTopology(p.topology(group("default", "b", "a")))
		if !errors.Is(err, sdk.ErrClosed) || !change.Empty() {
			t.Errorf("UpdateTopology: %v, %+v", err, change)
		}
		if err := client.SetTargetEnabled("a", false, "drill"); !errors.Is(err, sdk.ErrClosed) {
			t.Errorf("SetTargetEnabled: %v", err)
		}
		if err := g.Pin("a", time.Minute); !errors.Is(err, sdk.ErrClosed) {
			t.Errorf("Pin: %v", err)
		}
	}
	if got := client.Topology(); len(got.Groups[0].Targets) != 1 {
		t.Errorf("the topology is %+v", got)
	}
	if s := client.Status(); len(s.Targets) != 1 {
		t.Errorf("Status has %d pools", len(s.Targets))
	}
	if err := p["a"].WaitLive(within(t, 10*time.Second), 0); err != nil {
		t.Error(err)
	}
	connectionsTo(t, p["a"], 1, 0)
	connectionsTo(t, p["b"], 0, 0)
}

// LL-07: a topology belongs to the caller again once it was given, and so does one
// that was asked for.
func TestLL07TopologyIsCopied(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	build := func() sdk.Topology {
		top := p.topology(group("default", "a"), group("other", "b", "a"))
		top.Targets[0].ErrorRatio = &failover.RatioOptions{Codes: []uint32{14}}
		return top
	}
	spoil := func(top sdk.Topology) {
		top.Targets[0].ErrorRatio.Codes[0] = 5
		top.Targets[0].ErrorRatio.Threshold = .1
		top.Targets[0].URI, top.Targets[1].Name = "dns:///"+closedPort, "spoilt"
		top.Groups[1].Targets[0], top.Groups[0].Name = "spoilt", "spoilt"
	}
	given := build()
	option := sdk.WithTopology(given)
	names := []string{p["a"].Addr()}
	grouped := sdk.WithGroup("default", names...)
	names[0] = closedPort
	spoil(given)
	for range 2 { // the option is used twice
		client := dialGroups(t, sdk.Topology{}, option)
		same := func() {
			t.Helper()
			if got := client.Topology(); !reflect.DeepEqual(got, build()) {
				t.Errorf("the topology is %+v", got)
			}
			goesTo(t, client, "", "a")
			goesTo(t, client, "other", "b")
		}
		same()
		spoil(client.Topology())
		same()
		next := build()
		if change := update(t, client, next); !change.Empty() {
			t.Errorf("the change is %+v", change)
		}
		if !reflect.DeepEqual(next, build()) {
			t.Errorf("the caller's topology became %+v", next)
		}
		spoil(next)
		same()
	}
	client, err := sdk.Dial("", plain, grouped)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	goesTo(t, client, "", "a")
}
