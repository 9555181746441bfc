package sdk_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/slicewire/slicewire/sdk/sdktest"
)

// childVariable tells a run of the test binary that it is the one behind the
// proxy. net/http reads HTTPS_PROXY once per process, so it needs its own.
const childVariable = "SLICEWIRE_TEST_PROXY_ROUTES"

// TestIdentityBehindProxy_A02: grpc-go rebuilds every endpoint with the proxy's
// address and without attributes; keys still follow hostnames.
func TestIdentityBehindProxy_A02(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		t.Skip("runs in the parent process")
	}
	t.Parallel()
	backends := make(map[string]*sdktest.Backend)
	routes := make(map[string]string)
	for _, name := range []string{"h1", "h2", "h3"} {
		b, err := sdktest.StartBackend(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		backends[name] = b
		routes[name+".test:443"] = b.Addr()
	}
	proxy, err := sdktest.StartProxy(routes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestBehindProxyChild$", "-test.v")
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.Contains(strings.ToUpper(v), "_PROXY=")
	}), childVariable+"=1", "HTTPS_PROXY="+proxy.URL())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestBehindProxyChild") {
		t.Fatalf("behind the proxy: %v\n%s", err, out)
	}
	connects := proxy.Connects()
	slices.Sort(connects)
	if got := slices.Compact(connects); !slices.Equal(got, []string{"h1.test:443", "h2.test:443", "h3.test:443"}) {
		t.Errorf("the proxy was asked for %q", got)
	}
	for name, b := range backends {
		if b.Count() == 0 {
			t.Errorf("%s was not reached", name)
		}
	}
}

// TestBehindProxyChild is the other half of TestIdentityBehindProxy_A02.
func TestBehindProxyChild(t *testing.T) {
	if os.Getenv(childVariable) == "" {
		t.Skip("run by TestIdentityBehindProxy_A02")
	}
	forms := map[string]func(byName map[string]string) resolver.State{
		"hostnames": func(byName map[string]string) resolver.State {
			var s resolver.State
			for _, name := range []string{"h1", "h2", "h3"} {
				s.Endpoints = append(s.Endpoints, sdktest.Endpoint(name, byName[name]))
			}
			return s
		},
		// Without hostnames the first address is the name, not the proxy's.
		"addresses": func(byName map[string]string) resolver.State {
			var s resolver.State
			for _, name := range []string{"h1", "h2", "h3"} {
				s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: byName[name]}}})
			}
			return s
		},
		// The older form of a resolver's answer, behind the same proxy.
		"address list": func(byName map[string]string) resolver.State {
			var s resolver.State
			for _, name := range []string{"h1", "h2", "h3"} {
				s.Addresses = append(s.Addresses, resolver.Address{Addr: byName[name]})
			}
			return s
		},
	}
	for form, state := range forms {
		t.Run(form, func(t *testing.T) {
			addr := func(host string) string { return host + ".test:443" }
			name := addr
			if form == "hostnames" {
				name = func(host string) string { return host }
			}
			c := sdktest.NewCluster(t)
			c.Sharding().Assign(testTarget, sdktest.Ranges(
				sdktest.From("", name("h1")), sdktest.From("g", name("h2")), sdktest.From("m", name("h3"))))
			c.Resolver().UpdateState(state(map[string]string{"h1": addr("h1"), "h2": addr("h2"), "h3": addr("h3")}))
			f := dial(t, c, testSharding())
			expect := func(want ...string) string {
				for i, key := range []string{"a", "h", "z"} {
					if got, err := f.call(key, 5*time.Second); err != nil || got != want[i] {
						return fmt.Sprintf("key %d reached %q, %v; want %q", i, got, err, want[i])
					}
				}
				return ""
			}
			for range 5 {
				if fault := expect("h1", "h2", "h3"); fault != "" {
					t.Fatal(fault)
				}
			}
			if form != "hostnames" {
				return
			}
			// An update swaps the ports of h1 and h2, and one reorders the list.
			c.Resolver().UpdateState(state(map[string]string{"h1": addr("h2"), "h2": addr("h1"), "h3": addr("h3")}))
			eventually(t, "the swap", func() bool { return expect("h2", "h1", "h3") == "" })
			s := state(map[string]string{"h1": addr("h1"), "h2": addr("h2"), "h3": addr("h3")})
			slices.Reverse(s.Endpoints)
			c.Resolver().UpdateState(s)
			eventually(t, "the new order", func() bool { return expect("h1", "h2", "h3") == "" })
		})
	}
}
