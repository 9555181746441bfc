package sdk_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// faulty is what Dial must refuse: options of a client with groups, and words of the
// error, which say what is wrong, where, and what is allowed.
type faulty struct {
	options []sdk.Option
	words   []string
}

func faultyOptions() map[string]faulty {
	top := func(targets []sdk.TargetConfig, groups ...sdk.GroupConfig) sdk.Option {
		return sdk.WithTopology(sdk.Topology{Targets: targets, Groups: groups})
	}
	a := []sdk.TargetConfig{{Name: "a", URI: "dns:///a:1"}}
	of := func(c sdk.TargetConfig) []sdk.TargetConfig { return append(slices.Clone(a), c) }
	good := sdk.WithGroup("default", "dns:///a:1")
	ratio := func(o failover.RatioOptions) sdk.Option {
		return top([]sdk.TargetConfig{{Name: "a", URI: "dns:///a:1", ErrorRatio: &o}}, group("default", "a"))
	}
	timing := func(o failover.Options) sdk.Option { return top(a, timed(o, "slow", "a")) }
	one := func(o sdk.Option, words ...string) faulty { return faulty{[]sdk.Option{o}, words} }
	and := func(o sdk.Option, words ...string) faulty { return faulty{[]sdk.Option{good, o}, words} }
	return map[string]faulty{
		"no group":                {[]sdk.Option{top(a)}, []string{"no group"}},
		"group without a name":    one(top(a, group("", "a")), "group 1 has no name"),
		"second without a name":   one(top(a, group("default", "a"), group("", "a")), "group 2 has no name"),
		"group declared twice":    one(top(a, group("read", "a"), group("read", "a")), `group "read" is declared twice`),
		"WithGroup twice":         {[]sdk.Option{sdk.WithGroup("read", "a:1"), sdk.WithGroup("read", "b:1")}, []string{`group "read" is declared twice`}},
		"group without targets":   one(top(a, group("read")), `group "read" lists no target`, "at least one"),
		"WithGroup, no targets":   one(sdk.WithGroup("read"), `group "read" lists no target`, "at least one"),
		"target twice":            one(top(a, group("read", "a", "a")), `group "read" lists "a" twice`),
		"target and its URI":      one(top(a, group("read", "a", "a:1")), `group "read" lists "a" twice`),
		"two spellings":           one(sdk.WithGroup("read", "a:1", "dns:///a:1"), `group "read"`, "twice"),
		"undeclared target":       one(top(a, group("read", "b")), `group "read" lists "b"`, "no declared target", `declared are ["a"]`, "dns:///b"),
		"empty target":            one(sdk.WithGroup("read", ""), `group "read" lists ""`, "empty"),
		"unknown scheme":          one(top(a, group("read", "consul://x/y")), `group "read" lists "consul://x/y"`, `scheme "consul"`, "sdk.WithResolvers"),
		"two slashes":             one(sdk.WithGroup("read", "dns://x:1"), `group "read"`, "did you mean dns:///x:1?"),
		"target without a name":   one(top(of(sdk.TargetConfig{URI: "b:1"}), group("read", "a")), "target 2 has no name"),
		"target without a URI":    one(top(of(sdk.TargetConfig{Name: "b"}), group("read", "a")), `target "b"`, "empty", "dns:///host:port"),
		"target declared twice":   one(top(of(sdk.TargetConfig{Name: "a", URI: "b:1"}), group("read", "a")), `target "a" is declared twice`),
		"two targets in one":      one(top(of(sdk.TargetConfig{Name: "b", URI: "a:1"}), group("read", "a")), `"a" and "b"`, "same URI and profile"),
		"zero byte":               one(top(of(sdk.TargetConfig{Name: "b\x00c", URI: "b:1"}), group("read", "a")), `"b\x00c"`, "zero byte"),
		"target, unknown scheme":  one(top(of(sdk.TargetConfig{Name: "b", URI: "consul:///x"}), group("read", "a")), `target "b"`, `"consul"`, "sdk.WithResolvers"),
		"undeclared profile":      one(top(of(sdk.TargetConfig{Name: "b", URI: "b:1", Profile: "mtls"}), group("read", "a")), `target "b"`, `"mtls"`, "WithDialProfile"),
		"recovery":                one(timing(failover.Options{Recovery: 25 * time.Hour, MinUptime: -1}), `group "slow"`, "Recovery", "25h0m0s", "24h0m0s"),
		"uptime":                  one(timing(failover.Options{MinUptime: 25 * time.Hour}), `group "slow"`, "MinUptime", "25h0m0s", "24h0m0s"),
		"grace":                   one(timing(failover.Options{InitialGrace: 25 * time.Hour}), `group "slow"`, "InitialGrace", "25h0m0s", "24h0m0s"),
		"delay":                   one(timing(failover.Options{SwitchDelay: 25 * time.Hour}), `group "slow"`, "SwitchDelay", "25h0m0s", "24h0m0s"),
		"window":                  one(ratio(failover.RatioOptions{Window: time.Millisecond}), `target "a": ErrorRatio`, "Window", "1ms", "1s to 24h0m0s"),
		"threshold":               one(ratio(failover.RatioOptions{Threshold: 1.5}), `target "a": ErrorRatio`, "Threshold", "1.5", "at most 1"),
		"failures":                one(ratio(failover.RatioOptions{MinFailures: -1}), `target "a": ErrorRatio`, "MinFailures", "-1"),
		"code":                    one(ratio(failover.RatioOptions{Codes: []uint32{0}}), `target "a": ErrorRatio`, "Codes[0]"),
		"topology and groups":     and(top(a, group("default", "a")), "WithTopology", "WithGroup", "use one of them"),
		"method to nowhere":       and(sdk.WithGroupsByMethod(map[string]string{"*": "raed"}), "WithGroupsByMethod", `"*"`, `"raed"`, "default"),
		"no method":               and(sdk.WithGroupsByMethod(map[string]string{"Who": "default"}), "WithGroupsByMethod", `"Who"`),
		"monitor's interval":      and(sdk.WithMonitor(health.Options{Interval: time.Millisecond}), "WithMonitor", "Interval", "1ms", "10ms"),
		"monitor's timeout":       and(sdk.WithMonitor(health.Options{Timeout: time.Hour}), "WithMonitor", "Timeout", "1h0m0s"),
		"monitor's jitter":        and(sdk.WithMonitor(health.Options{Jitter: 2}), "WithMonitor", "Jitter", "0.5"),
		"profile without a name":  and(sdk.WithDialProfile(""), "WithDialProfile", "name is empty"),
		"profile declared twice":  {[]sdk.Option{good, sdk.WithDialProfile("p"), sdk.WithDialProfile("p")}, []string{"WithDialProfile", `"p" is declared twice`}},
		"profile with a topology": and(sdk.WithDialProfile("p", top(a, group("default", "a")), sdk.WithMonitor(health.Options{})), "WithDialProfile", `"p"`, "WithTopology", "WithMonitor", "give it to Dial"),
		"profile with a group":    and(sdk.WithDialProfile("p", good, sdk.WithUnknownGroupsRefused(), sdk.WithGroupsByMethod(nil)), `"p"`, "WithGroup", "WithUnknownGroupsRefused", "WithGroupsByMethod"),
		"profile with selectors":  and(sdk.WithDialProfile("p", sdk.WithSelector("x", selection.P2C()), sdk.WithSelectorsByMethod(nil), sdk.WithDrainTimeout(0)), `"p"`, "WithSelector", "WithSelectorsByMethod", "WithDrainTimeout"),
		"profile in a profile":    and(sdk.WithDialProfile("p", sdk.WithDialProfile("q")), `"p"`, "WithDialProfile"),
		"profile's sharding":      and(sdk.WithDialProfile("p", sdk.WithSharding(sdk.Sharding{KeyHeader: "x", Target: "x"})), `WithDialProfile: "p"`, "ServiceKey is empty"),
		"profile's credentials":   and(sdk.WithDialProfile("p", sdk.WithDialOptions(grpc.WithAuthority("x"), nil)), `WithDialProfile: "p"`, "dial option 2 is nil"),
	}
}

