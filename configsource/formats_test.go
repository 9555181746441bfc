package configsource_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slicewire/slicewire/configsource"
)

// TestCR06ExactNames: names keep their case and their dots in every format, two that
// differ in case alone are two, and all formats say the same.
func TestCR06ExactNames(t *testing.T) {
	lines := map[string]map[string]int{
		"yaml": {"client.name": 2, "targets[0].errorRatio.codes[0]": 11, "targets[1].uri": 13, "groups[0].targets[1]": 16, "breaker.ratio": 25},
		"json": {"client.name": 3, "targets[0].errorRatio.codes[0]": 9, "targets[1].uri": 10, "groups[0].targets[1]": 14, "breaker.ratio": 21},
		"toml": {"client.name": 4, "targets[0].errorRatio.codes[0]": 14, "targets[1].uri": 19, "groups[0].targets[1]": 23, "breaker.ratio": 1},
	}
	var first *configsource.Config
	for _, format := range []string{"yaml", "json", "toml"} {
		path := "testdata/formats/client." + format
		u := load(t, configsource.File(path, configsource.FileOptions{}))
		c := u.Config()
		if first == nil {
			first = &c
		}
		if diff := cmp.Diff(*first, c); diff != "" {
			t.Errorf("%s differs from yaml:\n%s", format, diff)
		}
		for i, want := range []string{"Read-EU", "read-eu"} {
			if c.Targets[i].Name != want || c.Groups[i].Name != want {
				t.Errorf("%s: target and group %d are %q and %q, want %q", format, i, c.Targets[i].Name, c.Groups[i].Name, want)
			}
		}
		for at, line := range lines[format] {
			want := fmt.Sprintf("%s:%d", path, line)
			if place, said := u.Place(at); !said || place.String() != want {
				t.Errorf("%s: %s is from %v, want %s", format, at, place, want)
			}
		}
	}
}

// TestCR06NamesAsKeys: a map keyed by names is refused by a message that says why,
// and so are keys that differ in case alone, which viper would make one.
func TestCR06NamesAsKeys(t *testing.T) {
	for name, tc := range map[string]struct{ file, text, want string }{
		"map of names": {
			"x.yaml", "groups:\n  svc.eu.example.com:443: {targets: [a]}\n",
			"x.yaml:2: groups is an object; it has to be a list of objects with keys of name,",
		},
		"map of names in TOML": {
			"x.toml", "[groups.\"svc.eu.example.com:443\"]\ntargets = ['a']\n",
			"groups is an object; it has to be a list of objects",
		},
		"dotted key": {"x.yaml", "client.name: a\n", "x.yaml:1: client.name is an unknown key"},
		"two cases": {
			"x.yaml", "client:\n  name: a\n  Name: b\n",
			"x.yaml:3: client.Name is written twice; it is also in line 2, as name",
		},
		"two cases in JSON": {"x.json", `{"client": {"NAME": "a", "name": "b"}}`, "x.json:1: client.name is written twice"},
		"one wrong case":    {"x.yaml", "client:\n  draintimeout: 5s\n", "x.yaml:2: client.draintimeout is an unknown key; did you mean drainTimeout?"},
		"twice in JSON":     {"x.json", `{"keyHeader": "a", "keyHeader": "b"}`, "written twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadText(t, tc.file, tc.text)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is\n%v\nwant one with\n%s", err, tc.want)
			}
		})
	}
}

// TestYAMLAnchors: what is merged in and what is referred to has its own lines.
func TestYAMLAnchors(t *testing.T) {
	u, err := loadText(t, "x.yaml", `groups:
  - &base
    name: a
    targets: &both ["x:1", "y:1"]
    recovery: 2s
  - <<: *base
    name: b
  - <<: [{switchDelay: 3s}, *base]
    name: c
    targets: *both
`)
	if err != nil {
		t.Fatal(err)
	}
	c := u.Config()
	if g := c.Groups[1]; g.Name != "b" || len(g.Targets) != 2 || *g.Recovery != 2e9 {
		t.Errorf("the merged group is %+v", g)
	}
	if g := c.Groups[2]; g.Name != "c" || len(g.Targets) != 2 || *g.Recovery != 2e9 || *g.SwitchDelay != 3e9 {
		t.Errorf("the group merged of two is %+v", g)
	}
	if place, _ := u.Place("groups[1].recovery"); place.Line != 5 {
		t.Errorf("a merged value is from %v, want line 5", place)
	}
}

func TestBadSyntax(t *testing.T) {
	for name, text := range map[string]string{
		"a.yaml": "client: [", "b.yaml": "a: 1\n---\nb: 1", "c.yaml": "a: &x [*x]", "d.yaml": "\tx: 1", "e.yaml": "a: *nobody",
		"a.json": `{"client":`, "b.json": `{} {}`, "c.json": `[]`, "d.json": `{"client": {"name": "a",}}`,
		"a.toml": `client = `, "b.toml": "[client]\n[client]", "c.toml": "a = 1\na = 2",
		"a.ini": "x=1", "none": "x",
		"large.yaml": "#" + strings.Repeat("x", configsource.MaxBytes),
	} {
		_, err := loadText(t, name, text)
		if n := len(configsource.Problems(err)); n != 1 || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %d problems, want one that names the file: %v", name, n, err)
		}
	}
	dir := configsource.File(t.TempDir(), configsource.FileOptions{Format: configsource.YAML})
	if _, err := dir.Load(context.Background()); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a directory gives %v", err)
	}
}
