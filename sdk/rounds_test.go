package sdk_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// descriptors counts the open files of this process; -1 where they cannot be
// listed.
func descriptors() int {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(files)
}

// TestNothingIsLeft_LL02: issue A. 200 rounds of create, traffic, churn and close
// leave no goroutine and no descriptor. Not parallel: it counts them.
func TestNothingIsLeft_LL02(t *testing.T) {
	c := sdktest.NewCluster(t, "a", "b", "c")
	c.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b", "c")))
	round := func(i int) {
		client, err := sdk.Dial(c.Target(), append(clusterOptions(c, testSharding(withFallback)),
			sdk.WithDrainTimeout(time.Second),
			sdk.WithReassignedFunc(func(balancer.Reassignment) {}))...)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := client.Close(); err != nil {
				t.Error(err)
			}
			if err := client.Close(); err != nil {
				t.Errorf("second Close: %v", err)
			}
		}()
		if i%20 == 0 {
			return // closed before anything
		}
		f := &fixture{Cluster: c, client: client, echo: sdktest.NewEcho(client)}
		ended := f.crowd(4, "z")
		f.who(t, "k")
		switch i % 4 {
		case 0:
			if err := c.Resolve("c", "b"); err != nil {
				t.Fatal(err)
			}
		case 1:
			if _, err := c.Sharding().Move(testTarget, "k", "c"); err != nil {
				t.Fatal(err)
			}
		case 2:
			if err := c.Backend("a").GoAway(); err != nil {
				t.Fatal(err)
			}
		case 3:
			if err := c.Resolve("a", "b", "c"); err != nil {
				t.Fatal(err)
			}
		}
		for range 4 {
			if err := <-ended; err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
		}
	}
	for i := range 20 {
		round(i)
	}
	goroutines, files := 0, 0
	eventually(t, "connections to be gone", func() bool {
		for _, b := range c.Backends() {
			if b.Connections().Live > 0 {
				return false
			}
		}
		return c.Sharding().Connections().Live == 0
	})
	time.Sleep(10 * time.Millisecond) // a baseline that is too low only makes the test stricter
	goroutines, files = runtime.NumGoroutine(), descriptors()
	for i := range 200 {
		round(i)
	}
	eventually(t, "goroutines and descriptors at the baseline", func() bool {
		return runtime.NumGoroutine() <= goroutines && descriptors() <= files
	})
}
