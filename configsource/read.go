package configsource

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/viper"
)

// Format is the language of a file.
type Format string

// The formats, by the endings of files: .yaml and .yml, .json, .toml.
const (
	YAML Format = "yaml"
	JSON Format = "json"
	TOML Format = "toml"
)

// MaxBytes is the size of the largest file that is read.
const MaxBytes = 16 << 20

// keyDelimiter joins nested keys within viper. No key of ours holds it, so none is
// split; one that does hold it is unknown like any other.
const keyDelimiter = "\x00"

// read parses a file. Viper gives the values: a fresh instance for each call, with
// nothing of viper's that lives longer than the call. It lowers the case of keys and
// knows no lines, so a locator of the format gives both.
func read(data []byte, f Format, origin string) (*node, error) {
	fail := func(allowed string, err error) (*node, error) {
		return nil, &Problem{Allowed: allowed, Place: Place{Origin: origin}, Err: err}
	}
	if len(data) > MaxBytes {
		return fail(fmt.Sprintf("the file has %d bytes; at most %d are read", len(data), MaxBytes), nil)
	}
	locate, ok := locators[f]
	if !ok {
		return fail(fmt.Sprintf("the format is %q; it has to be yaml, json or toml", f), nil)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		// Whoever truncates a file before writing it anew does not mean "no targets".
		return fail("the file is empty; if every value is to be the default, say so: {} in YAML and JSON, a comment in TOML", nil)
	}
	v := viper.NewWithOptions(viper.KeyDelimiter(keyDelimiter))
	v.SetConfigType(string(f))
	if err := v.ReadConfig(bytes.NewReader(data)); err != nil {
		var parse viper.ConfigParseError
		if errors.As(err, &parse) {
			err = errors.Unwrap(parse)
		}
		return fail("this is no "+strings.ToUpper(string(f)), err)
	}
	tree, err := locate(data, origin)
	if err != nil {
		return fail("this is no "+strings.ToUpper(string(f))+" that can be read", err)
	}
	if tree == nil || tree.kind == nodeNull {
		return fail("the file says nothing; if every value is to be the default, say so by {}", nil)
	}
	if tree.kind != nodeObject {
		return fail("the file has to be one object with keys of "+root().keys(), nil)
	}
	r := &report{}
	tree = fill(tree, v.AllSettings(), nil, r)
	return tree, r.err()
}

// locators find the keys and lines of a file: a tree without scalars' values.
var locators = map[Format]func(data []byte, origin string) (*node, error){
	YAML: locateYAML, JSON: locateJSON, TOML: locateTOML,
}

// fill puts values into a located tree. Where the two disagree (viper drops what is
// null and what is empty) the tree says what there is. Keys that differ only in
// case, which viper makes one, are a problem.
func fill(n *node, value any, at *path, r *report) *node {
	switch n.kind {
	case nodeScalar:
		out := *n
		out.value = value
		return &out
	case nodeList:
		values, _ := value.([]any)
		if maps, ok := value.([]map[string]any); ok { // TOML's arrays of tables, in some releases
			values = make([]any, len(maps))
			for i := range maps {
				values[i] = maps[i]
			}
		}
		out := &node{kind: nodeList, place: n.place, items: make([]*node, len(n.items))}
		for i, item := range n.items {
			var v any
			if i < len(values) {
				v = values[i]
			}
			out.items[i] = fill(item, v, at.at(i), r)
		}
		return out
	case nodeObject:
		out := &node{kind: nodeObject, place: n.place, members: make([]member, 0, len(n.members))}
		seen := make(map[string]member, len(n.members))
		for _, m := range n.members {
			lower := strings.ToLower(m.key)
			if other, twice := seen[lower]; twice {
				r.add(&Problem{
					Path: at.in(m.key).String(), Value: "written twice", Place: m.place,
					Allowed: fmt.Sprintf("it is also in line %d, as %s; write it once", other.place.Line, other.key),
				})
				continue
			}
			seen[lower] = m
			out.members = append(out.members, member{m.key, m.place, fill(m.node, inside(value, lower), at.in(m.key), r)})
		}
		return out
	}
	return n
}

func inside(value any, key string) any {
	switch m := value.(type) {
	case map[string]any:
		return m[key]
	case map[any]any:
		return m[key]
	}
	return nil
}
