package configsource_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slicewire/slicewire/configsource"
)

// TestDiff: what is named is compared by its name, and one edit is one change.
func TestDiff(t *testing.T) {
	const base = `
inCode: {profiles: [mtls, plain]}
client: {drainTimeout: 5s}
targets:
- {name: main, uri: "dns:///main:443", profile: mtls}
- {name: standby, uri: "dns:///standby:443"}
groups:
- {name: default, targets: [main, standby]}
- {name: read, targets: [standby, main], recovery: 1s}
selectors:
- {name: hash, policy: {kind: ketama}}
groupsByMethod:
- {pattern: "/a.B/*", group: read}
breaker: {ratio: 0.5}
`
	for name, tc := range map[string]struct {
		old, new string
		want     []string
	}{
		"nothing":         {"", "", nil},
		"a comment":       {"client:", "# why\nclient:", nil},
		"a value":         {"5s", "6s", []string{"client.drainTimeout: 5s becomes 6s"}},
		"another unit":    {"5s", "5000ms", nil},
		"left out":        {"{drainTimeout: 5s}", "{}", []string{"client.drainTimeout: removed, was 5s"}},
		"default said":    {"{drainTimeout: 5s}", "{drainTimeout: 5s, retireTimeout: 10s}", []string{"client.retireTimeout: added 10s"}},
		"a profile":       {"profile: mtls", "profile: plain", []string{`targets["main"].profile: "mtls" becomes "plain"`}},
		"an object added": {"breaker:", "health: {checker: {kind: tcp}}\nbreaker:", []string{`health: added {checker: {kind: "tcp"}}`}},
		"an object gone":  {"breaker: {ratio: 0.5}", "", []string{"breaker: removed, was {ratio: 0.5}"}},
		"a target at the top": {"targets:", "targets:\n- {name: new, uri: 'x:1'}", []string{
			`targets["new"]: added {name: "new", uri: "x:1"}`,
		}},
		"a target's order":     {`- {name: main, uri: "dns:///main:443", profile: mtls}` + "\n" + `- {name: standby, uri: "dns:///standby:443"}`, `- {name: standby, uri: "dns:///standby:443"}` + "\n" + `- {name: main, uri: "dns:///main:443", profile: mtls}`, nil},
		"the order in a group": {"[main, standby]", "[standby, main]", []string{`groups["default"].targets: ["main", "standby"] becomes ["standby", "main"]`}},
		"a group at the end":   {"selectors:", "- {name: last, targets: [main]}\nselectors:", []string{`groups["last"]: added {name: "last", targets: ["main"]}`}},
		"a group at the top": {"groups:", "groups:\n- {name: first, targets: [main]}", []string{
			`groups["first"]: added {name: "first", targets: ["main"]}`, "groups (order): default, read becomes first, default, read",
		}},
		"a group renamed": {"{name: default,", "{name: Default,", []string{
			`groups["default"]: removed, was {name: "default", targets: ["main", "standby"]}`,
			`groups["Default"]: added {name: "Default", targets: ["main", "standby"]}`,
			"groups (order): default, read becomes Default, read",
		}},
		"a selector renamed": {"name: hash", "name: ring", []string{
			`selectors["hash"]: removed, was {name: "hash", policy: {kind: "ketama"}}`, `selectors["ring"]: added {name: "ring", policy: {kind: "ketama"}}`,
		}},
		"a pattern": {"/a.B/*", "/a.B/C", []string{
			`groupsByMethod["/a.B/*"]: removed, was {pattern: "/a.B/*", group: "read"}`, `groupsByMethod["/a.B/C"]: added {pattern: "/a.B/C", group: "read"}`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(base, tc.old) {
				t.Fatalf("there is no %q to edit", tc.old)
			}
			from, err := loadText(t, "x.yaml", base)
			must(t, err)
			to, err := loadText(t, "x.yaml", strings.Replace(base, tc.old, tc.new, 1))
			must(t, err)
			var got []string
			for _, c := range configsource.Diff(from.Config(), to.Config()) {
				got = append(got, c.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDiffPools: connections go with the target's name, uri and profile, not with
// the groups.
func TestDiffPools(t *testing.T) {
	from, err := loadText(t, "x.yaml", `
inCode: {profiles: [mtls]}
targets: [{name: a, uri: "a:1"}, {name: b, uri: "b:1"}, {name: spare, uri: "s:1"}, {name: d, uri: "d:1", profile: mtls}, {name: f, uri: "f:1"}]
groups: [{name: one, targets: [a, b, "f:1"]}, {name: two, targets: [a, "c:1", d]}]`)
	must(t, err)
	to, err := loadText(t, "x.yaml", `
inCode: {profiles: [mtls]}
targets: [{name: renamed, uri: "a:1"}, {name: b, uri: "b:1", profile: mtls}, {name: d, uri: "d:2", profile: mtls}, {name: f, uri: "f:1"}]
groups: [{name: one, targets: [b, renamed]}, {name: three, targets: ["c:1", d, f]}]`)
	must(t, err)
	want := configsource.PoolChange{
		Stay:  []configsource.Pool{{Target: "c:1", URI: "c:1"}, {Target: "f", URI: "f:1"}},
		Open:  []configsource.Pool{{Target: "b", URI: "b:1", Profile: "mtls"}, {Target: "renamed", URI: "a:1"}, {Target: "d", URI: "d:2", Profile: "mtls"}},
		Close: []configsource.Pool{{Target: "a", URI: "a:1"}, {Target: "b", URI: "b:1"}, {Target: "d", URI: "d:1", Profile: "mtls"}},
	}
	if diff := cmp.Diff(want, configsource.DiffPools(from.Config(), to.Config())); diff != "" {
		t.Error(diff)
	}
}

// large is a file of so many groups and targets.
func large(groups, targets int) string {
	var b strings.Builder
	b.WriteString("targets:\n")
	for i := range targets {
		fmt.Fprintf(&b, "  - name: target-%05d\n    uri: dns:///backend-%05d.example.com:443\n", i, i)
	}
	b.WriteString("groups:\n")
	for i := range groups {
		fmt.Fprintf(&b, "  - name: group-%04d\n    recovery: 300ms\n    targets: [target-%05d, target-%05d]\n", i, i*targets/groups, i*targets/groups+1)
	}
	return b.String()
}
