package configsource_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slicewire/slicewire/configsource"
)

const twoGroups = `
targets: [{name: main, uri: "x:1"}, {name: standby, uri: "y:1"}]
groups: [{name: a, targets: [main]}, {name: b, targets: [standby]}]
`

// over is a file with an environment on top.
func over(t testing.TB, text string, environ ...string) (*configsource.Update, error) {
	t.Helper()
	path := file(t, "x.yaml", text)
	return configsource.Overlay(
		configsource.File(path, configsource.FileOptions{}),
		configsource.EnvFrom("", func() []string { return environ }),
	).Load(t.Context())
}

func TestEnv(t *testing.T) {
	u, err := over(t, twoGroups,
		"HOME=/", "SLICEWIRED_X=1", "SLICEWIRE_CONFIG=/etc/x.yaml", "SLICEWIRE_CLIENT_NAME=",
		"SLICEWIRE_SERVICE_HOST=10.0.0.1", "SLICEWIRE_SERVICE_PORT=80", "SLICEWIRE_SERVICE_PORT_HTTP=80", "SLICEWIRE_PORT=tcp://10.0.0.1:80",
		"SLICEWIRE_PORT_80_TCP=tcp://10.0.0.1:80", "SLICEWIRE_PORT_80_TCP_PROTO=tcp", "SLICEWIRE_PORT_80_TCP_PORT=80", "SLICEWIRE_PORT_80_TCP_ADDR=10.0.0.1",
		"SLICEWIRE_CLIENT_DRAIN_TIMEOUT=3s",
		"SLICEWIRE_GROUPS_0_TARGETS=main, standby",
		"SLICEWIRE_GROUPS_1_TARGETS_1=ipv4:1.1.1.1:1,2.2.2.2:2",
		"SLICEWIRE_GROUPS_2_NAME=c", "SLICEWIRE_GROUPS_2_TARGETS=[\"main\"]", "SLICEWIRE_GROUPS_2_RECOVERY=1s",
		"SLICEWIRE_TARGETS_1_URI=dns:///other:443",
		"SLICEWIRE_HEALTH={\"checker\": {\"kind\": \"tcp\"}, \"interval\": \"2s\"}",
		"SLICEWIRE_HEALTH_INTERVAL=3s",
		"SLICEWIRE_BREAKER_RATIO=0.75", "SLICEWIRE_BREAKER_HALF_OPEN=2", "SLICEWIRE_CLIENT_KEEP_LAST_ENDPOINTS=true",
	)
	if err != nil {
		t.Fatal(err)
	}
	c := u.Config()
	for _, check := range []struct {
		what      string
		got, want any
	}{
		{"duration", *c.Client.DrainTimeout, 3 * time.Second},
		{"an empty variable says nothing", c.Client.Name == nil, true},
		{"list with commas", strings.Join(c.Groups[0].Targets, "|"), "main|standby"},
		{"element behind the end, with a comma", strings.Join(c.Groups[1].Targets, "|"), "standby|ipv4:1.1.1.1:1,2.2.2.2:2"},
		{"object behind the end", c.Groups[2].Name, "c"},
		{"its list", strings.Join(c.Groups[2].Targets, "|"), "main"},
		{"element's field", c.Targets[1].URI, "dns:///other:443"},
		{"element's other field", c.Targets[1].Name, "standby"},
		{"object", c.Health.Checker.Kind, "tcp"},
		{"a field of it counts more", *c.Health.Interval, 3 * time.Second},
		{"number", *c.Breaker.Ratio, 0.75},
		{"integer", *c.Breaker.HalfOpen, 2},
		{"boolean", *c.Client.KeepLastEndpoints, true},
	} {
		if check.got != check.want {
			t.Errorf("%s: %v, want %v", check.what, check.got, check.want)
		}
	}
}

