package configsource_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slicewire/slicewire/configsource"
)

// places are where the example files have a key, by its path in Keys, for lists of
// which it is not the first element.
var places = map[string]string{
	"selectors[].policy.inSlice.kind":    "selectors[0].policy.inSlice.kind",
	"selectors[].policy.inSlice.penalty": "selectors[0].policy.inSlice.penalty",
	"selectors[].policy.penalty":         "selectors[2].policy.penalty",
	"selectors[].policy.pointsPerWeight": "selectors[1].policy.pointsPerWeight",
	"selectors[].policy.maxPoints":       "selectors[1].policy.maxPoints",
	"selectors[].policy.seed":            "selectors[1].policy.seed",
	"selectors[].policy.kind":            "selectors[2].policy.kind",
	"health.checker.kind":                "monitor.checker.kind",
	"health.checker.service":             "monitor.checker.service",
	"monitor.checker.path":               "health.checker.path",
	"monitor.checker.method":             "health.checker.method",
	"monitor.checker.host":               "health.checker.host",
	"monitor.checker.maxBody":            "health.checker.maxBody",
}

// other is another value that is allowed where the example has one, where it does
// not follow from the key's kind.
var other = map[string]string{
	"inCode.groups": "legacy,more", "inCode.selectors": "nearest,more", "inCode.profiles": "mtls,plain,more", "inCode.shardingServices": "backup,more",
	"targets[].profile": "plain", "shardingServices[].profile": "plain",
	"groups[].targets": "Read-EU,main", "groups[].selector": "busy",
	"groupsByMethod[].pattern": "*", "groupsByMethod[].group": "legacy", "selectorsByMethod[].pattern": "*", "selectorsByMethod[].selector": "nearest",
	"selectors[].policy.kind": "p2c", "selectors[].policy.inSlice.kind": "least_pending",
	"sharding.serviceKey": "backup", "targets[].sharding.serviceKey": "main",
	"targets[].errorRatio.hold": "50s", "health.checker.path": "/other", "monitor.checker.path": "/other",
}

// TestEveryKey: each key of the table is in an example, can be set by the
// environment variable that the table names, and is then one change, of itself, with
// the effect that the table says.
func TestEveryKey(t *testing.T) {
	for _, k := range configsource.Keys() {
		if strings.HasSuffix(k.Kind, "object") || strings.HasSuffix(k.Kind, "objects") {
			continue // their keys come
		}
		if strings.HasSuffix(k.Path, "[].name") || strings.HasSuffix(k.Path, "[].key") || strings.HasSuffix(k.Path, "[].pattern") {
			continue // another name is another object: TestDiff
		}
		t.Run(k.Path, func(t *testing.T) {
			example := "testdata/all.yaml"
			if k.Path == "keyHeader" || strings.HasSuffix(k.Path, "checker.kind") {
				example = "testdata/plain.yaml"
			}
			path := strings.ReplaceAll(k.Path, "[]", "[0]")
			if p, named := places[k.Path]; named {
				path = p
			}
			from := configsource.File(example, configsource.FileOptions{})
			before := load(t, from)
			if _, said := before.Place(path); !said {
				t.Fatalf("%s does not have it", example)
			}
			variable := "SLICEWIRE_" + envOf(path)
			var after *configsource.Update
			var changes []configsource.Change
			for _, value := range values(k) {
				with := configsource.EnvFrom("", func() []string { return []string{variable + "=" + value} })
				u, err := configsource.Overlay(from, with).Load(t.Context())
				if err != nil {
					continue // too small, or not beside the others
				}
				if changes = configsource.Diff(before.Config(), u.Config()); len(changes) > 0 {
					after = u
					break
				}
			}
			if len(changes) != 1 {
				t.Fatalf("%s as one of %q changes %v, want one thing", variable, values(k), changes)
			}
			if got := changes[0]; !strings.HasSuffix(k.Path, last(got.Path)) || got.Reload != k.Reload && path == strings.ReplaceAll(k.Path, "[]", "[0]") {
				t.Errorf("%s is %+v, want %s with %s", variable, got, k.Path, k.Reload)
			}
			if place, _ := after.Place(path); place.Origin != "environment variable "+variable {
				t.Errorf("it is from %v", place)
			}
		})
	}
}

func last(path string) string { return path[strings.LastIndexAny(path, ".")+1:] }

// envOf is the documented rule.
func envOf(path string) string {
	var b strings.Builder
	for _, c := range path {
		switch {
		case c == '.' || c == '[':
			b.WriteByte('_')
		case c == ']':
		case c >= 'A' && c <= 'Z':
			b.WriteString("_" + string(c))
		default:
			b.WriteString(strings.ToUpper(string(c)))
		}
	}
	return b.String()
}

// values are some that a key of that kind may have, two at least.
func values(k configsource.Key) []string {
	if v, known := other[k.Path]; known {
		return []string{v}
	}
	if k.Enum != nil {
		return k.Enum
	}
	switch k.Kind {
	case "boolean":
		return []string{"true", "false"}
	case "integer":
		return []string{"3", "4", "2048"}
	case "number":
		return []string{"0.3", "3"}
	case "duration":
		return []string{"900ms", "3s"}
	}
	return []string{"another"}
}

