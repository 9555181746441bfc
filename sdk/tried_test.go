package sdk_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// whoAll has all backends connected, whatever the default selector does, and
// forgets the calls for that.
func (f *fixture) whoAll(t testing.TB) {
	t.Helper()
	if f.client.Selector("connect") == nil {
		if _, err := f.client.AddSelector("connect", selection.RoundRobin()); err != nil {
			t.Fatal(err)
		}
	}
	f.whoBy(t, "connect", "")
	f.allConnected(t)
	for _, b := range f.Backends() {
		b.Forget()
	}
}

// TestS21RetryReachesTheThird: of three endpoints two fail, and gRPC's own retry
// reaches the third, by any policy, with no endpoint tried twice.
func TestS21RetryReachesTheThird(t *testing.T) {
	t.Parallel()
	policies := map[string]selection.Policy{
		"p2c": selection.P2C(), "random": selection.Random(), "round_robin": selection.RoundRobin(),
		"least_pending": selection.LeastPending(), "weighted": selection.Weighted(nil),
		"ketama": selection.Ketama(selection.KetamaOptions{}),
		"sliced": selection.Sliced(selection.Policy{}), "sliced rr": selection.Sliced(selection.RoundRobin()),
		"pin":   selection.Custom("pin", pin{"e1"}),
		"order": selection.CustomBuilt("order", inOrder{}, true),
	}
	names := []string{"e1", "e2", "e3"}
	for name, p := range policies {
		for _, warm := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/connected before %v", name, warm), func(t *testing.T) {
				t.Parallel()
				f := start(t, testSharding(), names, quick(), sdk.WithServiceConfig("{"+retryConfig+"}"), sdk.WithSelector("tested", p))
				f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", names...)))
				if warm {
					f.whoAll(t)
				}
				f.Backend("e1").FailCalls(codes.Unavailable)
				f.Backend("e2").FailCalls(codes.Unavailable)
				const calls = 30
				for i := range calls {
					text := fmt.Sprint("call-", i)
					ctx := interceptors.WithKeyString(bySelector(t, 10*time.Second, "tested"), text)
					if got, err := f.echo.Who(ctx, text); err != nil || got != "e3" {
						t.Fatalf("%s: %q, %v", text, got, err)
					}
				}
				attempts := 0
				for _, b := range f.Backends() {
					seen := make(map[string]int)
					for _, c := range b.Calls() {
						attempts++
						if seen[c.Text]++; seen[c.Text] > 1 {
							t.Errorf("%s was tried twice by %s", b.Name(), c.Text)
						}
					}
				}
				if warm && attempts == calls { // else all may be over before the others connect
					t.Error("no call was retried")
				}
			})
		}
	}
}

// TestS21InterceptorRetry: the attempts of interceptors.Retry are calls of their own
// to gRPC, and avoid each other's endpoints all the same.
func TestS21InterceptorRetry(t *testing.T) {
	t.Parallel()
	retry := interceptors.Retry(interceptors.RetryBackoff(time.Millisecond, 2*time.Millisecond), interceptors.RetryAttempts(3))
	f, kinds := startAllKinds(t, []string{"e1", "e2", "e3"}, sdk.WithDialOptions(interceptors.Chain(retry)...))
	f.Backend("e1").FailCalls(codes.Unavailable)
	f.Backend("e2").FailCalls(codes.Unavailable)
	for s, n := range f.share(t, kinds, 20, "e3") {
		if n != 20 {
			t.Errorf("selector %s: e3 answered %d of 20", s, n)
		}
	}
	if f.Backend("e1").Count() == 0 || f.Backend("e2").Count() == 0 {
		t.Errorf("nothing was retried: %v", f.Counts())
	}
}

// inOrder builds an order that is that of the names.
type inOrder struct{}

func (inOrder) Build(_ context.Context, m selection.Membership) (selection.Order, error) {
	return upTo(len(m.Members)), nil
}

// upTo is the order 0, 1, 2 ... below it.
type upTo int

func (n upTo) Next(_ selection.Call, c selection.Cursor) (int, selection.Cursor) {
	if c.A >= uint64(n) {
		return -1, c
	}
	return int(c.A), selection.Cursor{A: c.A + 1}
}
