package sdk

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/configsource"
)

// TestConfiguredDefaults: a key that is left out is as if its documented default were
// written, whoever has the default.
func TestConfiguredDefaults(t *testing.T) {
	t.Parallel()
	said := configsource.Config{
		Targets:     []configsource.Target{{Name: "a", URI: "a:1", ErrorRatio: &configsource.ErrorRatio{}}, {Name: "b", URI: "b:1"}},
		Groups:      []configsource.Group{{Name: "g", Targets: []string{"a", "b"}}, {Name: "h", Targets: []string{"a"}, Recovery: new(3 * time.Second)}},
		Connections: &configsource.Connections{},
		Selectors: []configsource.Selector{
			{Name: "p", Policy: configsource.Policy{Kind: "p2c"}},
			{Name: "l", Policy: configsource.Policy{Kind: "least_pending"}},
			{Name: "k", Policy: configsource.Policy{Kind: "ketama"}},
			{Name: "s", Policy: configsource.Policy{Kind: "sliced", InSlice: &configsource.InSlice{Kind: "p2c"}}},
		},
		Sharding: &configsource.Sharding{ServiceKey: "x", Target: "t", KeyHeader: "x-user"}, ShardingStream: &configsource.ShardingStream{Backoff: &configsource.Backoff{}},
	}
	full := said.WithDefaults()
	settingsOf := func(c *configsource.Config) *settings {
		return newSettings([]Option{func(s *settings) { s.configured(c, &running{}) }})
	}
	left, written := settingsOf(&said), settingsOf(&full)

	if left.drainTimeout != written.drainTimeout || written.router.RetireTimeout != balancer.DefaultRetireTimeout {
		t.Errorf("drainTimeout is %v and %v, retireTimeout %v", left.drainTimeout, written.drainTimeout, written.router.RetireTimeout)
	}
	live := func(s *settings) balancer.Connections {
		r := balancer.NewRouter(s.router)
		defer r.Close()
		return r.Connections()
	}
	if a, b := live(left), live(written); a != b {
		t.Errorf("connections are %+v and %+v", a, b)
	}
	for i, d := range left.configuredSelectors {
		if !d.policy.Equal(written.configuredSelectors[i].policy) {
			t.Errorf("selector %q is %v and %v", d.name, d.policy, written.configuredSelectors[i].policy)
		}
	}
	if !left.configuredSelectors[0].policy.Equal(selection.P2C()) {
		t.Errorf("p2c is %v", left.configuredSelectors[0].policy)
	}
	if a, b := left.router.Assignment.Backoff, written.router.Assignment.Backoff; a != b {
		t.Errorf("backoff is %+v and %+v", a, b)
	}
	for i, g := range left.configuredGroups {
		now := time.Unix(1, 0)
		for _, at := range []time.Duration{0, 500 * time.Millisecond, 1100 * time.Millisecond, 4 * time.Second} {
			if a, b := story(t, g.Failover, now, at), story(t, written.configuredGroups[i].Failover, now, at); a != b {
				t.Errorf("group %q is at %s and %s after %v", g.Name, a, b, at)
			}
		}
	}
	want := failover.RatioOptions{
		Window: time.Minute, Threshold: 1, MinFailures: 3, Probes: 3, Hold: time.Minute,
		Codes: []uint32{uint32(codes.Unavailable), uint32(codes.DeadlineExceeded), uint32(codes.Unauthenticated)},
	} // as its options document
	if got := *written.configuredTargets[0].ErrorRatio; !reflect.DeepEqual(got, want) {
		t.Errorf("the error ratio is %+v when defaults are written, want %+v", got, want)
	}
}

// story has the first target of a group die, and says where the group is some time
// after.
func story(t *testing.T, o failover.Options, now time.Time, after time.Duration) string {
	t.Helper()
	m, err := failover.New([]string{"a", "b"}, o, now)
	if err != nil {
		t.Fatal(err)
	}
	m.Observe("a", failover.Up, now)
	m.Observe("b", failover.Up, now)
	now = now.Add(time.Hour)
	m.Observe("a", failover.Failed, now)
	m.Tick(now.Add(after))
	return m.Current()
}

// TestConfiguredProbesAndBreaker: what a registry and a breaker are made of is the same
// whether defaults are written or left out.
func TestConfiguredProbesAndBreaker(t *testing.T) {
	t.Parallel()
	said := configsource.Config{Health: &configsource.Health{Checker: configsource.Checker{Kind: "http"}}, Monitor: &configsource.Monitor{}, Breaker: &configsource.Breaker{}}
	full := said.WithDefaults()
	options := func(c *configsource.Config) health.Options { return probing(nil, &c.Health.Schedule) }
	a, b := options(&said), options(&full)
	// The registry's defaults are documented at its options.
	standard := health.Options{Interval: 10 * time.Second, Timeout: time.Second, Jitter: 0.1, FailAfter: 1, PassAfter: 1, Workers: 16, Initial: health.Healthy}
	if !reflect.DeepEqual(b, standard) || !reflect.DeepEqual(a, health.Options{}) {
		t.Errorf("probes have %+v when defaults are written, want %+v", b, standard)
	}
	o := breakerOf(full.Breaker)
	o.Codes = nil
	if want := (admission.BreakerOptions{MinThroughput: 20, FailureRatio: 0.5, Window: 30 * time.Second, OpenFor: 10 * time.Second, HalfOpenCalls: 1}); !reflect.DeepEqual(o, want) {
		t.Errorf("the breaker has %+v when defaults are written, want %+v", o, want)
	}
	failures := make(map[uint32]bool)
	for _, c := range codesOf(full.Breaker.Codes) {
		failures[c] = true
	}
	for c := uint32(1); c <= 16; c++ {
		byDefault := admission.Outcome{Kind: admission.RemoteError, Code: c}.Verdict() == admission.Failure
		if failures[c] != byDefault {
			t.Errorf("code %d is a failure when defaults are written: %t, else %t", c, failures[c], byDefault)
		}
	}
	if a, b := fmt.Sprintf("%+v", checkerOf(&said.Health.Checker)), fmt.Sprintf("%+v", checkerOf(&full.Health.Checker)); a != b {
		t.Errorf("the checker is %s, and %s when defaults are written", a, b)
	}
}