// Dial says everything that is wrong with groups, and for one fault nothing else.
func TestDialErrorsOfGroups(t *testing.T) {
	t.Parallel()
	all := faultyOptions()
	for name, f := range all {
		t.Run(name, func(t *testing.T) {
			_, err := sdk.Dial("", append([]sdk.Option{plain}, f.options...)...)
			if err == nil {
				t.Fatal("it was taken")
			}
			for _, word := range append(f.words, "slicewire: cannot dial: ") {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error does not say %s: %v", word, err)
				}
			}
			if n := strings.Count(err.Error(), "\n"); n > 0 {
				t.Errorf("one fault and %d lines: %v", n+1, err)
			}
		})
	}
	t.Run("a target as well", func(t *testing.T) {
		_, err := sdk.Dial("dns:///a:1", plain, sdk.WithGroup("default", "a:1"))
		if err == nil || !strings.Contains(err.Error(), `"dns:///a:1"`) || !strings.Contains(err.Error(), `give it "", and list the target in a group`) {
			t.Error(err)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		if _, err := sdk.Dial("", plain); err == nil || !strings.Contains(err.Error(), "dial target is empty") {
			t.Error(err)
		}
	})
	t.Run("no credentials", func(t *testing.T) {
		if _, err := sdk.Dial("", sdk.WithGroup("default", "a:1")); err == nil || !strings.Contains(err.Error(), "sdk.WithTransportCredentials(") {
			t.Error(err)
		}
	})
}

