package telemetry_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

const (
	pending    = "autosharding_assignment_pending"
	connecting = "connecting"
	failing    = "picker_failing_with_wait_for_ready"
	resolving  = "resolving"
	mismatch   = "subchannel_state_mismatch"
)

// slowly dials so long.
func slowly(d time.Duration) sdk.Option {
	return sdk.WithDialOptions(grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}))
}

// meter tells how long the machine has held this process up since it was started.
type meter struct{ late atomic.Int64 }

// startMeter measures until the test ends.
func startMeter(t *testing.T) *meter {
	m := &meter{}
	end, done := make(chan struct{}), make(chan struct{})
	go func() { // ends with the test, which waits for it
		defer close(done)
		const nap = 5 * time.Millisecond
		for {
			began := time.Now()
			select {
			case <-time.After(nap):
				m.late.Add(int64(time.Since(began) - nap))
			case <-end:
				return
			}
		}
	}()
	t.Cleanup(func() { close(end); <-done })
	return m
}

// seconds is how long it held us up, and what a good machine does.
func (m *meter) seconds() float64 { return 0.05 + 2*time.Duration(m.late.Load()).Seconds() }

// about fails the test unless got is want, or up to a fifth more and what the machine
// adds.
func (m *meter) about(t *testing.T, what string, got, want float64) {
	t.Helper()
	if got < want*0.8 || got > want*1.2+m.seconds() {
		t.Errorf("%s is %.3f s, want about %.3f s (the machine may add %.3f s)", what, got, want, m.seconds())
	}
}

// Field case TE-02: an assignment after 300 ms, then a connection after 200 ms.
func TestTE02DelaysAreTypedAndAddUp(t *testing.T) {
	m := startMeter(t)
	f := start(t, nil, []string{"a"}, slowly(200*time.Millisecond))
	f.AssignEven(shardingTarget)
	f.Sharding().Delay(300 * time.Millisecond)
	ctx, span := f.traces.Tracer("test").Start(interceptors.WithKeyString(within(t, 10*time.Second), "k"), "caller")
	began := time.Now()
	if _, err := f.echo.Who(ctx, ""); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(began).Seconds()
	span.End()

	got := f.delays(t, attemptDelays)
	if !slices.Equal(names(got), []string{pending, connecting}) || got[pending].n != 1 || got[connecting].n != 1 {
		t.Fatalf("delays are %v", got)
	}
	m.about(t, pending, got[pending].sum, 0.3)
	m.about(t, connecting, got[connecting].sum, 0.2)
	calls := f.delays(t, callDelays)
	if calls[resolving].n != 1 || len(calls) != 1 {
		t.Errorf("delays of calls are %v", calls)
	}
	if sum := got[pending].sum + got[connecting].sum + calls[resolving].sum; sum > whole || sum < 0.8*whole-m.seconds() {
		t.Errorf("the delays add up to %.3f s of an RPC that took %.3f s", sum, whole)
	}
	for _, s := range f.collect(t)[attemptDelays] {
		if !slices.Equal(slices.Sorted(maps.Keys(s.labels)), []string{"grpc.delay_type", "grpc.target"}) {
			t.Errorf("labels are %v", s.labels)
		}
	}

	// One span each, one after the other, under the caller's, and reasons in events.
	f.allEnded(t)
	spans := f.spansNamed("Attempt Delay")
	if len(spans) != 2 {
		t.Fatalf("there are %d spans of delays", len(spans))
	}
	for i, want := range []string{pending, connecting} {
		s := spans[i]
		if spanAttributes(s.Attributes())["grpc.delay_type"] != want || s.Parent().SpanID() != span.SpanContext().SpanID() {
			t.Errorf("span %d has %v under %v", i, s.Attributes(), s.Parent().SpanID())
		}
		m.about(t, "span "+want, s.EndTime().Sub(s.StartTime()).Seconds(), got[want].sum)
		if len(s.Events()) == 0 || s.Events()[0].Name != "Delay state transition" || spanAttributes(s.Events()[0].Attributes)["grpc.delay_reason"] == "" {
			t.Errorf("span %d has the events %v", i, s.Events())
		}
	}
	if spans[1].StartTime().Before(spans[0].EndTime()) {
		t.Error("the delays overlap")
	}
	if n := len(f.spansNamed("Call Delay")); n != 1 {
		t.Errorf("there are %d spans of delays of calls", n)
	}

	// An RPC that does not wait has none.
	f.who(t, "k")
	if again := f.delays(t, attemptDelays); again[pending].n+again[connecting].n != 2 || len(again) != 2 {
		t.Errorf("delays are %v", again)
	}
}

