package sdk_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// TestNamesThatDoNotMatch: the sharding service and the name resolver call the
// same server by different names. That must not stay silent, with or without
// fallback.
func TestNamesThatDoNotMatch_EC02(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		logs := &logBook{}
		f := start(t, testSharding(func(sh *sdk.Sharding) { sh.Fallback = fallback }), []string{"a"}, logs.option())
		f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "10.0.0.1:443")))
		ctx := interceptors.WithKeyString(within(t, 10*time.Second), "k")
		if fallback {
			if got := f.who(t, "k"); got != "a" {
				t.Errorf("fallback reached %q", got)
			}
		} else {
			_, err := f.echo.Who(ctx, "")
			if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), `"10.0.0.1:443"`) || !strings.Contains(err.Error(), `"a"`) {
				t.Errorf("the RPC's error does not show both names: %v", err)
			}
			short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			if _, err := f.client.WaitReady(short); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"10.0.0.1:443"`) {
				t.Errorf("no RPC can be routed, and WaitReady says %v", err)
			}
		}
		if n := f.client.Status().UnknownOwners; n != 1 {
			t.Errorf("fallback %v: %d unknown owners, want 1", fallback, n)
		}
		if n := strings.Count(logs.String(), "unknown to the name resolver"); n != 1 {
			t.Errorf("fallback %v: the log warns %d times, want once:\n%s", fallback, n, logs)
		}
	}
}
