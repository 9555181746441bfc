package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/slicewire/slicewire/configsource"
)

// durations are what time.ParseDuration reads, but for those below zero and for a 0
// without a unit.
const durations = `^\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`

// makeSchema reflects the types, then adds what the table of keys knows.
func makeSchema(c comments) ([]byte, error) {
	reflector := &jsonschema.Reflector{
		Anonymous:                  true,
		ExpandedStruct:             true,
		FieldNameTag:               "key",
		RequiredFromJSONSchemaTags: true,
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			if t == reflect.TypeFor[time.Duration]() {
				return &jsonschema.Schema{Type: "string", Pattern: durations}
			}
			return nil
		},
	}
	s := reflector.Reflect(configsource.Config{})
	s.Properties.Set("$schema", &jsonschema.Schema{Type: "string", Description: "The schema of this file, for editors. It has no other meaning."})
	s.Title = "Configuration of a Slicewire client"
	s.Description = "See docs/configuration.md."
	for _, k := range configsource.Keys() {
		holder, property, err := find(s, k.Path)
		if err != nil {
			return nil, err
		}
		if property.Description, err = c.meaning(k.Type, k.Field, k.Path[strings.LastIndexByte(k.Path, '.')+1:]); err != nil {
			return nil, err
		}
		if err := describe(property, k); err != nil {
			return nil, fmt.Errorf("%s: %w", k.Path, err)
		}
		if name := last(k.Path); k.Required && !contains(holder.Required, name) {
			holder.Required = append(holder.Required, name)
		}
	}
	out, err := json.MarshalIndent(s, "", "  ")
	return append(out, '\n'), err
}

func contains(list []string, name string) bool {
	for _, s := range list {
		if s == name {
			return true
		}
	}
	return false
}

func last(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// find goes along a path such as groups[].targets and gives the object's schema and
// the key's own.
func find(root *jsonschema.Schema, path string) (holder, property *jsonschema.Schema, err error) {
	at := root
	for part := range strings.SplitSeq(path, ".") {
		holder = at
		key, list := strings.CutSuffix(part, "[]")
		p, ok := holder.Properties.Get(key)
		if !ok {
			return nil, nil, fmt.Errorf("the schema has no %s of %s", key, path)
		}
		property, at = p, p
		if list {
			at = p.Items
		}
		if name, ok := strings.CutPrefix(at.Ref, "#/$defs/"); ok {
			at = root.Definitions[name]
		}
	}
	return holder, property, nil
}

// describe adds limits, values and defaults to a key's schema.
func describe(s *jsonschema.Schema, k configsource.Key) error {
	target := s
	if k.Kind == "list of strings" {
		target = s.Items
		if k.Required || k.Enum != nil {
			s.MinItems = new(uint64(1))
		}
	}
	for _, v := range k.Enum {
		target.Enum = append(target.Enum, v)
	}
	switch k.Kind {
	case "string", "list of strings":
		if k.Enum == nil && last(k.Path) != "service" {
			target.MinLength = new(uint64(1))
		}
	case "integer", "number":
		s.Minimum, s.ExclusiveMinimum, s.Maximum = json.Number(k.Min), json.Number(k.Above), json.Number(k.Max)
	case "duration":
		if k.Min+k.Above+k.Max != "" {
			s.Description += " It has to be " + k.Allowed[strings.Index(k.Allowed, "1m30s, ")+len("1m30s, "):] + "."
		}
	}
	switch {
	case k.Default == "":
	case k.Kind == "duration":
		s.Default = k.Default
	default:
		return json.Unmarshal([]byte(k.Default), &s.Default)
	}
	return nil
}