// Field case TE-03: RPCs that end while they wait have one delay each, with the time
// up to then.
func TestTE03DelayEndsWithItsRPC(t *testing.T) {
	for _, how := range []string{"cancelled", "timed out", "closed", "stream cancelled"} {
		t.Run(how, func(t *testing.T) {
			m := startMeter(t)
			f := start(t, nil, []string{"a"}, sdk.WithDrainTimeout(0))
			f.Sharding().Hang()
			ctx, span := f.traces.Tracer("test").Start(interceptors.WithKeyString(within(t, 10*time.Second), "k"), "caller")
			const wait = 200 * time.Millisecond
			var want codes.Code
			switch how {
			case "cancelled", "stream cancelled":
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(ctx)
				time.AfterFunc(wait, cancel)
				want = codes.Canceled
			case "timed out":
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, wait)
				defer cancel()
				want = codes.DeadlineExceeded
			case "closed":
				time.AfterFunc(wait, func() { _ = f.client.Close() })
				want = codes.Canceled
			}
			var err error
			if how == "stream cancelled" {
				_, err = f.echo.Talk(ctx)
			} else {
				_, err = f.echo.Who(ctx, "")
			}
			if status.Code(err) != want {
				t.Fatalf("the RPC ended with %v", err)
			}
			span.End()
			got := f.delays(t, attemptDelays)
			if len(got) != 1 || got[pending].n != 1 {
				t.Fatalf("delays are %v", got)
			}
			m.about(t, "the delay", got[pending].sum, wait.Seconds())
			_ = f.client.Close()
			f.allEnded(t)
			if n := len(f.spansNamed("Attempt Delay")); n != 1 {
				t.Errorf("there are %d spans", n)
			}
		})
	}
}

// The same for calls that never get as far as an attempt.
func TestTE03CallDelayEndsWithItsCall(t *testing.T) {
	m := startMeter(t)
	f := start(t, nil, []string{"a"})
	f.Resolver().UpdateState(f.Resolver().State()) // keeps the scheme in use
	client := silentClient(t, f.eyes)
	ctx, cancel := context.WithTimeout(interceptors.WithKeyString(context.Background(), "k"), 200*time.Millisecond)
	defer cancel()
	if _, err := newEcho(client).Who(ctx, ""); status.Code(err) != codes.DeadlineExceeded {
		t.Fatalf("the RPC ended with %v", err)
	}
	got := f.delays(t, callDelays)
	if got[resolving].n != 1 {
		t.Fatalf("delays are %v", got)
	}
	m.about(t, resolving, got[resolving].sum, 0.2)
}

// Field case TE-04: an RPC that waits for ready on picks that fail.
func TestTE04WaitForReadyOnFailingPicks(t *testing.T) {
	f := start(t, nil, []string{"a"})
	f.AssignEven(shardingTarget)
	f.who(t, "k")
	f.Backend("a").Kill()
	eventually(t, "RPCs to fail", func() bool {
		_, err := f.echo.Who(interceptors.WithKeyString(within(t, 5*time.Second), "k"), "")
		return err != nil
	})
	before := f.delays(t, attemptDelays)
	m := startMeter(t)
	time.AfterFunc(time.Second, func() { _ = f.Backend("a").Restart() })
	f.who(t, "k", grpc.WaitForReady(true))
	got := f.delays(t, attemptDelays)
	if got[failing].n == 0 {
		t.Fatalf("delays are %v", got)
	}
	// A try to connect may come between, and is a delay of its own type.
	if d := got[failing].sum - before[failing].sum; d < 0.8-m.seconds() {
		t.Errorf("%s is %.3f s of about 1 s; all are %v", failing, d, got)
	}
}

