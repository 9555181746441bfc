package sdk_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// heapInUse is what is left after garbage collection, in bytes.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestUpdateStorm_EC06: 200 updates a second of the resolver and as many of the
// assignment, over sets that share 80% of the endpoints, with one shared server
// down in the middle. Not parallel: it counts goroutines.
func TestUpdateStorm_EC06(t *testing.T) {
	const third = time.Second // of the storm
	shared := []string{"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"}
	f := start(t, testSharding(), slices.Concat(shared, []string{"x0", "x1", "y0", "y1"}), quick())
	keys := []string{"", "b", "c", "d", "e", "f", "g", "h"} // of s0 to s7
	ranges := func(last string) sdktest.Assignment {
		var r []sdktest.Slice
		for i, owner := range shared {
			r = append(r, sdktest.From(keys[i], owner))
		}
		return sdktest.Ranges(append(r, sdktest.From("p", last+"0", last+"1"))...)
	}
	put := func(i int, set string) {
		if i%2 == 0 {
			f.Sharding().Assign(testTarget, ranges(set))
			return
		}
		names := append(slices.Clone(shared), set+"0", set+"1")
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		if err := f.Resolve(names...); err != nil {
			t.Error(err)
		}
	}
	put(0, "x")
	put(1, "x")
	for _, key := range append(slices.Clone(keys), "p") {
		f.who(t, key)
	}
	eventually(t, "all endpoints of the set READY", func() bool {
		f.who(t, "p")
		return f.state("x0") == connectivity.Ready && f.state("x1") == connectivity.Ready
	})
	goroutines, heap := settledGoroutines(t), heapInUse()

	others := slices.Concat(keys[:3], keys[4:])
	tr := f.flow(t, 4, 2*time.Millisecond, others...)
	halt := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(2500 * time.Microsecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
				put(i, []string{"x", "y"}[i/2%2])
			case <-halt:
				return
			}
		}
	}()
	s3 := f.Backend("s3")
	time.Sleep(third)
	s3.Kill()
	eventually(t, "the client has noticed", func() bool { return f.state("s3") != connectivity.Ready })
	const waiting = 20
	released := make(chan error, waiting)
	for range waiting {
		go func() {
			_, err := f.call("d", 10*time.Second, patient)
			released <- err
		}()
	}
	time.Sleep(third)
	if err := s3.Restart(); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	for range waiting {
		if err := <-released; err != nil {
			t.Errorf("a call that waited for the shared server: %v", err)
		}
	}
	if d := time.Since(back); d > 5*time.Second {
		t.Errorf("the last waiting call was released %v after the server's return", d)
	}
	time.Sleep(third)
	close(halt)
	<-ended
	put(0, "x")
	put(1, "x")
	tr.mustBeClean(t)
	for i, name := range shared {
		if n := f.Backend(name).Connections().Accepted; i != 3 && n != 1 {
			t.Errorf("%s had %d connections, want 1: it never left", name, n)
		}
	}
	eventually(t, "routing of the last update", func() bool {
		got, err := f.call("p", 5*time.Second)
		if err != nil || got != "x0" && got != "x1" {
			return false
		}
		for i, key := range keys {
			if f.who(t, key) != shared[i] {
				return false
			}
		}
		return f.state("x0") == connectivity.Ready && f.state("x1") == connectivity.Ready
	})
	if s := f.client.Status(); len(s.Endpoints) != 10 || s.UnknownOwners != 0 {
		t.Errorf("%d endpoints, %d unknown owners at the end; want 10 and 0", len(s.Endpoints), s.UnknownOwners)
	}
	eventually(t, "goroutines at the baseline", func() bool { return runtime.NumGoroutine() <= goroutines })
	if grown := heapInUse() - heap; grown > 16<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}

// settledGoroutines counts goroutines once the number stands still: those of a
// connection that has just come up start a little later.
func settledGoroutines(t *testing.T) int {
	t.Helper()
	last := 0
	eventually(t, "goroutines to settle", func() bool {
		for range 10 {
			time.Sleep(5 * time.Millisecond)
			if n := runtime.NumGoroutine(); n != last {
				last = n
				return false
			}
		}
		return true
	})
	return last
}

// crowd makes calls in the background, half of which wait for ready.
func (f *fixture) crowd(n int, key string) <-chan error {
	ended := make(chan error, n)
	for i := range n {
		go func() {
			_, err := f.call(key, 20*time.Second, grpc.WaitForReady(i%2 == 0))
			ended <- err
		}()
	}
	return ended
}

