package sdk_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// overRouter is a cluster behind a plain gRPC channel that a Router of the test's
// routes, for options that the client has not.
func overRouter(t testing.TB, names []string, o balancer.RouterOptions) (*sdktest.Cluster, *balancer.Router, sdktest.Echo) {
	t.Helper()
	r := balancer.NewRouter(o)
	t.Cleanup(r.Close)
	c := sdktest.NewCluster(t, names...)
	c.Resolver().SetServiceConfig(fmt.Sprintf(`{"loadBalancingConfig": [{%q: {"sharding": false}}]}`, balancer.Name))
	c.Resolver().UpdateState(balancer.SetRouter(c.Resolver().State(), r))
	cc, err := grpc.NewClient(c.Target(), plaintext, grpc.WithResolvers(c.Resolver()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return c, r, sdktest.NewEcho(cc)
}

// TestS06BadResultsUseP2C: where that was asked for, p2c chooses instead of a policy
// that gives a bad result, and the result is counted all the same.
func TestS06BadResultsUseP2C(t *testing.T) {
	t.Parallel()
	_, r, echo := overRouter(t, []string{"e1", "e2"}, balancer.RouterOptions{BadResultsUseP2C: true})
	got := make(map[string]int)
	for reason, policy := range map[string]selectFunc{
		"panic":        func(selection.Input) int { panic("no idea") },
		"out_of_range": func(in selection.Input) int { return in.Len() },
	} {
		if _, err := r.Selector(balancer.DefaultSelector).Publish(selection.Custom("bad-"+reason, policy), balancer.FromCode); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a bad result", func() bool {
			name, err := echo.Who(within(t, 10*time.Second), "")
			if err != nil {
				t.Fatal(err)
			}
			got[name]++
			return r.Status().Selectors[0].BadResults[reason] >= 50
		})
	}
	if got["e1"] < 10 || got["e2"] < 10 {
		t.Errorf("the calls went to %v, want both", got)
	}
}

// TestS15StrictSingle: where that was asked for, a publication is refused while
// there is one endpoint, and changes nothing. A service config is not refused.
func TestS15StrictSingle(t *testing.T) {
	t.Parallel()
	f := startPlain(t, []string{"e1", "e2"}, selection.LeastPending(), sdk.WithStrictSingle())
	if err := f.Resolve("e1"); err != nil {
		t.Fatal(err)
	}
	f.whoBy(t, "", "")
	s := f.client.Selector(sdk.DefaultSelector)
	for _, source := range []balancer.Source{balancer.FromCode, balancer.FromConfig} {
		if _, err := s.Publish(selection.RoundRobin(), source); !errors.Is(err, balancer.ErrSingleEndpoint) {
			t.Errorf("with a single endpoint, from %v: %v", source, err)
		}
	}
	if p := s.Policy().String(); p != "least_pending" {
		t.Errorf("the policy is %s", p)
	}
	f.Resolver().SetServiceConfig(fmt.Sprintf(`{"loadBalancingConfig": [{%q: {"sharding": false, "selectors": {"default": "random"}}}]}`, balancer.Name))
	eventually(t, "the policy of the service config", func() bool { return s.Policy().String() == "random" })
	if err := f.Resolve("e1", "e2"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two endpoints", func() bool { return len(f.client.Status().Endpoints) == 2 })
	f.publish(t, sdk.DefaultSelector, selection.RoundRobin())
}