// An RPC that an interceptor retries, or makes twice at once, has a delay for each
// attempt; and so has each attempt of gRPC's own retries.
func TestTE03EachAttemptIsMeasuredOnItsOwn(t *testing.T) {
	twice := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		other := make(chan error, 1)
		go func() { other <- invoker(ctx, method, req, newReply(reply), cc, opts...) }()
		err := invoker(ctx, method, req, reply, cc, opts...)
		return errors.Join(err, <-other)
	}
	m := startMeter(t)
	f := start(t, nil, []string{"a"}, sdk.WithDialOptions(grpc.WithChainUnaryInterceptor(twice)))
	f.AssignEven(shardingTarget)
	f.Sharding().Delay(200 * time.Millisecond)
	f.who(t, "k")
	got := f.delays(t, attemptDelays)
	if got[pending].n != 2 {
		t.Fatalf("delays are %v", got)
	}
	m.about(t, "both", got[pending].sum, 0.4)
}

// mute is a name resolver that says nothing while it is told to.
type mute struct {
	*sdktest.Resolver
	silent atomic.Bool

	mu   sync.Mutex // guards held
	held []func()   // what is to be said
}

func (*mute) Scheme() string { return "mute" }

// Build implements resolver.Builder.
func (m *mute) Build(target resolver.Target, cc resolver.ClientConn, o resolver.BuildOptions) (resolver.Resolver, error) {
	if !m.silent.Load() {
		return m.Resolver.Build(target, cc, o)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.State()
	m.held = append(m.held, func() { _ = cc.UpdateState(state) })
	return mutedChannel{}, nil
}

func (m *mute) speak() {
	m.silent.Store(false)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.held {
		f()
	}
}

type mutedChannel struct{}

func (mutedChannel) ResolveNow(resolver.ResolveNowOptions) {}
func (mutedChannel) Close()                                {}

// Field case TE-02, of a channel that gRPC had put into idle mode: the next RPC waits for
// the name resolver again, also one that gives up.
func TestTE02ResolvingAfterIdle(t *testing.T) {
	m := startMeter(t)
	c := sdktest.NewCluster(t, "a")
	c.AssignEven(shardingTarget)
	names := &mute{Resolver: c.Resolver()}
	f := dialTo(t, "mute:///x", c, openEyes(t), nil, sdk.WithResolvers(names), sdk.WithDialOptions(grpc.WithIdleTimeout(100*time.Millisecond)))
	f.who(t, "k")
	before := f.delays(t, callDelays)[resolving]
	names.silent.Store(true)
	eventually(t, "idle mode", func() bool { return len(f.client.Status().Endpoints) == 0 })

	ctx, cancel := context.WithTimeout(interceptors.WithKeyString(context.Background(), "k"), 200*time.Millisecond)
	defer cancel()
	if _, err := f.echo.Who(ctx, ""); status.Code(err) != codes.DeadlineExceeded {
		t.Fatalf("the RPC ended with %v", err)
	}
	gaveUp := f.delays(t, callDelays)[resolving]
	if gaveUp.n != before.n+1 {
		t.Fatalf("%d delays are there, before were %d", gaveUp.n, before.n)
	}
	m.about(t, "that of the one that gave up", gaveUp.sum-before.sum, 0.2)

	time.AfterFunc(200*time.Millisecond, names.speak)
	began := time.Now()
	f.who(t, "k")
	whole := time.Since(began).Seconds()
	after := f.delays(t, callDelays)[resolving]
	if sum := after.sum - gaveUp.sum; after.n != gaveUp.n+1 || sum > whole || sum < 0.19 {
		t.Errorf("%d delays are there, before were %d; the last is %.3f s of an RPC that took %.3f s", after.n, gaveUp.n, sum, whole)
	}
}

// The connection that was picked may be gone before the RPC is sent on it: a delay of
// its own type, by RPCs that meet servers which hang up.
func TestTE02ConnectionGoneAfterThePick(t *testing.T) {
	f := start(t, nil, []string{"a"})
	f.AssignEven(shardingTarget)
	f.who(t, "k")
	ctx, cancel := context.WithCancel(interceptors.WithKeyString(context.Background(), "k"))
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for ctx.Err() == nil {
				_, _ = f.echo.Who(ctx, "")
			}
		})
	}
	eventually(t, "an RPC to meet it", func() bool {
		_ = f.Backend("a").GoAway()
		return f.delays(t, attemptDelays)[mismatch].n > 0
	})
	cancel()
	callers.Wait()
	if d := f.delays(t, attemptDelays)[mismatch]; d.sum <= 0 {
		t.Errorf("the delays are %v", d)
	}
}
