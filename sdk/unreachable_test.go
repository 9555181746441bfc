package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// closedPort is an address on loopback where nothing listens.
const closedPort = "127.0.0.1:1"

// dialNoService makes a client whose sharding service cannot be reached, and
// waits until that is known.
func dialNoService(t *testing.T, c *sdktest.Cluster, sh sdk.Sharding, opts ...sdk.Option) *fixture {
	t.Helper()
	f := dial(t, c, sh, append([]sdk.Option{sdk.WithShardingService("gone", closedPort, plaintext)}, opts...)...)
	brief, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, _ = f.client.WaitReady(brief) // wakes it
	eventually(t, "the failure is known", func() bool { return f.client.Status().Assignment.LastError != "" })
	return f
}

func toNoService(sh *sdk.Sharding) { sh.ServiceKey = "gone" }

// Before the initial timeout as well as after it, whoever waits is told which
// client waits for which assignment, and what is wrong.
func TestUnreachableServiceSaysWhy_PF08(t *testing.T) {
	t.Parallel()
	about := func(c *sdktest.Cluster) []string {
		return []string{
			fmt.Sprintf("slicewire: target %q: ", c.Target()), `channel key "gone"`, fmt.Sprintf("sharding target %q", testTarget),
			fmt.Sprintf("the sharding service at %q cannot be reached", closedPort), "connection refused",
		}
	}
	t.Run("before the timeout", func(t *testing.T) {
		t.Parallel()
		c := sdktest.NewCluster(t, "a")
		f := dialNoService(t, c, testSharding(toNoService))
		texts := append(about(c), "waiting for the first assignment from the sharding service (")
		f.fails(t, withKey(t, 100*time.Millisecond, "k"), codes.DeadlineExceeded, texts)
		f.fails(t, withKey(t, 100*time.Millisecond, "k"), codes.DeadlineExceeded, texts, grpc.WaitForReady(true))
		ctx, cancel := context.WithCancel(interceptors.WithKeyString(context.Background(), "k"))
		time.AfterFunc(100*time.Millisecond, cancel)
		f.fails(t, ctx, codes.Canceled, texts)

		_, err := f.client.WaitReady(within(t, 50*time.Millisecond))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("WaitReady: %v", err)
		}
		for _, text := range append(about(c), "not ready: no assignment yet") {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("WaitReady's error lacks %q: %v", text, err)
			}
		}
	})
	t.Run("after the timeout", func(t *testing.T) {
		t.Parallel()
		c := sdktest.NewCluster(t, "a")
		f := dialNoService(t, c, testSharding(toNoService, withTimeout(200*time.Millisecond)))
		f.fails(t, withKey(t, 10*time.Second, "k"), codes.Unavailable, append(about(c), "initial assignment timeout of 200ms"))
		// Calls that wait for ready go on waiting: the connection's status is not theirs.
		f.fails(t, withKey(t, 100*time.Millisecond, "k"), codes.DeadlineExceeded, about(c), grpc.WaitForReady(true))
	})
	// A service that is reached and says nothing is another matter.
	t.Run("silent service", func(t *testing.T) {
		t.Parallel()
		f := startQuick(t, testSharding(), []string{"a"})
		f.openStream(t)
		f.fails(t, withKey(t, 100*time.Millisecond, "k"), codes.DeadlineExceeded,
			[]string{fmt.Sprintf("slicewire: target %q: ", f.Target()), "a stream is open, but the service has sent no assignment"})
	})
}

// Two clients in one process can be told apart by their log records.
func TestLogNamesTheTarget(t *testing.T) {
	t.Parallel()
	var log logBook
	clients := []*fixture{
		dialNoService(t, sdktest.NewCluster(t, "a"), testSharding(toNoService, withTimeout(100*time.Millisecond)), log.option()),
		startQuick(t, testSharding(), []string{"a"}, log.option()),
	}
	clients[0].fails(t, withKey(t, 10*time.Second, "k"), codes.Unavailable, nil) // after the timeout
	clients[1].assigned(t, sdktest.From("", "a"))
	for _, f := range clients {
		_ = f.client.Close()
	}
	for _, want := range []struct {
		client  *fixture
		message string
	}{
		{clients[0], "cannot be reached"},
		{clients[0], "timeout has passed"},
		{clients[1], "assignment received"},
	} {
		found := false
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, want.message) {
				found = true
				if n := strings.Count(line, " target="+want.client.Target()); n != 1 {
					t.Errorf("the record has the target %d times, want %s once: %s", n, want.client.Target(), line)
				}
			}
		}
		if !found {
			t.Errorf("no record says %q", want.message)
		}
	}
}
