package sdk_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// reconnect has channels try again after the given time, and give an attempt up
// after another.
func reconnect(delay, timeout time.Duration) sdk.Option {
	p := grpc.ConnectParams{MinConnectTimeout: timeout}
	p.Backoff.BaseDelay, p.Backoff.MaxDelay, p.Backoff.Multiplier = delay, delay, 1
	return sdk.WithDialOptions(grpc.WithConnectParams(p))
}

// timed is a group with timings.
func timed(o failover.Options, name string, targets ...string) sdk.GroupConfig {
	return sdk.GroupConfig{Name: name, Targets: targets, Failover: o}
}

// switchBook is what Watch said of a group.
type switchBook struct {
	mu   sync.Mutex // guards all
	all  []sdk.Switch
	over bool
}

// watchGroup records the group's switches until the test ends.
func watchGroup(t testing.TB, client *sdk.Client, name string) *switchBook {
	t.Helper()
	b := &switchBook{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := range client.Group(name).Watch(ctx) {
			b.mu.Lock()
			b.all = append(b.all, s)
			b.mu.Unlock()
		}
		b.mu.Lock()
		b.over = true
		b.mu.Unlock()
	}()
	t.Cleanup(func() { cancel(); <-done })
	eventually(t, "a first element", func() bool { return b.total() > 0 })
	return b
}

func (b *switchBook) total() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

// switches are those after the first element, which is none.
func (b *switchBook) switches() []sdk.Switch {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.all[1:])
}

// after waits for n switches, and returns all that there are.
func (b *switchBook) after(t testing.TB, n int) []sdk.Switch {
	t.Helper()
	eventually(t, fmt.Sprintf("%d switches to be told", n), func() bool { return b.total() > n })
	return b.switches()
}

// path is the targets that were current, in order.
func (b *switchBook) path() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	for _, s := range b.all {
		names = append(names, s.To)
	}
	return strings.Join(names, " ")
}

func (b *switchBook) ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over
}

// answer is what became of one RPC of the traffic.
type answer struct {
	begun time.Time
	took  time.Duration
	from  string
	err   error
}

// load is traffic of one group, and a meter of how much this machine holds us up.
type load struct {
	halt chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex // guards the rest
	answers []answer
	stall   time.Duration
}

// startLoad sends RPCs of a group from several goroutines, each a moment after the
// last was answered, until end.
func startLoad(t testing.TB, client *sdk.Client, group string, callers int, gap, deadline time.Duration, opts ...grpc.CallOption) *load {
	t.Helper()
	l := &load{halt: make(chan struct{})}
	for range callers {
		l.done.Go(func() {
			for l.pause(gap) {
				l.add(one(client, group, deadline, opts...))
			}
		})
	}
	l.done.Go(func() {
		for last := time.Now(); l.pause(5 * time.Millisecond); {
			now := time.Now()
			l.mu.Lock()
			l.stall = max(l.stall, now.Sub(last)-5*time.Millisecond)
			l.mu.Unlock()
			last = now
		}
	})
	t.Cleanup(func() { l.end() })
	return l
}

// one sends one RPC with its own deadline.
func one(client *sdk.Client, group string, deadline time.Duration, opts ...grpc.CallOption) answer {
	ctx, cancel := context.WithTimeout(interceptors.WithGroup(context.Background(), group), deadline)
	defer cancel()
	a := answer{begun: time.Now()}
	a.from, a.err = sdktest.NewEcho(client).Who(ctx, "", opts...)
	a.took = time.Since(a.begun)
	return a
}

func (l *load) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.halt:
		return false
	}
}

func (l *load) add(a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, a)
}

// end stops the traffic and returns what became of it, by the time of its start.
func (l *load) end() []answer {
	select {
	case <-l.halt:
	default:
		close(l.halt)
	}
	l.done.Wait()
	slices.SortFunc(l.answers, func(a, b answer) int { return a.begun.Compare(b.begun) })
	return l.answers
}

// lateness is the longest that a goroutine here had to wait for its turn: what a
// bound in time has to allow for.
func (l *load) lateness() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 2 * l.stall
}

// served waits until an RPC of the group is answered by the target's backend, and
// the group says that it is current.
func served(t testing.TB, client *sdk.Client, group, target string) {
	t.Helper()
	eventually(t, "group "+group+" at "+target, func() bool {
		a := one(client, group, time.Second)
		return a.err == nil && a.from == target && client.Group(group).Current() == target
	})
}

// targetState is what the group knows of a target.
func targetState(client *sdk.Client, group, target string) failover.TargetState {
	for _, g := range client.Status().Groups {
		for _, s := range g.Targets {
			if g.Name == group && s.Name == target {
				return s
			}
		}
	}
	return failover.TargetState{}
}

// silent is a name resolver that says nothing.
func silent() *sdktest.Resolver { return sdktest.NewResolver("silent") }
