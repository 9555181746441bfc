package assignment

import (
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/slicewire/slicewire/internal/wire"
)

// crowdCSV is where TestCrowd writes the streams that start over time, for the
// figure in docs/performance.md.
var crowdCSV = flag.String("crowd-csv", "", "write TestCrowd's result to this `file`")

// crowd is many clients of one sharding service, in virtual time. Each has a
// channel of its own, which comes back as gRPC's do: at once, then with
// gRPC's connection backoff while the service is down.
type crowd struct {
	service *service
	channel *memory
	downFor time.Duration

	mu        sync.Mutex
	restarted time.Time   // when the service went down; zero before
	connected []time.Time // when channels came back, which is when a client without manners would open its stream
}

// crowdChannel is one client's channel.
type crowdChannel struct {
	*memory
	crowd *crowd
	rng   *rand.Rand
}

func (c crowdChannel) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if at := c.crowd.reconnection(c.rng); !at.IsZero() {
		select {
		case <-time.After(time.Until(at)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return c.memory.NewStream(ctx, d, method, opts...)
}

// reconnection is when a channel whose connection broke as the service went
// down is connected again.
func (c *crowd) reconnection(rng *rand.Rand) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.restarted.IsZero() {
		return time.Time{}
	}
	up := c.restarted.Add(c.downFor)
	at := c.restarted
	for retry := 0; at.Before(up); retry++ {
		at = at.Add(delay(backoff.DefaultConfig, retry, rng.Float64()))
	}
	c.connected = append(c.connected, at)
	return at
}

func (c *crowd) restart() {
	c.mu.Lock()
	c.restarted = time.Now()
	c.connected = nil
	c.mu.Unlock()
	c.channel.breakStreams()
}

// play lets n clients connect, restarts the service after 10 s, and returns when
// streams and channels started, counted from the beginning.
func (c *crowd) play(t *testing.T, n int, length time.Duration) (streams, channels []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c.channel = newMemory(c.service)
		watchers := make([]*Watcher, n)
		for i := range watchers {
			ch := crowdChannel{c.channel, c, rand.New(rand.NewPCG(uint64(i), 1))}
			watchers[i] = NewWatcher(Options{}, nil)
			watchers[i].Configure(cfg, func(string) (grpc.ClientConnInterface, func(), error) { return ch, func() {}, nil })
		}
		began := time.Now()
		time.Sleep(10 * time.Second)
		c.restart()
		time.Sleep(length - 10*time.Second)
		for _, at := range c.service.startTimes() {
			streams = append(streams, at.Sub(began))
		}
		for _, at := range c.connected {
			channels = append(channels, at.Sub(began))
		}
		for _, w := range watchers {
			w.Close()
		}
	})
	return streams, channels
}

const crowdBin = 100 * time.Millisecond

// bins counts events after the first second in bins, as a rate per second.
func bins(events []time.Duration, length time.Duration) []int {
	counts := make([]int, length/crowdBin+1)
	for _, at := range events {
		if at > time.Second && at < length {
			counts[at/crowdBin] += int(time.Second / crowdBin)
		}
	}
	return counts
}

// TestCrowd: the clients of a service that restarts do not come back as one
// spike, and a service that answers and hangs up is not hammered.
func TestCrowd(t *testing.T) {
	n := crowdSize
	const length = 70 * time.Second
	quick := &crowd{service: newService(giveAndHold(1, "x"))}
	quickStreams, quickChannels := quick.play(t, n, length)
	slow := &crowd{service: newService(giveAndHold(1, "x")), downFor: 30 * time.Second}
	slowStreams, slowChannels := slow.play(t, n, length)

	check := func(name string, streams, channels []time.Duration, maxShare float64) {
		if len(streams) != 2*n {
			t.Errorf("%s: %d streams started, want two for each of %d clients", name, len(streams), n)
		}
		ours, rude := slices.Max(bins(streams, length)), slices.Max(bins(channels, length))
		share := float64(ours) / float64(time.Second/crowdBin) / float64(n)
		t.Logf("%s, %d clients: at most %d streams/s in %v (%.1f%% of the clients at once); opened at once they would be %d streams/s",
			name, n, ours, crowdBin, 100*share, rude)
		if share > maxShare {
			t.Errorf("%s: %.1f%% of the clients come back within %v, want at most %.1f%%", name, 100*share, crowdBin, 100*maxShare)
		}
	}
	// Ten bins of jitter: 10% each, and six standard deviations for chance.
	atMost := 0.1 + 6*math.Sqrt(0.1*0.9/float64(n))
	check("restart", quickStreams, quickChannels, atMost)
	check("down for 30 s", slowStreams, slowChannels, atMost)

	// A service that answers and hangs up, for ever: at most 15 streams in
	// 10 s from each client, and evenly.
	hangUp := newService(func(p peer, first *wire.InitialClientConfig) error {
		return give(p, first.LatestGeneration+1, "x")
	})
	hammered, _ := (&crowd{service: hangUp}).play(t, n/10, length)
	perClient := float64(len(hammered)) / float64(n/10) / length.Seconds() * 10
	t.Logf("hang-up: %.1f streams in 10 s for each client", perClient)
	if perClient > 15 {
		t.Errorf("A-20: a service that answers and hangs up sees %.1f streams in 10 s from each client, want at most 15", perClient)
	}

	if *crowdCSV != "" {
		writeCrowd(t, *crowdCSV, length, bins(quickStreams, length), bins(quickChannels, length), bins(slowStreams, length))
	}
}

func writeCrowd(t *testing.T, path string, length time.Duration, quick, rude, slow []int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := csv.NewWriter(f)
	rows := [][]string{{"time_s", "restart", "restart, opened at once", "down for 30 s"}}
	for i := int(8 * time.Second / crowdBin); i < int(length/crowdBin); i++ {
		rows = append(rows, []string{
			fmt.Sprintf("%.1f", (time.Duration(i) * crowdBin).Seconds()),
			strconv.Itoa(quick[i]), strconv.Itoa(rude[i]), strconv.Itoa(slow[i]),
		})
	}
	if err := w.WriteAll(rows); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
