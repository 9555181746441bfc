package configsource_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slicewire/slicewire/configsource"
)

// TestProblems: every kind of mistake is named by its path, its value, what is
// allowed and its line.
func TestProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"unknown key":            {"client:\n  drainTimout: 1s", []string{"x.yaml:2: client.drainTimout is an unknown key; did you mean drainTimeout? known here are name, drainTimeout"}},
		"unknown key at the top": {"bogus: 1", []string{"x.yaml:1: bogus is an unknown key; known here are client,"}},
		"unknown null key":       {"client: {nothing: null}", []string{"client.nothing is an unknown key"}},
		"wrong kinds": {"client:\n  name: 5\n  drainTimeout: 5\n  keepLastEndpoints: \"yes\"\n  keys: [a]\ntargets: main\n", []string{
			"x.yaml:2: client.name is 5; it has to be a string of at least one character; put it in quotes",
			"x.yaml:3: client.drainTimeout is 5; it has to be a duration with its unit, such as 500ms",
			`x.yaml:4: client.keepLastEndpoints is "yes"; it has to be true or false`,
			"x.yaml:5: client.keys is a list; it has to be one of required, optional",
			`x.yaml:6: targets is "main"; it has to be a list of objects`,
		}},
		"missing":          {"targets:\n  - profile: p\n", []string{"x.yaml:2: targets[0].name is missing; it has to be a string", "targets[0].uri is missing", "inCode.profiles"}},
		"missing object":   {"health: {}", []string{"x.yaml:1: health.checker is missing"}},
		"empty":            {"targets: [{name: '', uri: 'x:1'}]", []string{`targets[0].name is ""`}},
		"item":             {"targets: [main]", []string{`targets[0] is "main"; it has to be an object with keys of name, uri`}},
		"negative":         {"client: {drainTimeout: -5s}", []string{"client.drainTimeout is -5s", "at least 0s"}},
		"zero":             {"client: {retireTimeout: 0s}", []string{"client.retireTimeout is 0s", "above 0s"}},
		"too long":         {"groups: [{name: a, targets: ['x:1'], recovery: 25h}]", []string{"groups[0].recovery is 25h", "at most 24h"}},
		"overflow":         {"client: {drainTimeout: 10000000000h}", []string{`client.drainTimeout is "10000000000h"`}},
		"not a number":     {"breaker: {ratio: .nan}", []string{"breaker.ratio is NaN", "above 0 and at most 1"}},
		"half":             {"breaker: {halfOpen: 1.5}", []string{"breaker.halfOpen is 1.5; it has to be a whole number of calls"}},
		"enum":             {"client: {keys: optionel}", []string{`client.keys is "optionel"; did you mean optional? it has to be one of required, optional`}},
		"code":             {"breaker: {codes: [unavailable]}", []string{"did you mean UNAVAILABLE?"}},
		"no codes":         {"breaker: {codes: []}", []string{"breaker.codes is []", "or left out for the default"}},
		"control":          {`client: {name: "a\nb"}`, []string{`client.name is "a\nb"; it must not hold control characters`}},
		"spaces":           {`client: {name: " a"}`, []string{"must not begin or end with spaces"}},
		"twice":            {"targets:\n- {name: a, uri: 'x:1'}\n- {name: a, uri: 'y:1'}\n", []string{`x.yaml:3: targets[1].name is "a"; it is also targets[0]; give each its own`}},
		"pattern twice":    {"groups: [{name: a, targets: ['x:1']}]\ngroupsByMethod: [{pattern: '*', group: a}, {pattern: '*', group: a}]", []string{"groupsByMethod[1].pattern"}},
		"unknown target":   {"targets: [{name: main, uri: 'x:1'}]\ngroups: [{name: a, targets: [main]}, {name: b, targets: [mian]}]", []string{`groups[1].targets[0] is "mian"; did you mean main? declared are main; name one of them, or write a dial target such as dns:///mian:443`}},
		"target twice":     {"groups: [{name: a, targets: ['x:1', 'x:1']}]", []string{"groups[0].targets[1]", "name it once"}},
		"no targets":       {"groups: [{name: a, targets: []}]", []string{"groups[0].targets is []; it has to be a list of strings, at least one"}},
		"unknown group":    {"groupsByMethod: [{pattern: '*', group: red}]\ninCode: {groups: [read]}", []string{`groupsByMethod[0].group is "red"; did you mean read?`}},
		"unknown select":   {"groups: [{name: a, targets: ['x:1'], selector: hesh}]\nselectors: [{name: hash, policy: {kind: ketama}}]", []string{`groups[0].selector is "hesh"; did you mean hash? declared are default, hash; declare it under selectors, or name it under inCode.selectors if code declares it`}},
		"unknown service":  {"sharding: {serviceKey: s, target: t, keyHeader: h}", []string{`sharding.serviceKey is "s"; none is declared; declare it under shardingServices`}},
		"unknown profile":  {"shardingServices: [{key: s, uri: 'x:1', profile: p}]", []string{`shardingServices[0].profile is "p"; none is declared; code declares profiles`}},
		"bad pattern":      {"selectorsByMethod: [{pattern: Get, selector: default}, {pattern: /a, selector: default}, {pattern: //b, selector: default}, {pattern: /a/b/c, selector: default}]", []string{"selectorsByMethod[0].pattern", "selectorsByMethod[1].pattern", "selectorsByMethod[2].pattern", "selectorsByMethod[3].pattern is \"/a/b/c\"; it has to be /package.Service/Method"}},
		"policy's own":     {"selectors: [{name: a, policy: {kind: random, penalty: 1s}}, {name: b, policy: {kind: p2c, inSlice: {kind: p2c}}}]", []string{`selectors[0].policy.penalty is 1s; kind "random" has no such setting; it is for p2c, least_pending`, "selectors[1].policy.inSlice is an object"}},
		"in a slice":       {"selectors: [{name: a, policy: {kind: sliced, inSlice: {kind: ketama}}}]", []string{`selectors[0].policy.inSlice.kind is "ketama"`}},
		"header":           {"keyHeader: grpc-key", []string{"keyHeader is \"grpc-key\"; that header is reserved"}},
		"header's bytes":   {"keyHeader: x key", []string{"keyHeader is \"x key\"; a header's name may hold"}},
		"header twice":     {"keyHeader: a\nsharding: {serviceKey: s, target: t, keyHeader: h}\ninCode: {shardingServices: [s]}", []string{"keyHeader is \"a\"; sharding.keyHeader names the header already"}},
		"timeout":          {"health: {checker: {kind: tcp}, timeout: 11s}", []string{"health.timeout is 11s; it has to be at most the interval, which is 10s"}},
		"checker's own":    {"monitor: {checker: {kind: tcp, path: /x}}", []string{"monitor.checker.path"}},
		"checker's path":   {"monitor: {checker: {kind: http, path: x}}", []string{"monitor.checker.path is \"x\"; it has to begin with /"}},
		"connections":      {"connections: {min: 3, max: 2}", []string{"connections.max is 2; it has to be at least connections.min, which is 3"}},
		"too young":        {"connections: {maxAge: 1ms}", []string{"connections.maxAge is 1ms; it has to be at least 100ms, or 0s for no bound"}},
		"hold":             {"targets: [{name: a, uri: 'x:1', errorRatio: {hold: 2s}}]", []string{"targets[0].errorRatio.hold is 2s; it has to be at least the window, which is 1m"}},
		"same connections": {"targets: [{name: a, uri: 'x:1'}, {name: b, uri: 'x:1'}]", []string{"targets[1].uri is \"x:1\"; targets[0] has the same uri and profile"}},
		"backoff":          {"shardingStream: {backoff: {baseDelay: 3m}}\n", nil},
		"backoff's ends":   {"shardingStream: {backoff: {maxDelay: 10ms}}\n", []string{"shardingStream.backoff.maxDelay is 10ms; it has to be at least baseDelay, which is 1s"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadText(t, "x.yaml", tc.text)
			if tc.want == nil {
				tc.want = []string{"shardingStream.backoff.maxDelay"} // the default one is shorter
			}
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("the error is\n%v\nwant one with\n%s", err, want)
				}
			}
		})
	}
}

