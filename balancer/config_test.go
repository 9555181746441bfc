package balancer

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slicewire/slicewire/balancer/assignment"
)

func TestParseConfig(t *testing.T) {
	want := Config{
		ChannelFactoryKey:        "prod",
		SlicingTarget:            "users",
		KeyHeader:                "x-user",
		InitialAssignmentTimeout: 60 * time.Second,
	}
	with := func(change func(*Config)) Config {
		c := want
		change(&c)
		return c
	}
	for _, tc := range []struct {
		name, js string
		want     Config
	}{
		{"2026-08 names", `{"channelFactoryKey":"prod","slicingTarget":"users","sliceKeyHeaderName":"x-user"}`, want},
		{"2026-10 names", `{"channelFactoryKey":"prod","autoshardingTarget":"users","keyHeaderName":"x-user"}`, want},
		{"2026-08 snake case", `{"channel_factory_key":"prod","slicing_target":"users","slice_key_header_name":"x-user"}`, want},
		{"2026-10 snake case", `{"channel_factory_key":"prod","autosharding_target":"users","key_header_name":"x-user"}`, want},
		{"both spellings, equal", `{"channelFactoryKey":"prod","slicingTarget":"users","autoshardingTarget":"users","keyHeaderName":"x-user"}`, want},
		{"unknown fields are ignored", `{"channelFactoryKey":"prod","slicingTarget":"users","keyHeaderName":"x-user","later":{"a":1}}`, want},
		{"null is unset", `{"channelFactoryKey":"prod","slicingTarget":"users","keyHeaderName":"x-user","enableFallback":null,"autoshardingTarget":null}`, want},
		{"IM-04 header in any case", `{"channelFactoryKey":"prod","slicingTarget":"users","keyHeaderName":"X-User"}`, want},
		{
			"fallback", `{"channelFactoryKey":"prod","slicingTarget":"users","keyHeaderName":"x-user","enableFallback":true}`,
			with(func(c *Config) { c.EnableFallback = true }),
		},
		{
			"timeout", `{"channelFactoryKey":"prod","slicingTarget":"users","keyHeaderName":"x-user","initial_assignment_timeout":"0.250s"}`,
			with(func(c *Config) { c.InitialAssignmentTimeout = 250 * time.Millisecond }),
		},
		{
			"revision", `{"channelFactoryKey":"prod","slicingTarget":"users","keyHeaderName":"x-user","specRevision":"2026-10"}`,
			with(func(c *Config) { c.Revision = assignment.Revision202610 }),
		},
		{
			"revision, default written out", `{"channelFactoryKey":"prod","slicingTarget":"users","keyHeaderName":"x-user","spec_revision":"2026-08"}`,
			want,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseConfig(json.RawMessage(tc.js))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			again, err := ParseConfig(got.JSON())
			if err != nil {
				t.Fatalf("JSON() does not parse: %v", err)
			}
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("JSON() loses something, -want +got:\n%s", diff)
			}
		})
	}
}

func TestParseConfigErrors(t *testing.T) {
	const rest = `"slicingTarget":"t","keyHeaderName":"h"`
	for _, tc := range []struct {
		name, js string
		want     []string // in the error
	}{
		{"not an object", `[1]`, []string{"JSON object"}},
		{"empty", `{}`, []string{`"channelFactoryKey" is missing`, `"slicingTarget" is missing`, `"sliceKeyHeaderName" is missing`}},
		{"empty string", `{"channelFactoryKey":"",` + rest + `}`, []string{`"channelFactoryKey" is missing or empty`}},
		{"wrong type, string", `{"channelFactoryKey":7,` + rest + `}`, []string{`"channelFactoryKey" is 7`, "a string"}},
		{"wrong type, snake", `{"channel_factory_key":{},` + rest + `}`, []string{`"channel_factory_key" is {}`, "a string"}},
		{"wrong type, bool", `{"channelFactoryKey":"k",` + rest + `,"enableFallback":"yes"}`, []string{`"enableFallback" is "yes"`, "true or false"}},
		{"both spellings, different", `{"channelFactoryKey":"k","slicingTarget":"a","autoshardingTarget":"b","keyHeaderName":"h"}`, []string{`"slicingTarget"`, `"autoshardingTarget"`, `"a"`, `"b"`}},
		{"camel and snake, different", `{"channelFactoryKey":"k","channel_factory_key":"l",` + rest + `}`, []string{`"channelFactoryKey"`, `"channel_factory_key"`}},
		{"timeout, number", `{"channelFactoryKey":"k",` + rest + `,"initialAssignmentTimeout":60}`, []string{`"initialAssignmentTimeout" is 60`, `"60s"`}},
		{"timeout, no unit", `{"channelFactoryKey":"k",` + rest + `,"initialAssignmentTimeout":"60"}`, []string{`"initialAssignmentTimeout" is "60"`, `"60s"`}},
		{"timeout, minutes", `{"channelFactoryKey":"k",` + rest + `,"initialAssignmentTimeout":"1m"}`, []string{`"1m"`}},
		{"timeout, negative", `{"channelFactoryKey":"k",` + rest + `,"initialAssignmentTimeout":"-1s"}`, []string{`"-1s"`, "above zero"}},
		{"timeout, zero", `{"channelFactoryKey":"k",` + rest + `,"initialAssignmentTimeout":"0s"}`, []string{`"0s"`, "above zero"}},
		{"revision", `{"channelFactoryKey":"k",` + rest + `,"specRevision":"2027-01"}`, []string{`"specRevision" is "2027-01"`, `"2026-08" or "2026-10"`}},
		{"IM-04 reserved header", `{"channelFactoryKey":"k","slicingTarget":"t","keyHeaderName":"grpc-key"}`, []string{"HeaderName", `"grpc-key"`, "reserved"}},
		{"IM-04 bad header", `{"channelFactoryKey":"k","slicingTarget":"t","keyHeaderName":"a b"}`, []string{"HeaderName", `"a b"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseConfig(json.RawMessage(tc.js))
			if err == nil {
				t.Fatalf("accepted as %+v", got)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
		})
	}
}

func TestConfigTargetReplacesOneToken(t *testing.T) {
	for _, tc := range []struct{ target, locality, want string }{
		{"users", "eu", "users"},
		{"users/%s", "eu", "users/eu"},
		{"users/%s", "", "users/"},
		{"%s/%s", "eu", "eu/%s"},
	} {
		if got := (&Config{SlicingTarget: tc.target}).target(tc.locality); got != tc.want {
			t.Errorf("A-22: target(%q) of %q = %q, want %q", tc.locality, tc.target, got, tc.want)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"channelFactoryKey":"prod","slicingTarget":"users","sliceKeyHeaderName":"x-user"}`))
	f.Add([]byte(`{"channel_factory_key":"p","autosharding_target":"u/%s","key_header_name":"k-bin","enable_fallback":true,"initial_assignment_timeout":"1.5s","spec_revision":"2026-10"}`))
	f.Add([]byte(`{"initialAssignmentTimeout":"99999999999999999s"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, js []byte) {
		c, err := ParseConfig(js)
		if err != nil {
			return
		}
		if c.ChannelFactoryKey == "" || c.SlicingTarget == "" || c.KeyHeader == "" || c.InitialAssignmentTimeout <= 0 {
			t.Fatalf("accepted an incomplete config: %+v", c)
		}
		again, err := ParseConfig(c.JSON())
		if err != nil {
			t.Fatalf("JSON() of an accepted config is refused: %v", err)
		}
		if diff := cmp.Diff(c, again); diff != "" {
			t.Fatalf("JSON() loses something: %s", diff)
		}
	})
}
