package sdk_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/configsource"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// environment is variables of a test's own.
func environment(variables ...string) configsource.Source {
	return configsource.EnvFrom("", func() []string { return variables })
}

// TestPrecedence is the table of docs/configuration.md: each set of those that may say
// something, of a setting that all of them have, the key header.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	who := []string{"code", "file", "environment", "resolver"}
	for set := range 1 << len(who) {
		says := func(i int) bool { return set>>i&1 == 1 }
		var names []string
		for i, name := range who {
			if says(i) {
				names = append(names, name)
			}
		}
		t.Run(strings.Join(names, " and "), func(t *testing.T) {
			t.Parallel()
			c := sdktest.NewCluster(t, "a")
			c.Sharding().AssignEven(testTarget, "a")
			opts := []sdk.Option{quickStream()}
			want := ""
			if says(0) {
				want = "x-code"
				opts = append(opts, sdk.WithSharding(sdk.Sharding{ServiceKey: "main", Target: testTarget, KeyHeader: want}))
			}
			text := "inCode: {shardingServices: [main]}\n"
			if says(1) {
				want = "x-file"
				text += fmt.Sprintf("sharding: {serviceKey: main, target: %s, keyHeader: %s}\n", testTarget, want)
			}
			sources := []configsource.Source{configsource.File(newConfigFile(t, text).path, configsource.FileOptions{})}
			if says(2) {
				want = "x-environment"
				sources = append(sources, environment("SLICEWIRE_SHARDING_SERVICE_KEY=main",
					"SLICEWIRE_SHARDING_TARGET="+testTarget, "SLICEWIRE_SHARDING_KEY_HEADER="+want))
			}
			if says(3) {
				want = "x-resolver"
				c.Resolver().SetServiceConfig(shardingConfig(balancer.Name, "main", testTarget, want))
			}
			f := withoutSharding(t, c, append(opts, sdk.WithConfigSource(configsource.Overlay(sources...)))...)
			f.who(t, "k")
			got := ""
			for header := range c.Backend("a").Calls()[0].Metadata {
				if strings.HasPrefix(header, "x-") {
					got += header
				}
			}
			if got != want {
				t.Errorf("the key came in %q, want it in %q", got, want)
			}
		})
	}
}

// TestPrecedenceOfRetries: whatever is configured, methodConfig is the resolver's, and
// code's where the resolver says nothing, also after a reload.
func TestPrecedenceOfRetries(t *testing.T) {
	t.Parallel()
	const none = `"methodConfig": []`
	for name, tc := range map[string]struct {
		code, resolver string
		retried        bool
	}{
		"code":              {"{" + retryConfig + "}", "", true},
		"resolver":          {"", "{" + retryConfig + "}", true},
		"resolver, not":     {"{" + retryConfig + "}", "{" + none + "}", false},
		"both, resolver so": {"{" + none + "}", "{" + retryConfig + "}", true},
		"neither":           {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sdktest.NewCluster(t, "a")
			c.Sharding().AssignEven(testTarget, "a")
			if tc.resolver != "" {
				c.Resolver().SetServiceConfig(tc.resolver)
			}
			sharding := func(header string) string {
				return fmt.Sprintf("inCode: {shardingServices: [main]}\nsharding: {serviceKey: main, target: %s, keyHeader: %s}\n", testTarget, header)
			}
			file := newConfigFile(t, sharding("x-one"))
			opts := []sdk.Option{quickStream(), file.followed()}
			if tc.code != "" {
				opts = append(opts, sdk.WithServiceConfig(tc.code))
			}
			f := withoutSharding(t, c, opts...)
			for _, header := range []string{"x-one", "x-two"} {
				if header == "x-two" {
					file.save(sharding(header))
					eventually(t, "the other header", func() bool {
						s := f.client.Status()
						return s.Config != nil && s.Config.KeyHeader == header
					})
				}
				f.who(t, "k")
				c.Backend("a").FailNext(1, codes.Unavailable)
				if _, err := f.call("k", 5*time.Second); (err == nil) != tc.retried {
					t.Errorf("%s: a call that fails once: %v, want a retry to be %t", header, err, tc.retried)
				}
			}
		})
	}
}

// TestPrecedenceOfKeys: code, file, environment, and the profile on top; what is taken
// out of the file is as code says again.
func TestPrecedenceOfKeys(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a")
	for _, tc := range []struct {
		code, profile     bool
		file, environment string
		refused           bool
	}{
		{},
		{code: true, refused: true},
		{code: true, file: "default"},
		{file: "refuse", refused: true},
		{file: "refuse", environment: "default"},
		{file: "default", environment: "refuse", refused: true},
		{code: true, environment: "default"},
		{profile: true, file: "default", environment: "default", refused: true},
	} {
		t.Run(fmt.Sprintf("%+v", tc), func(t *testing.T) {
			t.Parallel()
			plain := "inCode: {profiles: [own]}\n" + strings.Replace(p.targets(), "}", ", profile: own}", 1) + "groups:\n  - {name: default, targets: [a]}\n"
			text := plain
			if tc.file != "" {
				text += "client: {unknownSelectors: " + tc.file + "}\n"
			}
			f := newConfigFile(t, text)
			src := configsource.File(f.path, configsource.FileOptions{Settle: 5 * time.Millisecond})
			if tc.environment != "" {
				src = configsource.Overlay(src, environment("SLICEWIRE_CLIENT_UNKNOWN_SELECTORS="+tc.environment))
			}
			var own, opts []sdk.Option
			if tc.profile {
				own = append(own, sdk.WithUnknownSelectorsRefused())
			}
			if tc.code {
				opts = append(opts, sdk.WithUnknownSelectorsRefused())
			}
			client := dialConfigured(t, f, append(opts, sdk.WithDialProfile("own", own...), sdk.WithConfigSource(src))...)
			served(t, client, "default", "a")
			refused := func() bool {
				_, err := sdktest.NewEcho(client).Who(selectorCtx(t, "nobody"), "")
				if err != nil && status.Code(err) != codes.Unavailable {
					t.Fatal(err)
				}
				return err != nil
			}
			if got := refused(); got != tc.refused {
				t.Errorf("a call by an unknown selector is refused: %t, want %t", got, tc.refused)
			}
			if tc.file != "" && tc.environment == "" {
				f.save(plain)
				versions(t, client, 2)
				if got := refused(); got != (tc.code || tc.profile) {
					t.Errorf("with nothing in the file any more a call is refused: %t", got)
				}
			}
		})
	}
}
