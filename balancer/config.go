package balancer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
)

const (
	// Name is the policy's own name; the SDK's channels use it.
	Name = "slicewire"
	// AutoshardingName is the name gRFC A119 gives the policy. Another package
	// may register the same name; the last one registered wins.
	AutoshardingName = "autosharding_experimental"
)

// DefaultInitialAssignmentTimeout is how long RPCs wait for the first
// assignment unless the config says otherwise (A119).
const DefaultInitialAssignmentTimeout = 60 * time.Second

// Config is the policy's LB config (A119, load balancing configuration).
// Treat it as immutable.
type Config struct {
	serviceconfig.LoadBalancingConfig `json:"-"`

	// Unsharded ("sharding": false) says that nothing is routed by slices: the
	// fields below are not needed then, and the default selector's policy is p2c
	// unless another was published.
	Unsharded bool
	// Selectors ("selectors", an object of names and built-in policies, as in
	// {"default": "p2c", "reads": "round_robin"}) are published, and declared where
	// there are none, with the source FromResolver. Of a selector that a later config
	// leaves out that word is withdrawn: what code or a configuration said last is in
	// force again, and a selector that neither has spoken of is removed.
	Selectors map[string]selection.Policy
	// ChannelFactoryKey ("channelFactoryKey") is what the ClientConnProvider is
	// asked for. Required.
	ChannelFactoryKey string
	// SlicingTarget ("slicingTarget", in the draft 2026-10 "autoshardingTarget") is
	// what the sharding service is asked to shard. The first
	// "%s" is replaced by the locality, or by "" where there is none. Required.
	SlicingTarget string
	// KeyHeader ("sliceKeyHeaderName", in the draft 2026-10 "keyHeaderName") is the
	// request header that carries the key, in lower case; a name that ends in
	// "-bin" carries any bytes. Required.
	KeyHeader string
	// EnableFallback ("enableFallback") lets RPCs whose slice nobody serves go to any endpoint.
	EnableFallback bool
	// InitialAssignmentTimeout ("initialAssignmentTimeout", as in "60s") bounds the wait for the first assignment on a new
	// channel to the sharding service. Zero means DefaultInitialAssignmentTimeout.
	InitialAssignmentTimeout time.Duration
	// Revision ("specRevision") is the draft of A119 to follow.
	Revision assignment.Revision
}

// ParseConfig parses the JSON form of a Config. Both drafts' field names are
// accepted, in camelCase and snake_case; unknown fields are ignored, as grpc-go
// does for service configs. The error names every field that is wrong, its
// value, and what is allowed.
func ParseConfig(js json.RawMessage) (*Config, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(js, &members); err != nil {
		return nil, fmt.Errorf("%s: the LB config must be a JSON object: %w", Name, err)
	}
	r := configReader{members: members}
	c := &Config{InitialAssignmentTimeout: DefaultInitialAssignmentTimeout}
	sharding := true
	r.value(&sharding, "true or false", "sharding")
	c.Unsharded = !sharding
	if sharding {
		r.required(&c.ChannelFactoryKey, "channelFactoryKey")
		r.required(&c.SlicingTarget, "slicingTarget", "autoshardingTarget")
	}
	if _, named := r.find("sliceKeyHeaderName", "keyHeaderName"); sharding || named != nil {
		r.header(&c.KeyHeader, "sliceKeyHeaderName", "keyHeaderName")
	}
	r.selectors(&c.Selectors)
	r.value(&c.EnableFallback, "true or false", "enableFallback")
	r.timeout(&c.InitialAssignmentTimeout, "initialAssignmentTimeout")
	r.revision(&c.Revision, "specRevision")
	if err := errors.Join(r.problems...); err != nil {
		return nil, fmt.Errorf("%s: bad LB config: %w", Name, err)
	}
	return c, nil
}

// JSON returns the config in the form ParseConfig reads, under the default
// draft's names.
func (c *Config) JSON() json.RawMessage {
	if c.Unsharded {
		out := map[string]any{"sharding": false}
		if c.KeyHeader != "" {
			out["sliceKeyHeaderName"] = c.KeyHeader
		}
		return c.withSelectors(out)
	}
	out := map[string]any{
		"channelFactoryKey":  c.ChannelFactoryKey,
		"slicingTarget":      c.SlicingTarget,
		"sliceKeyHeaderName": c.KeyHeader,
		"enableFallback":     c.EnableFallback,
		"specRevision":       c.Revision.String(),
	}
	if d := c.InitialAssignmentTimeout; d != 0 {
		js, err := protojson.Marshal(durationpb.New(d))
		if err != nil {
			js = fmt.Appendf(nil, "%q", d.String()) // out of protobuf's range: ParseConfig names it
		}
		out["initialAssignmentTimeout"] = json.RawMessage(js)
	}
	return c.withSelectors(out)
}

