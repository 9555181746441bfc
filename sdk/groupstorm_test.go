package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// stormNames are the groups that callers name; a random topology may lack some.
var stormNames = []string{"default", "x", "y", "z"}

// randomTopology lists some of p's servers in some groups, in some order, with some
// settings. All of them are good.
func (p places) randomTopology(r *rand.Rand) sdk.Topology {
	top := p.topology()
	var names []string
	for i := range top.Targets {
		target := &top.Targets[i]
		names = append(names, target.Name)
		target.Profile = []string{"", "", "", "other"}[r.IntN(4)]
		target.MinReady = r.IntN(3) - 1
		if r.IntN(4) == 0 {
			target.ErrorRatio = &failover.RatioOptions{Window: time.Duration(1+r.IntN(5)) * time.Second}
		}
	}
	groups := slices.Clone(stormNames)
	r.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	for _, name := range groups[:1+r.IntN(len(groups))] {
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		timing := func() time.Duration { return time.Duration(r.IntN(10)-1) * time.Millisecond }
		top.Groups = append(top.Groups, sdk.GroupConfig{
			Name: name, Targets: slices.Clone(names[:1+r.IntN(len(names))]),
			Failover: failover.Options{Recovery: timing(), MinUptime: timing(), InitialGrace: timing(), SwitchDelay: timing()},
		})
	}
	return top
}

// storm is RPCs, and whatever else a program may do, beside updates of the topology.
type storm struct {
	halt    chan struct{}
	running sync.WaitGroup
	calls   atomic.Int64

	mu     sync.Mutex // guards failed
	failed []error
}

// startStorm has callers send RPCs of all groups, each unary one followed by another
// and now and then by a stream. ok says which errors are no failure.
func startStorm(client *sdk.Client, callers int, ok func(error) bool) *storm {
	s := &storm{halt: make(chan struct{})}
	for i := range callers {
		s.running.Go(func() {
			echo := sdktest.NewEcho(client)
			for n := i; ; n++ {
				select {
				case <-s.halt:
					return
				default:
				}
				if err := s.call(echo, stormNames[n%len(stormNames)], n%16 == 0); !ok(err) {
					s.mu.Lock()
					s.failed = append(s.failed, err)
					s.mu.Unlock()
				}
				s.calls.Add(1)
			}
		})
	}
	s.running.Go(func() { // who looks on, and turns what can be turned
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-s.halt:
				return
			case <-tick.C:
			}
			_ = client.Status().String()
			_ = client.Topology()
			g := client.Group(stormNames[n%len(stormNames)])
			if g == nil {
				continue
			}
			_ = g.Authority()
			_ = g.Pin(g.Current(), time.Millisecond)
			ctx, cancel := context.WithCancel(context.Background())
			for range g.Watch(ctx) {
				cancel()
			}
			cancel()
			_ = g.Unpin()
		}
	})
	return s
}

// call sends a unary RPC, or opens a stream, asks twice and ends it.
func (s *storm) call(echo sdktest.Echo, group string, stream bool) error {
	ctx, cancel := context.WithTimeout(interceptors.WithGroup(context.Background(), group), 20*time.Second)
	defer cancel()
	if !stream {
		_, err := echo.Who(ctx, "")
		return err
	}
	talk, err := echo.Talk(ctx)
	if err != nil {
		return err
	}
	first, err := talk.Ask("")
	if err != nil {
		return err
	}
	if second, err := talk.Ask(""); err != nil || second != first {
		return fmt.Errorf("a stream to %q went on to %q: %w", first, second, err)
	}
	return talk.CloseSend()
}

// end stops the RPCs and fails the test if one failed.
func (s *storm) end(t *testing.T) {
	t.Helper()
	close(s.halt)
	s.running.Wait()
	if n := len(s.failed); n > 0 {
		t.Errorf("%d of %d RPCs failed, the first: %v", n, s.calls.Load(), s.failed[0])
	}
	if s.calls.Load() == 0 {
		t.Error("there was no traffic")
	}
}

// G-16 and issue 6: the topology changes each millisecond, for 10 s under the race
// detector, beside 8 callers. No RPC fails, and nothing is left. Not parallel: it
// counts what is held.
func TestG16ReconfigurationStorm(t *testing.T) {
	duration := 3 * time.Second
	switch {
	case testing.Short():
		duration = 300 * time.Millisecond
	case raceDetector:
		duration = 10 * time.Second
	}
	p := startPlaces(t, "a", "b", "c", "d")
	last := p.topology(group("default", "a", "b"), group("x", "b", "a"), group("y", "c"), group("z", "d"))
	client := dialGroups(t, last, sdk.WithDialProfile("other", sdk.WithDialOptions(grpc.WithUserAgent("other"))))
	settle := func() held {
		t.Helper()
		for i, server := range []string{"a", "b", "c", "d"} {
			goesTo(t, client, stormNames[i], server)
			if err := p[server].WaitLive(within(t, 10*time.Second), 1); err != nil {
				t.Error(err)
			}
		}
		return p.settled(t)
	}
	before := settle()

	s := startStorm(client, 8, func(err error) bool { return err == nil })
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	updates := 0
	for began := time.Now(); time.Since(began) < duration; updates++ {
		<-tick.C
		top := p.randomTopology(random)
		if _, err := client.UpdateTopology(top); err != nil {
			t.Errorf("seed %d: a good topology was refused: %v", seed, err)
		}
	}
	update(t, client, last)
	s.end(t)
	dials := 0
	for _, b := range p {
		dials += b.Connections().Accepted
	}
	t.Logf("%d updates in %v, %d RPCs, %d connections (seed %d)", updates, duration, s.calls.Load(), dials, seed)

	eventually(t, "pools that left to be gone", func() bool { return len(client.Status().Targets) == 4 })
	settle()
	p.back(t, before)
	for _, target := range client.Status().Targets {
		if target.InFlight != 0 || target.Leaving {
			t.Errorf("target %q has %d RPCs in flight, leaving %v", target.Name, target.InFlight, target.Leaving)
		}
	}
}

// LL-02: Close in the middle of all that.
func TestLL02CloseInTheStorm(t *testing.T) {
	p := startPlaces(t, "a", "b", "c")
	random := rand.New(rand.NewPCG(1, 2))
	before := p.settled(t)
	for round := range 10 {
		client := dialGroups(t, p.randomTopology(random), sdk.WithDialProfile("other"))
		s := startStorm(client, 4, func(err error) bool { return err == nil || errors.Is(err, sdk.ErrClosed) })
		refused := make(chan error, 1)
		go func() {
			random := rand.New(rand.NewPCG(3, uint64(round)))
			for {
				if _, err := client.UpdateTopology(p.randomTopology(random)); err != nil {
					refused <- err
					return
				}
			}
		}()
		eventually(t, "some RPCs", func() bool { return s.calls.Load() > 50 })
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if err := <-refused; !errors.Is(err, sdk.ErrClosed) {
			t.Errorf("an update beside Close: %v", err)
		}
		s.end(t)
		for _, b := range p {
			if err := b.WaitLive(within(t, 10*time.Second), 0); err != nil {
				t.Error(err)
			}
		}
	}
	p.back(t, before)
}