// All faults at once are all said.
func TestDialErrorsOfGroupsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := sdk.Dial("",
		sdk.WithTopology(sdk.Topology{
			Targets: []sdk.TargetConfig{
				{Name: "a", URI: "a:1"},
				{URI: "b:1"},
				{Name: "a", URI: "c:1"},
				{Name: "d"},
				{Name: "e", URI: "a:1"},
				{Name: "f", URI: "f:1", Profile: "none"},
				{Name: "g", URI: "g:1", ErrorRatio: &failover.RatioOptions{Threshold: 2, Window: time.Hour * 48}},
			},
			Groups: []sdk.GroupConfig{
				group("x"), group("", "a"), group("x", "a", "a"), timed(failover.Options{Recovery: 48 * time.Hour, SwitchDelay: 48 * time.Hour}, "y", "zoo://x/y"),
			},
		}),
		sdk.WithGroupsByMethod(map[string]string{"*": "z", "bad": "x"}),
		sdk.WithMonitor(health.Options{Jitter: 3, Workers: -1}),
		sdk.WithDialProfile("p", sdk.WithMonitor(health.Options{})), sdk.WithDialProfile("p"), sdk.WithDialProfile(""),
		sdk.WithDrainTimeout(-1), sdk.WithSelectorsByMethod(map[string]string{"bad": "x"}),
	)
	if err == nil {
		t.Fatal("it was taken")
	}
	for _, word := range []string{
		"target 2 has no name", `target "a" is declared twice`, `target "d"`, `targets "a" and "e"`, `"none"`, "Threshold", "Window",
		`group "x" lists no target`, "group 2 has no name", `group "x" is declared twice`, `lists "a" twice`, "Recovery", "SwitchDelay", `scheme "zoo"`,
		`names the group "z"`, `WithGroupsByMethod: `, `"bad"`, "Jitter", "Workers", `WithDialProfile: "p": WithMonitor`, `"p" is declared twice`,
		"WithDialProfile: the name is empty", "WithDrainTimeout", "WithSelectorsByMethod", "sdk.WithTransportCredentials(",
		`target "g": ErrorRatio: failover: RatioOptions.Threshold`, `group "y": Failover: failover: Options.SwitchDelay`, "WithMonitor: Workers",
	} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %s", word)
		}
	}
	lines := strings.Split(err.Error(), "\n")
	if unique := slices.Compact(slices.Sorted(slices.Values(lines))); len(unique) != len(lines) {
		t.Errorf("something is said twice")
	}
	if t.Failed() {
		t.Log(err)
	}
}

// IM, LL-07: what was given to options is the caller's again.
func TestLL07GroupOptionsAreCopied(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "read")
	targets, methods := []string{p["main"].Addr(), p["read"].Addr()}, map[string]string{sdktest.EchoWho: "read"}
	inProfile := []sdk.Option{sdk.WithTransportCredentials(insecure.NewCredentials())}
	options := []sdk.Option{
		plain, sdk.WithGroup("default", targets[:1]...), sdk.WithGroup("read", targets[1:]...), sdk.WithGroupsByMethod(methods),
		sdk.WithDialProfile("p", inProfile...),
	}
	spoil := func() {
		targets[0], targets[1] = "zoo://x/y", "zoo://x/y"
		methods[sdktest.EchoWho], methods["*"] = "default", "nobody"
		inProfile[0] = sdk.WithDrainTimeout(-1)
	}
	spoil()
	given := slices.Clone(options)
	for range 2 {
		client, err := sdk.Dial("", options...)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		for i := range options {
			if options[i] == nil || given[i] == nil {
				t.Error("the caller's options changed")
			}
		}
		if a, err := sdktest.NewEcho(client).Who(within(t, 10*time.Second), ""); err != nil || a != "read" {
			t.Errorf("by method: %q, %v", a, err)
		}
		if a, err := kinds["both ways"](within(t, 10*time.Second), client); err != nil || a != "main" {
			t.Errorf("by default: %q, %v", a, err)
		}
		top := client.Topology()
		if _, err := client.UpdateTopology(top); err != nil {
			t.Fatal(err)
		}
		top.Groups[0].Targets[0] = "zoo://x/y"
		if err := client.ValidateTopology(client.Topology()); err != nil {
			t.Error(err)
		}
	}
	if want := map[string]string{sdktest.EchoWho: "default", "*": "nobody"}; !maps.Equal(methods, want) {
		t.Errorf("the caller's map is %v", methods)
	}
}

// A call's options are the caller's: those of a stub of a group are not written into
// them, and may be shared by calls at the same time.
func TestLL07CallOptionsAreShared(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "main", "read")
	client := dialGroups(t, p.topology(group("default", "main"), group("read", "read")))
	shared := make([]grpc.CallOption, 1, 8)
	shared[0] = grpc.WaitForReady(true)
	done := make(chan error, 4)
	for i := range cap(done) {
		name, server := "default", "main"
		if i%2 == 1 {
			name, server = "read", "read"
		}
		conn := client.Group(name).Conn()
		go func() {
			for kind, send := range kinds {
				for range 20 {
					ctx, cancel := context.WithTimeout(interceptors.WithGroup(context.Background(), "default"), 10*time.Second)
					got, err := send(ctx, conn, shared...)
					cancel()
					if err == nil && got != server {
						err = errors.New(kind + ": answered by " + got + ", want " + server)
					}
					if err != nil {
						done <- err
						return
					}
				}
			}
			done <- nil
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if rest := shared[:cap(shared)]; slices.ContainsFunc(rest[1:], func(o grpc.CallOption) bool { return o != nil }) {
		t.Error("something was written behind the caller's options")
	}
}