func (c *Config) withSelectors(out map[string]any) json.RawMessage {
	if len(c.Selectors) > 0 {
		names := make(map[string]string, len(c.Selectors))
		for name, p := range c.Selectors {
			names[name] = p.String()
		}
		out["selectors"] = names
	}
	js, err := json.Marshal(out)
	if err != nil {
		panic("slicewire: a map of strings and booleans did not marshal: " + err.Error())
	}
	return js
}

// MarshalJSON returns JSON: some LB policies pass their child's config on by
// marshaling it, for it to be parsed again.
func (c *Config) MarshalJSON() ([]byte, error) { return c.JSON(), nil }

// Sharded says that calls can be routed by slices.
func (c *Config) Sharded() bool { return !c.Unsharded }

// target is SlicingTarget for one locality.
func (c *Config) target(locality string) string {
	return strings.Replace(c.SlicingTarget, "%s", locality, 1)
}

// configReader reads known members of a JSON object and collects what is wrong.
type configReader struct {
	members  map[string]json.RawMessage
	problems []error
}

// find returns the one spelling that is set, and its name as it was written.
func (r *configReader) find(camelNames ...string) (name string, raw json.RawMessage) {
	for _, camel := range camelNames {
		for _, n := range [...]string{camel, snakeCase(camel)} {
			v, ok := r.members[n]
			if !ok || string(v) == "null" {
				continue
			}
			if raw != nil && !sameJSON(raw, v) {
				r.fail("fields %q and %q mean the same and are both set, to %s and %s; set one of them", name, n, raw, v)
				return "", nil
			}
			name, raw = n, v
		}
	}
	return name, raw
}

func (r *configReader) fail(format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf(format, args...))
}

// value decodes a member into dst; it says whether the member was there and right.
func (r *configReader) value(dst any, allowed string, names ...string) bool {
	before := len(r.problems)
	name, raw := r.find(names...)
	if raw == nil || len(r.problems) > before {
		return false
	}
	if err := json.Unmarshal(raw, dst); err != nil {
		r.fail("field %q is %s; it must be %s", name, raw, allowed)
		return false
	}
	return true
}

func (r *configReader) required(dst *string, names ...string) {
	before := len(r.problems)
	if r.value(dst, "a string", names...) || len(r.problems) > before {
		if *dst != "" || len(r.problems) > before {
			return
		}
	}
	r.fail("field %q is missing or empty; it must be a string of at least one character", names[0])
}

func (r *configReader) header(dst *string, names ...string) {
	before := len(r.problems)
	r.required(dst, names...)
	if len(r.problems) > before {
		return
	}
	h, err := callinfo.ParseHeader(*dst)
	if err != nil {
		r.fail("field %q: %w", names[0], err)
		return
	}
	*dst = h
}

func (r *configReader) timeout(dst *time.Duration, names ...string) {
	const allowed = `a duration above zero such as "60s" or "0.5s"`
	var text string
	if !r.value(&text, allowed, names...) {
		return
	}
	// A string that is a protobuf JSON duration holds no quotes, so quoting it
	// the JSON way loses nothing.
	quoted, err := json.Marshal(text)
	if err != nil {
		r.fail("field %q is %q; it must be %s", names[0], text, allowed)
		return
	}
	var d durationpb.Duration
	if err := protojson.Unmarshal(quoted, &d); err != nil || d.AsDuration() <= 0 {
		r.fail("field %q is %q; it must be %s", names[0], text, allowed)
		return
	}
	*dst = d.AsDuration()
}

func (r *configReader) selectors(dst *map[string]selection.Policy) {
	var byName map[string]string
	if !r.value(&byName, `an object of selectors' names and policies, as in {"reads": "p2c"}`, "selectors") {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		p, err := selection.ByName(byName[name])
		switch {
		case name == "":
			r.fail("field \"selectors\" has an empty name; a selector needs at least one character, the default one is %q", DefaultSelector)
		case err != nil:
			r.fail("field \"selectors\", selector %q: %w", name, err)
		default:
			if *dst == nil {
				*dst = make(map[string]selection.Policy)
			}
			(*dst)[name] = p
		}
	}
}

func (r *configReader) revision(dst *assignment.Revision, names ...string) {
	const allowed = `"2026-08" or "2026-10"`
	var text string
	if !r.value(&text, allowed, names...) {
		return
	}
	rev, err := assignment.ParseRevision(text)
	if err != nil {
		r.fail("field %q is %q; it must be %s", names[0], text, allowed)
		return
	}
	*dst = rev
}

// snakeCase turns a lowerCamelCase name into lower_snake_case.
func snakeCase(camel string) string {
	var b strings.Builder
	for _, c := range camel {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// sameJSON says whether two values decode to equal scalars.
func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	switch x.(type) {
	case string, bool, float64:
		return x == y
	}
	return string(a) == string(b)
}
