package sdk_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// shardingConfig is a service config that routes by key.
func shardingConfig(policy, channelKey, target, header string) string {
	return fmt.Sprintf(`{"loadBalancingConfig": [{%q: {"channelFactoryKey": %q, "slicingTarget": %q, "sliceKeyHeaderName": %q}}]}`,
		policy, channelKey, target, header)
}

const retryConfig = `"methodConfig": [{"name": [{"service": "slicewire.test.Echo"}], "retryPolicy": {
	"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]`

// withoutSharding dials a cluster with a declared sharding service, and leaves
// the rest to service configs.
func withoutSharding(t *testing.T, c *sdktest.Cluster, opts ...sdk.Option) *fixture {
	t.Helper()
	client, err := sdk.Dial(c.Target(), append([]sdk.Option{plain, sdk.WithResolvers(c.Resolver()), quickStream(), quickService(c)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &fixture{Cluster: c, client: client, echo: sdktest.NewEcho(client)}
}

// Seed 000, service config: whichever name the resolver uses, its config is used
// in place of WithSharding's, and the very first RPC has its header.
func TestResolverConfigTakesThePlaceOfCode(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{balancer.Name, balancer.AutoshardingName} {
		for _, inCode := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in code too: %v", policy, inCode), func(t *testing.T) {
				t.Parallel()
				c := sdktest.NewCluster(t, "a", "b")
				c.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a")))
				c.Sharding().Assign("orders", sdktest.Ranges(sdktest.From("", "b")))
				c.Resolver().SetServiceConfig(shardingConfig(policy, "main", "orders", "X-Order"))
				var f *fixture
				if inCode {
					f = dial(t, c, testSharding(), quickStream())
				} else {
					f = withoutSharding(t, c)
				}
				if got := f.who(t, "k"); got != "b" {
					t.Errorf("reached %q, want b", got)
				}
				if keys := c.Backend("b").Keys("x-order"); len(keys) != 1 || keys[0] != "k" {
					t.Errorf("the header holds %q", keys)
				}
				if keys := c.Backend("b").Keys(testHeader); len(keys) > 0 {
					t.Errorf("the header of the code was sent as well: %q", keys)
				}
				if first := c.Sharding().FirstMessages(); len(first) != 1 || first[0].Target != "orders" {
					t.Errorf("first messages: %+v", first)
				}
			})
		}
	}
}

// What else is in a service config stays.
func TestMethodConfigIsKept(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, c *sdktest.Cluster) *fixture{
		"from the resolver, sharding in code": func(t *testing.T, c *sdktest.Cluster) *fixture {
			c.Resolver().SetServiceConfig("{" + retryConfig + "}")
			return dial(t, c, testSharding())
		},
		"from the resolver, with sharding": func(t *testing.T, c *sdktest.Cluster) *fixture {
			c.Resolver().SetServiceConfig(strings.TrimSuffix(shardingConfig(balancer.AutoshardingName, "main", testTarget, testHeader), "}") + "," + retryConfig + "}")
			return withoutSharding(t, c)
		},
		"from code": func(t *testing.T, c *sdktest.Cluster) *fixture {
			return dial(t, c, testSharding(), sdk.WithServiceConfig("{"+retryConfig+"}"))
		},
		"from code, with sharding": func(t *testing.T, c *sdktest.Cluster) *fixture {
			return withoutSharding(t, c, sdk.WithServiceConfig(strings.TrimSuffix(shardingConfig(balancer.Name, "main", testTarget, testHeader), "}")+","+retryConfig+"}"))
		},
	}
	for name, make := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sdktest.NewCluster(t, "a")
			c.AssignEven(testTarget)
			f := make(t, c)
			c.Backend("a").FailNext(2, codes.Unavailable)
			if got := f.who(t, "k"); got != "a" {
				t.Errorf("reached %q", got)
			}
			if keys := c.Backend("a").Keys(testHeader); strings.Join(keys, ",") != "k,k,k" {
				t.Errorf("the attempts carried %q, want three with one key each", keys)
			}
		})
	}
}

// The policy's name never changes, whatever a service config asks for, in
// whatever spelling gRPC would accept.
func TestOtherPoliciesAreIgnored(t *testing.T) {
	t.Parallel()
	for _, js := range []string{
		`{"loadBalancingConfig": [{"round_robin": {}}]}`,
		`{"loadBalancingPolicy": "round_robin"}`,
		`{"loadbalancingconfig": [{"round_robin": {}}]}`,
		`{"LOADBALANCINGCONFIG": [{"round_robin": {}}], "LoadBalancingPolicy": "round_robin"}`,
		`{"loadBalancingConfig": null}`,
		`{}`,
	} {
		t.Run(js, func(t *testing.T) {
			t.Parallel()
			f := start(t, testSharding(), []string{"a", "b"})
			f.assigned(t, sdktest.From("", "b"))
			_ = f.who(t, "k")
			before := f.Backend("b").Connections().Accepted
			f.Resolver().SetServiceConfig(js)
			for range 20 {
				if got := f.who(t, "k"); got != "b" {
					t.Fatalf("reached %q", got)
				}
			}
			if n := f.Backend("b").Connections().Accepted; n != before {
				t.Errorf("%d connections, before %d: the policy was rebuilt", n, before)
			}
			if s := f.client.Status(); s.ConfigErrors != 0 {
				t.Errorf("%d config errors: %v", s.ConfigErrors, s.LastConfigError)
			}
		})
	}
}