// TestEnvWholeList: a list is replaced whole, then its elements.
func TestEnvWholeList(t *testing.T) {
	u, err := over(t, twoGroups,
		`SLICEWIRE_GROUPS_0_RECOVERY=2s`,
		`SLICEWIRE_GROUPS=[{"name": "Only.One", "targets": ["main"], "recovery": "1s"}]`)
	if err != nil {
		t.Fatal(err)
	}
	c := u.Config()
	if len(c.Groups) != 1 || c.Groups[0].Name != "Only.One" || *c.Groups[0].Recovery != 2*time.Second {
		t.Errorf("groups are %+v", c.Groups)
	}
}

func TestEnvProblems(t *testing.T) {
	for name, tc := range map[string]struct{ pair, want string }{
		"unknown":       {"SLICEWIRE_CLIENT_DRAIN_TIMOUT=1s", "environment variable SLICEWIRE_CLIENT_DRAIN_TIMOUT: no key has this name; did you mean SLICEWIRE_CLIENT_DRAIN_TIMEOUT?"},
		"unknown inner": {"SLICEWIRE_GROUPS_1_TARGET_0=x", "did you mean SLICEWIRE_GROUPS_1_TARGETS_0?"},
		"position":      {"SLICEWIRE_GROUPS_01_NAME=x", "no key has this name"},
		"gap":           {"SLICEWIRE_GROUPS_5_NAME=x", `environment variable SLICEWIRE_GROUPS_5_NAME: groups[5] is "x"; the next position of the list is 2`},
		"huge":          {"SLICEWIRE_GROUPS_99999999999999999999_NAME=x", "no key has this name"},
		"duration":      {"SLICEWIRE_CLIENT_DRAIN_TIMEOUT=5", `environment variable SLICEWIRE_CLIENT_DRAIN_TIMEOUT: client.drainTimeout is "5"; it has to be a duration`},
		"limit":         {"SLICEWIRE_CLIENT_DRAIN_TIMEOUT=-5s", "environment variable SLICEWIRE_CLIENT_DRAIN_TIMEOUT: client.drainTimeout is -5s"},
		"boolean":       {"SLICEWIRE_CLIENT_KEEP_LAST_ENDPOINTS=1", `client.keepLastEndpoints is "1"; it has to be true or false`},
		"JSON":          {"SLICEWIRE_HEALTH=tcp", "health is tcp; it has to be an object with keys of checker"},
		"JSON list":     {"SLICEWIRE_GROUPS={}", "groups is an object; it has to be a list of objects"},
		"two values":    {`SLICEWIRE_GROUPS=[], "x": 1`, "it is no single value"},
		"inner key":     {`SLICEWIRE_GROUPS_0={"name":"a","targets":["main"],"recovry":"1s"}`, "environment variable SLICEWIRE_GROUPS_0: groups[0].recovry is an unknown key; did you mean recovery?"},
		"reference":     {"SLICEWIRE_GROUPS_0_TARGETS_0=mian", "environment variable SLICEWIRE_GROUPS_0_TARGETS_0: groups[0].targets[0] is \"mian\"; did you mean main?"},
		"lower case":    {"SLICEWIRE_client_name=x", "no key has this name; did you mean SLICEWIRE_CLIENT_NAME?"},
		"bare":          {"SLICEWIRE_=x", "no key has this name"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := over(t, twoGroups, tc.pair)
			if n := len(configsource.Problems(err)); n != 1 || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%d problems:\n%v\nwant one with\n%s", n, err, tc.want)
			}
		})
	}
	if _, err := over(t, "groups: 5", "SLICEWIRE_GROUPS_0_NAME=x"); err == nil || !strings.Contains(err.Error(), "what it is in is no list in") {
		t.Errorf("an element of a number: %v", err)
	}
}

// TestEnvPrefix: another prefix is another set of variables.
func TestEnvPrefix(t *testing.T) {
	t.Setenv("SHOP_CLIENT_NAME", "shop")
	for _, prefix := range []string{"SHOP", "SHOP_"} {
		if name := load(t, configsource.Env(prefix)).Config().Client.Name; name == nil || *name != "shop" {
			t.Errorf("with the prefix %s the name is %v", prefix, name)
		}
	}
}
