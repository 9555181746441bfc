package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/slicewire/slicewire/configsource"
)

// TestNothingIsStale: what is checked in is what the types give.
func TestNothingIsStale(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is stale (%v); run go -C configsource/generate run .", strings.TrimLeft(name, "./"), err)
		}
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON is what a source says, as an editor hands it to a schema.
func asJSON(t *testing.T, text string) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSchemaAndLoader: of each text the schema and the loader say the same, as far as
// a schema can know.
func TestSchemaAndLoader(t *testing.T) {
	schema := compiled(t)
	const target = `"targets": [{"name": "a", "uri": "a:1"}]`
	for text, valid := range map[string]bool{
		`{}`: true,
		`{"$schema": "../configsource/schema.json"}`: true,
		`{"client": {"$schema": "x"}}`:               false,
		`{` + target + `, "groups": [{"name": "g", "targets": ["a"], "recovery": "1.5s", "switchDelay": "1m30s"}]}`: true,
		`{"client": {"drainTimeout": "500µs", "keys": "optional", "keepLastEndpoints": true}}`:                      true,
		`{"breaker": {"ratio": 0.5, "halfOpen": 31, "codes": ["UNAVAILABLE"]}}`:                                     true,
		`{"breaker": {}}`: true,
		`{"health": {"checker": {"kind": "http", "path": "/x"}, "interval": "1h", "failAllUnhealthy": true}}`: true,
		`{"selectors": [{"name": "s", "policy": {"kind": "sliced", "inSlice": {"kind": "p2c"}}}]}`:            true,
		`{"monitor": {"checker": {"kind": "grpc", "service": ""}}}`:                                           true,

		`{"clint": {}}`:                                           false,
		`{"client": {"drainTimeout": 5}}`:                         false,
		`{"client": {"drainTimeout": "5"}}`:                       false,
		`{"client": {"drainTimeout": "-5s"}}`:                     false,
		`{"client": {"keys": "maybe"}}`:                           false,
		`{"client": {"name": ""}}`:                                false,
		`{"targets": [{"name": "a"}]}`:                            false,
		`{"targets": {"a": {"uri": "a:1"}}}`:                      false,
		`{"groups": [{"name": "g", "targets": []}]}`:              false,
		`{"breaker": {"ratio": 0}}`:                               false,
		`{"breaker": {"ratio": 1.5}}`:                             false,
		`{"breaker": {"halfOpen": 32}}`:                           false,
		`{"breaker": {"halfOpen": 1.5}}`:                          false,
		`{"breaker": {"codes": ["unavailable"]}}`:                 false,
		`{"breaker": {"codes": []}}`:                              false,
		`{"health": {}}`:                                          false,
		`{"selectors": [{"name": "s"}]}`:                          false,
		`{"selectors": [{"name": "s", "policy": {"kind": "x"}}]}`: false,
	} {
		if err := schema.Validate(asJSON(t, text)); (err == nil) != valid {
			t.Errorf("%s: the schema says %v, want valid to be %t", text, err, valid)
		}
		path := filepath.Join(t.TempDir(), "x.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := configsource.File(path, configsource.FileOptions{}).Load(context.Background()); (err == nil) != valid {
			t.Errorf("%s: the loader says %v, want valid to be %t", text, err, valid)
		}
	}
}

// TestSchemaHasEveryKey: each has its meaning and, if it has one, its default there.
func TestSchemaHasEveryKey(t *testing.T) {
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	for _, k := range configsource.Keys() {
		p := property(schema, k.Path)
		if text, _ := p["description"].(string); text == "" {
			t.Errorf("%s has no description", k.Path)
		}
		if _, ok := p["default"]; ok != (k.Default != "") {
			t.Errorf("%s has the default %v, want %q", k.Path, p["default"], k.Default)
		}
	}
}

// property is the schema of a path.
func property(schema map[string]any, path string) map[string]any {
	at := schema
	var p map[string]any
	for part := range strings.SplitSeq(path, ".") {
		key, list := strings.CutSuffix(part, "[]")
		properties, _ := at["properties"].(map[string]any)
		p, _ = properties[key].(map[string]any)
		if at = p; list {
			at, _ = p["items"].(map[string]any)
		}
		if ref, ok := at["$ref"].(string); ok {
			defs, _ := schema["$defs"].(map[string]any)
			at, _ = defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		}
	}
	return p
}

// TestExampleOfThePage: what the page shows is valid.
func TestExampleOfThePage(t *testing.T) {
	_, rest, _ := strings.Cut(intro, "```yaml\n")
	text, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page shows no example")
	}
	path := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := configsource.File(path, configsource.FileOptions{}).Load(context.Background()); err != nil {
		t.Error(err)
	}
}
