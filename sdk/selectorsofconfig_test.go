package sdk_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/sdk"
)

// TestSelectorsOfServiceConfig: a selector that the service config has declared goes
// when a later one leaves it out, and calls that name it are then treated as naming
// an unknown one. One that code has declared stays.
func TestSelectorsOfServiceConfig(t *testing.T) {
	t.Parallel()
	config := func(selectors string) string {
		return fmt.Sprintf(`{"loadBalancingConfig": [{%q: {"sharding": false, "selectors": {%s}}}]}`, balancer.Name, selectors)
	}
	f := startPlain(t, []string{"e1", "e2"}, pinTo("e1"), sdk.WithUnknownSelectorsRefused(), sdk.WithSelector("mine", pinTo("e2")))
	f.Resolver().SetServiceConfig(config(`"theirs": "round_robin", "mine": "random"`))
	f.whoBy(t, "theirs", "")
	f.allConnected(t)
	tr := f.flow(t, 2, time.Millisecond, "")
	for range 20 {
		f.Resolver().SetServiceConfig(config(""))
		eventually(t, "the selector to go", func() bool { return f.client.Selector("theirs") == nil })
		if _, err := f.echo.Who(selectorCtx(t, "theirs"), ""); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "not declared") {
			t.Errorf("a call by a selector that is gone: %v", err)
		}
		for range 10 {
			if got := f.whoBy(t, "mine", ""); got != "e2" {
				t.Errorf("the selector of code leads to %s", got)
			}
		}
		f.Resolver().SetServiceConfig(config(`"theirs": "round_robin", "mine": "random"`))
		eventually(t, "the selector to come", func() bool { return f.client.Selector("theirs") != nil })
		f.whoBy(t, "theirs", "")
	}
	tr.mustBeClean(t)
	f.oneConnectionEach(t)
}