// TestNoLostWakeUps: issue A. In each round one event has to release a crowd of
// queued calls, and nothing else happens that could release them instead.
func TestNoLostWakeUps(t *testing.T) {
	const crowd = 16
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	// Failed connections are tried again after the test only.
	once := sdk.WithDialOptions(grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: time.Minute, Multiplier: 1, MaxDelay: time.Minute},
		MinConnectTimeout: time.Minute,
	}))
	await := func(t *testing.T, round int, ended <-chan error, n int, want codes.Code) {
		t.Helper()
		deadline := time.After(10 * time.Second)
		for i := range n {
			select {
			case err := <-ended:
				if status.Code(err) != want {
					t.Fatalf("round %d: got %v, want %v", round, err, want)
				}
			case <-deadline:
				t.Fatalf("round %d: %d of %d calls hang", round, n-i, n)
			}
		}
	}
	queued := func(f *fixture) uint64 { s := f.client.Status().Picks; return s.Queued + s.Failed }
	one := sdktest.Ranges(sdktest.From("", "a"))

	t.Run("connection lost", func(t *testing.T) {
		t.Parallel()
		f := start(t, testSharding(), []string{"a"}, once)
		f.Sharding().Assign(testTarget, one)
		for round := range 3 * rounds {
			f.who(t, "k")
			ended := f.crowd(crowd, "k")
			if err := f.Backend("a").GoAway(); err != nil {
				t.Fatal(err)
			}
			await(t, round, ended, crowd, codes.OK)
		}
	})
	t.Run("connection refused", func(t *testing.T) {
		t.Parallel()
		// The channel is READY by another endpoint, so the failure of this one does
		// not change its state.
		c := sdktest.NewCluster(t, "a", "b")
		c.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
		// Not a port of a killed backend, which a parallel test could be given.
		c.SetEndpoints(sdktest.Endpoint("a", "127.0.0.1:1"), c.Endpoints()[1])
		for round := range rounds {
			f := dial(t, c, testSharding(), once)
			f.who(t, "z")
			ended := make(chan error, crowd)
			for range crowd {
				go func() {
					_, err := f.call("k", 20*time.Second)
					ended <- err
				}()
			}
			await(t, round, ended, crowd, codes.Unavailable)
			_ = f.client.Close()
		}
	})
	t.Run("first assignment", func(t *testing.T) {
		t.Parallel()
		for round := range rounds {
			c, err := sdktest.StartCluster("a")
			if err != nil {
				t.Fatal(err)
			}
			f := dial(t, c, testSharding(), once)
			ended := f.crowd(crowd, "k")
			if round%2 == 0 {
				eventually(t, "calls queued", func() bool { return queued(f) >= crowd })
			}
			c.Sharding().Assign(testTarget, one)
			await(t, round, ended, crowd, codes.OK)
			_ = f.client.Close()
			c.Close()
		}
	})
	t.Run("slice moved", func(t *testing.T) {
		t.Parallel()
		f := start(t, testSharding(), []string{"hole", "a"}, once)
		if err := f.Backend("hole").BlackHole(); err != nil {
			t.Fatal(err)
		}
		f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a")))
		f.who(t, "k")
		for round := range rounds {
			g, err := f.Sharding().Move(testTarget, "k", "hole")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Sharding().WaitAck(within(t, 10*time.Second), testTarget, g); err != nil {
				t.Fatal(err)
			}
			before := queued(f)
			ended := f.crowd(crowd, "k")
			if round%2 == 0 {
				eventually(t, "calls queued", func() bool { return queued(f) >= before+crowd })
			}
			if _, err := f.Sharding().Move(testTarget, "k", "a"); err != nil {
				t.Fatal(err)
			}
			await(t, round, ended, crowd, codes.OK)
		}
	})
	t.Run("endpoints gone and back", func(t *testing.T) {
		t.Parallel()
		f := start(t, testSharding(), []string{"a"}, once)
		f.Sharding().Assign(testTarget, one)
		for round := range rounds {
			f.who(t, "k")
			if err := f.Resolve(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "no endpoints", func() bool { return len(f.client.Status().Endpoints) == 0 })
			before := queued(f)
			ended := make(chan error, crowd)
			for range crowd {
				go func() {
					_, err := f.call("k", 20*time.Second, patient)
					ended <- err
				}()
			}
			if round%2 == 0 {
				eventually(t, "calls queued", func() bool { return queued(f) >= before+crowd })
			}
			if err := f.Resolve("a"); err != nil {
				t.Fatal(err)
			}
			await(t, round, ended, crowd, codes.OK)
		}
	})
}

// TestFlappingOwners: issue A. Owners die, return, say goodbye, leave the
// resolver and come back, and slices move, all at once; no call hangs, and those
// that wait for ready go through.
func TestFlappingOwners(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"a", "b", "c"}, quick())
	all := []string{"a", "b", "c"}
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b", "c")))
	halt := make(chan struct{})
	ended := make(chan error, 1)
	faults := make(chan error, 1000)
	const workers = 16
	left := make(chan struct{}, workers)
	for w := range workers {
		go func() {
			defer func() { left <- struct{}{} }()
			for i := 0; ; i++ {
				select {
				case <-halt:
					return
				default:
				}
				waits := (w+i)%2 == 0
				_, err := f.call([]string{"k", "z"}[i%2], 10*time.Second, grpc.WaitForReady(waits))
				if code := status.Code(err); code == codes.DeadlineExceeded || waits && code != codes.OK && code != codes.Unavailable {
					faults <- fmt.Errorf("waits for ready: %v: %w", waits, err)
					return
				}
				if err != nil {
					time.Sleep(time.Millisecond) // leave the processor to others
				}
			}
		}()
	}
	go func() {
		defer close(ended)
		for i := range 150 {
			name := all[rand.IntN(3)]
			b := f.Backend(name)
			var err error
			switch i % 5 {
			case 0:
				b.Kill()
				time.Sleep(10 * time.Millisecond)
				err = b.Restart()
			case 1:
				err = b.GoAway()
			case 2:
				err = f.Resolve(slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n == name })...)
			case 3:
				err = f.Resolve(all...)
			case 4:
				_, err = f.Sharding().Move(testTarget, []string{"k", "z"}[i%2], name)
			}
			if err != nil {
				ended <- err
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := f.Resolve(all...); err != nil {
		t.Error(err)
	}
	close(halt)
	for range workers {
		<-left
	}
	close(faults)
	for err := range faults {
		t.Error(err)
	}
	for _, key := range []string{"k", "z"} {
		if _, err := f.call(key, 5*time.Second, patient); err != nil {
			t.Errorf("in the end: %v", err)
		}
	}
}