// Nobody says how to route: RPCs fail at once and say so.
func TestNoShardingAnywhere(t *testing.T) {
	t.Parallel()
	for name, js := range map[string]string{"no service config": "", "no policy": "{}", "another policy": `{"loadBalancingConfig": [{"round_robin": {}}]}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sdktest.NewCluster(t, "a")
			c.AssignEven(testTarget)
			c.Resolver().SetServiceConfig(js)
			f := withoutSharding(t, c)
			took := f.fails(t, withKey(t, 5*time.Second, "k"), codes.Unavailable,
				[]string{c.Target(), "nothing says how to route", balancer.AutoshardingName, "sdk.WithSharding"})
			if took > time.Second {
				t.Errorf("it failed after %v, want at once", took)
			}
			if _, err := f.client.WaitReady(within(t, 50*time.Millisecond)); err == nil || !strings.Contains(err.Error(), "nothing says how to route") ||
				strings.Count(err.Error(), "slicewire: ") != 1 || strings.Count(err.Error(), c.Target()) != 1 {
				t.Errorf("WaitReady: %v", err)
			}
			if n := c.Backend("a").Connections().Accepted; n > 0 {
				t.Errorf("%d connections were made", n)
			}
			c.Resolver().SetServiceConfig(shardingConfig(balancer.AutoshardingName, "main", testTarget, testHeader))
			if got := f.who(t, "k"); got != "a" {
				t.Errorf("with a config the key reached %q", got)
			}
			// A resolver that falls silent about it later changes nothing; its endpoints
			// are taken.
			c.Resolver().SetServiceConfig("")
			if _, err := c.Start("b"); err != nil {
				t.Fatal(err)
			}
			if err := c.Resolve("b", "a"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "two endpoints", func() bool { return len(f.client.Status().Endpoints) == 2 })
			if got := f.who(t, "k"); got != "a" {
				t.Errorf("reached %q", got)
			}
		})
	}
}

func TestBadServiceConfigChangesNothing(t *testing.T) {
	t.Parallel()
	bad := map[string]struct{ js, text string }{
		"no JSON":        {`{`, "JSON object"},
		"a list":         {`[]`, "JSON object"},
		"policy list":    {`{"loadBalancingConfig": {}}`, "list of objects"},
		"two spellings":  {`{"loadBalancingConfig": [{"round_robin": {}}], "LoadBalancingConfig": [{"pick_first": {}}]}`, "two spellings"},
		"method config":  {`{"methodConfig": [{"name": [{"method": "m"}]}]}`, ""},
		"missing fields": {`{"loadBalancingConfig": [{"slicewire": {}}]}`, "channelFactoryKey"},
		"wrong type":     {`{"loadBalancingConfig": [{"slicewire": {"channelFactoryKey": 7, "slicingTarget": "t", "sliceKeyHeaderName": "h"}}]}`, "channelFactoryKey"},
		"bad header":     {shardingConfig(balancer.Name, "main", "other", "grpc-key"), "grpc-key"},
		"taken header":   {shardingConfig(balancer.Name, "main", "other", "x-retry-attempt"), "x-retry-attempt"},
	}
	for name, b := range bad {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logBook
			f := start(t, testSharding(), []string{"a", "b"}, log.option())
			f.assigned(t, sdktest.From("", "a"))
			_ = f.who(t, "k")
			before := *f.client.Status().Config
			tr := keepCalling(f, map[string]string{"k": "a"})
			f.Resolver().SetServiceConfig(b.js)
			tr.more(t, 20)
			s := f.client.Status()
			if s.Config.SlicingTarget != before.SlicingTarget || s.Config.KeyHeader != before.KeyHeader {
				t.Errorf("the config in force is %+v", s.Config)
			}
			if s.ConfigErrors != 1 || s.LastConfigError == nil || !strings.Contains(s.LastConfigError.Error(), b.text) {
				t.Errorf("%d config errors: %v", s.ConfigErrors, s.LastConfigError)
			}
			if !strings.Contains(log.String(), "a service config was refused") {
				t.Errorf("not logged: %s", log.String())
			}
			// The endpoints of the same update are taken.
			if err := f.Resolve("b", "a"); err != nil {
				t.Error(err)
			}
			eventually(t, "the new endpoints", func() bool { return f.client.Status().Endpoints[0].Name == "b" })
			tr.end(t)
		})
		t.Run(name+", first of all", func(t *testing.T) {
			t.Parallel()
			c := sdktest.NewCluster(t, "a")
			c.AssignEven(testTarget)
			c.Resolver().SetServiceConfig(b.js)
			if got := dial(t, c, testSharding()).who(t, "k"); got != "a" {
				t.Errorf("with sharding in code the key reached %q", got)
			}
			f := withoutSharding(t, c)
			f.fails(t, withKey(t, 5*time.Second, "k"), codes.Unavailable, []string{b.text})
		})
	}
}

// A service config chooses among the declared sharding services, it brings none.
func TestServiceConfigCannotDialAnUndeclaredService(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		other, err := sdktest.StartSharding()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(other.Close)
		f := startQuick(t, testSharding(inRevision), []string{"a", "b"})
		f.assigned(t, sdktest.From("", "a"), sdktest.From("m", "b"))
		_, _ = f.who(t, "alice"), f.who(t, "zoe")
		tr := keepCalling(f, outageOwners)
		for _, key := range []string{other.Addr(), "dns:///" + other.Addr(), "nobody"} {
			f.Resolver().SetServiceConfig(shardingConfig(balancer.Name, key, testTarget, testHeader))
			eventually(t, "the error", func() bool {
				return strings.Contains(f.client.Status().Assignment.LastError, fmt.Sprintf("%q", key))
			})
			text := f.client.Status().Assignment.LastError
			for _, want := range []string{"declared are main", "sdk.WithShardingService"} {
				if !strings.Contains(text, want) {
					t.Errorf("the error lacks %q: %s", want, text)
				}
			}
		}
		tr.more(t, 50)
		if n := other.Connections().Accepted; n != 0 {
			t.Errorf("the undeclared service got %d connections", n)
		}
		// Back to the declared one.
		f.Resolver().SetServiceConfig(shardingConfig(balancer.Name, "main", testTarget, testHeader))
		f.reaches(t, f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b"))))
		tr.end(t)
	})
}

// The header changes under traffic, also several times in a row, and while an
// RPC is queued.
func TestHeaderChangesUnderTraffic(t *testing.T) {
	t.Parallel()
	f := startQuick(t, testSharding(), []string{"a", "b"})
	f.assigned(t, sdktest.From("", "a"), sdktest.From("m", "b"))
	_, _ = f.who(t, "alice"), f.who(t, "zoe")
	var all []*steady
	for range 4 {
		all = append(all, keepCalling(f, outageOwners))
	}
	header := ""
	for i := range 300 {
		header = fmt.Sprintf("x-key-%d", i)
		f.Resolver().SetServiceConfig(shardingConfig(balancer.Name, "main", testTarget, header))
		all[i%len(all)].more(t, 4)
	}
	for _, tr := range all {
		tr.end(t)
	}
	f.Backend("a").Forget()
	eventually(t, "the last header", func() bool {
		_ = f.who(t, "alice")
		return len(f.Backend("a").Keys(header)) > 0
	})
	if n := f.Sharding().Streams().Opened; n != 1 {
		t.Errorf("%d streams: another header is no reason for another one", n)
	}
}

func TestHeaderChangesWhileRPCsQueue(t *testing.T) {
	t.Parallel()
	f := startQuick(t, testSharding(), []string{"a"})
	f.openStream(t)
	answers := make(chan error, 10)
	for range cap(answers) {
		go func() {
			_, err := f.echo.Who(withKey(t, 8*time.Second, "k"), "")
			answers <- err
		}()
	}
	eventually(t, "queued picks", func() bool { return f.client.Status().Picks.Queued >= 10 })
	for i := range 3 {
		f.Resolver().SetServiceConfig(shardingConfig(balancer.Name, "main", testTarget, fmt.Sprintf("x-key-%d", i)))
		eventually(t, "the config", func() bool { return f.client.Status().Config.KeyHeader == fmt.Sprintf("x-key-%d", i) })
	}
	f.AssignEven(testTarget)
	for range cap(answers) {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

// The header changes while the channel is idle: the first RPC after is told only
// in the middle of its way.
func TestHeaderChangesWhileIdle_A33(t *testing.T) {
	t.Parallel()
	f := startQuick(t, testSharding(), []string{"a"}, idleAfter(100*time.Millisecond))
	f.assigned(t, sdktest.From("", "a"))
	_ = f.who(t, "k")
	f.idles(t)
	f.Resolver().SetServiceConfig(shardingConfig(balancer.Name, "main", testTarget, "x-new"))
	for range 3 {
		if got := f.who(t, "k"); got != "a" {
			t.Errorf("reached %q", got)
		}
	}
	if keys := f.Backend("a").Keys("x-new"); len(keys) < 2 {
		t.Errorf("the new header was sent %d times", len(keys))
	}
}