// TestProblemsAllAtOnce: they come together, one for each mistake, in the order of
// the lines.
func TestProblemsAllAtOnce(t *testing.T) {
	var b strings.Builder
	b.WriteString("targets:\n")
	for i := range 50 {
		fmt.Fprintf(&b, "  - {name: t%d, uri: 'x:%d', minReady: -1, typo: 1}\n", i, i)
	}
	_, err := loadText(t, "x.yaml", b.String())
	problems := configsource.Problems(err)
	if len(problems) != 100 {
		t.Errorf("%d problems, want 100", len(problems))
	}
	for i, p := range problems {
		if p.Place.Line != i/2+2 {
			t.Fatalf("problem %d is of line %d, want %d: %v", i, p.Place.Line, i/2+2, p)
		}
	}
	if configsource.Problems(nil) != nil {
		t.Error("no error has problems")
	}
}

// TestValidateCode: a Config of code is checked the same way, and has no places.
func TestValidateCode(t *testing.T) {
	c := configsource.Config{Groups: []configsource.Group{{Name: "a", Targets: []string{"nobody"}, Recovery: new(-time.Second)}}}
	err := c.Validate()
	if n := len(configsource.Problems(err)); n != 2 {
		t.Errorf("%d problems, want 2: %v", n, err)
	}
	if strings.Contains(fmt.Sprint(err), ":0") {
		t.Errorf("%v names a line", err)
	}
	if err := (configsource.Config{}).Validate(); err != nil {
		t.Errorf("the zero Config: %v", err)
	}
	if err := configsource.Default().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}