// TestKeys: the table is whole, and no two keys have one environment variable.
func TestKeys(t *testing.T) {
	env := make(map[string]string)
	for _, k := range configsource.Keys() {
		if env[k.Env] != "" {
			t.Errorf("%s and %s have the variable %s", env[k.Env], k.Path, k.Env)
		}
		env[k.Env] = k.Path
		if k.Env != envOf(strings.ReplaceAll(k.Path, "[]", "[#]")) {
			t.Errorf("%s has the variable %s", k.Path, k.Env)
		}
		if k.Kind == "integer" && k.Unit == "" && k.Path != "selectors[].policy.seed" {
			t.Errorf("%s counts something without a unit", k.Path)
		}
		if k.Default != "" && k.DefaultFrom != "" {
			t.Errorf("%s has two defaults", k.Path)
		}
	}
}

// TestDefaults: they are what the table says, and what was said stays.
func TestDefaults(t *testing.T) {
	c := configsource.Config{
		Groups: []configsource.Group{
			{Name: "a", Targets: []string{"main", "standby"}, Recovery: new(300 * time.Millisecond)},
			{Name: "b", Targets: []string{"alone"}, MinUptime: new(time.Duration(0))},
		},
		Targets:     []configsource.Target{{Name: "main", URI: "x:1"}, {Name: "standby", URI: "y:1", MinReady: new(7), ErrorRatio: &configsource.ErrorRatio{Window: new(2 * time.Second)}}, {Name: "alone", URI: "z:1"}},
		Selectors:   []configsource.Selector{{Name: "r", Policy: configsource.Policy{Kind: "random"}}},
		Health:      &configsource.Health{Probing: configsource.Probing{Checker: configsource.Checker{Kind: "tcp"}, Interval: new(500 * time.Millisecond)}},
		Connections: &configsource.Connections{Min: new(3), MinReady: new(2)},
	}
	d := c.WithDefaults()
	for _, check := range []struct {
		what      string
		got, want any
	}{
		{"drain timeout", *d.Client.DrainTimeout, 10 * time.Second},
		{"a's grace", *d.Groups[0].InitialGrace, 300 * time.Millisecond},
		{"a's uptime", *d.Groups[0].MinUptime, 300 * time.Millisecond},
		{"b's recovery", *d.Groups[1].Recovery, time.Second},
		{"b's grace", *d.Groups[1].InitialGrace, time.Second},
		{"b's uptime, said to be none", *d.Groups[1].MinUptime, time.Duration(0)},
		{"main's warm endpoints", *d.Targets[0].MinReady, 1},
		{"standby's", *d.Targets[1].MinReady, 7},
		{"alone's", *d.Targets[2].MinReady, 2},
		{"standby's hold", *d.Targets[1].ErrorRatio.Hold, 2 * time.Second},
		{"probe timeout", *d.Health.Timeout, 500 * time.Millisecond},
		{"most connections", *d.Connections.Max, 3},
		{"a penalty of random", d.Selectors[0].Policy.Penalty == nil, true},
		{"a path of tcp", d.Health.Checker.Path == nil, true},
		{"a breaker that nobody wants", d.Breaker == nil, true},
		{"a sharding that nobody wants", d.Sharding == nil, true},
	} {
		if check.got != check.want {
			t.Errorf("%s: %v, want %v", check.what, check.got, check.want)
		}
	}
	if c.Client.DrainTimeout != nil || c.Groups[0].MinUptime != nil {
		t.Error("the Config itself was changed")
	}
	if diff := cmp.Diff(d, d.WithDefaults()); diff != "" {
		t.Errorf("defaults of defaults: %s", diff)
	}
}

// TestExplain: what it writes says every value's place and reads back as the same.
func TestExplain(t *testing.T) {
	for _, example := range []string{"testdata/all.yaml", "testdata/plain.yaml", "testdata/formats/client.toml"} {
		u := load(t, configsource.File(example, configsource.FileOptions{}))
		var b strings.Builder
		must(t, u.Explain(&b))
		again, err := loadText(t, "again.yaml", b.String())
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		if diff := cmp.Diff(u.Config().WithDefaults(), again.Config()); diff != "" {
			t.Errorf("%s: what is explained reads back as another:\n%s", example, diff)
		}
		for _, want := range []string{"# " + example + ":", "# default"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: there is no %q in\n%s", example, want, b.String())
			}
		}
	}
	u := load(t, configsource.Static(configsource.Config{}))
	var b strings.Builder
	must(t, u.Explain(&b))
	if _, err := loadText(t, "again.yaml", b.String()); err != nil {
		t.Errorf("an empty Config: %v\n%s", err, b.String())
	}
	if err := u.Explain(broken{}); err == nil {
		t.Error("an error of the writer is lost")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, os.ErrClosed }
