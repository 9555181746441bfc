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
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// fails sends one RPC, which has to fail with code, with an error that holds
// every text. It returns how long that took.
func (f *fixture) fails(t testing.TB, ctx context.Context, code codes.Code, texts []string, opts ...grpc.CallOption) time.Duration {
	t.Helper()
	began := time.Now()
	name, err := f.echo.Who(ctx, "", opts...)
	took := time.Since(began)
	if err == nil {
		t.Fatalf("the RPC reached %q, want %v", name, code)
	}
	if got := status.Code(err); got != code {
		t.Errorf("code %v, want %v: %v", got, code, err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error lacks %q: %v", text, err)
		}
	}
	return took
}

func withKey(t testing.TB, d time.Duration, key string) context.Context {
	t.Helper()
	return interceptors.WithKeyString(within(t, d), key)
}

// The sharding service ends the first stream with an error. Revision 2026-10
// says so at once, 2026-08 waits for the timer.
func TestFailingStreamEndsTheStartupWait_AP07_A14(t *testing.T) {
	reasons := map[string]func(*sdktest.ShardingService){
		"stream error": func(s *sdktest.ShardingService) {
			s.Delay(50 * time.Millisecond)
			s.Refuse(codes.Unavailable, "in maintenance")
		},
		// A code that must not reach the RPC: UNAVAILABLE is for routing.
		"stream refused": func(s *sdktest.ShardingService) { s.Refuse(codes.PermissionDenied, "not for you") },
		"target unknown": func(s *sdktest.ShardingService) { s.RefuseUnknown(true) },
		"no usable slice": func(s *sdktest.ShardingService) {
			s.Corrupt(sdktest.CorruptRange)
		},
	}
	causes := map[string]string{
		"stream error": "in maintenance", "stream refused": "not for you",
		"target unknown": "no assignment for target", "no usable slice": "invalid assignment",
	}
	for name, breakIt := range reasons {
		t.Run(name, func(t *testing.T) {
			inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
				sh := testSharding(inRevision, withTimeout(time.Minute))
				newer := sh.Revision.String() == "2026-10"
				if !newer {
					sh.InitialTimeout = 400 * time.Millisecond
				}
				c := sdktest.NewCluster(t, "a", "b")
				breakIt(c.Sharding())
				off := dial(t, c, sh, quickStream())
				sh.Fallback = true
				on := dial(t, c, sh, quickStream())
				texts := []string{c.Target(), causes[name]}
				if !newer {
					texts = append(texts, "initial assignment timeout of 400ms")
				}
				took := off.fails(t, withKey(t, 5*time.Second, "k"), codes.Unavailable, texts)
				if !newer && took < 300*time.Millisecond {
					t.Errorf("the RPC failed after %v, before the timer", took)
				}
				if took > 2*time.Second {
					t.Errorf("the RPC failed after %v", took)
				}
				if got := on.who(t, "k"); got != "a" && got != "b" {
					t.Errorf("in fallback the RPC reached %q", got)
				}
				if r := on.client.Status().Readiness; !r.Fallback || r.Assigned {
					t.Errorf("readiness is %v", r)
				}
				// The stream is tried again, and a good assignment takes over.
				c.Sharding().Heal()
				c.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "b")))
				for _, f := range []*fixture{off, on} {
					f.reaches(t, 1)
					for range 10 {
						if got := f.who(t, "k"); got != "b" {
							t.Fatalf("with an assignment the key reached %q", got)
						}
					}
				}
			})
		})
	}
}

// An RPC that waits for ready is not ended by an error of the control plane: it
// waits on, and gets through.
func TestWaitForReadyOutlivesErrors_AP07(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		f := startQuick(t, testSharding(inRevision, withTimeout(100*time.Millisecond)), []string{"a"})
		f.Sharding().Refuse(codes.PermissionDenied, "not for you")
		answer := make(chan error, 1)
		go func() {
			_, err := f.echo.Who(withKey(t, 8*time.Second, "k"), "", grpc.WaitForReady(true))
			answer <- err
		}()
		eventually(t, "phase failed", func() bool { return f.client.Status().Assignment.Phase.String() == "failed" })
		eventually(t, "a failed pick", func() bool { return f.client.Status().Picks.Failed+f.client.Status().Picks.Dropped > 0 })
		f.Sharding().Heal()
		f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a")))
		if err := <-answer; err != nil {
			t.Error(err)
		}
	})
}

// The port of the sharding service refuses: the timer decides, and an assignment
// that comes later is taken.
func TestLateIsNotNever_AP08_A13(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		f := start(t, testSharding(inRevision, withTimeout(500*time.Millisecond)), []string{"a"}) // all other times are the defaults
		f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a")))
		f.Sharding().Stop()
		began := time.Now()
		took := f.fails(t, withKey(t, 3*time.Second, "k"), codes.Unavailable,
			[]string{f.Target(), "initial assignment timeout of 500ms", `channel key "main"`, `sharding target "users"`, "cannot be reached"})
		if took < 400*time.Millisecond || took > 1500*time.Millisecond {
			t.Errorf("the RPC failed after %v, want about 500 ms", took)
		}
		time.Sleep(time.Until(began.Add(700 * time.Millisecond)))
		if err := f.Sharding().Restart(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "an RPC that gets through", func() bool {
			_, err := f.echo.Who(withKey(t, time.Second, "k"), "")
			return err == nil
		})
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the service was found after %v", took)
		}
	})
}

// A silent service: the timer releases queued RPCs, to fallback where that is on.
func TestTimerReleasesQueuedRPCs_A13(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		f := startQuick(t, testSharding(inRevision, withFallback, withTimeout(300*time.Millisecond)), []string{"a", "b"})
		f.Sharding().Hang()
		began := time.Now()
		got := f.who(t, "k")
		if took := time.Since(began); took < 250*time.Millisecond || took > 2*time.Second {
			t.Errorf("released to %q after %v, want about 300 ms", got, took)
		}
		seen := map[string]bool{}
		eventually(t, "both endpoints in fallback", func() bool {
			seen[f.who(t, "k")] = true
			return seen["a"] && seen["b"]
		})
		if n := f.client.Status().Picks.Fallbacks["no_assignment"]; n < 2 {
			t.Errorf("%d picks in fallback", n)
		}
		f.Sharding().Heal()
		f.reaches(t, f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "b"))))
		for range 20 {
			if got := f.who(t, "k"); got != "b" {
				t.Fatalf("with an assignment the key reached %q", got)
			}
		}
	})
}

func TestDeadlineSaysWhatItWaitedFor_PF08(t *testing.T) {
	t.Parallel()
	t.Run("assignment", func(t *testing.T) {
		t.Parallel()
		f := startQuick(t, testSharding(), []string{"a"})
		f.fails(t, withKey(t, 200*time.Millisecond, "k"), codes.DeadlineExceeded,
			[]string{"waiting for the first assignment from the sharding service"})
		ctx, cancel := context.WithCancel(interceptors.WithKeyString(context.Background(), "k"))
		time.AfterFunc(100*time.Millisecond, cancel)
		f.fails(t, ctx, codes.Canceled, []string{"waiting for the first assignment"})
		// A stream as well.
		_, err := f.echo.Watch(withKey(t, 200*time.Millisecond, "k"), "")
		if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "waiting for the first assignment") {
			t.Errorf("stream: %v", err)
		}
	})
	t.Run("connection", func(t *testing.T) {
		t.Parallel()
		f := startQuick(t, testSharding(), []string{"a"})
		f.assigned(t, sdktest.From("", "a"))
		if err := f.Backend("a").BlackHole(); err != nil {
			t.Fatal(err)
		}
		f.fails(t, withKey(t, 200*time.Millisecond, "k"), codes.DeadlineExceeded, []string{"waiting for a connection to an owner"})
	})
	// A call that was sent, and then is late, waited for nothing of ours.
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		f := startQuick(t, testSharding(), []string{"a"})
		f.assigned(t, sdktest.From("", "a"))
		f.Backend("a").Hold()
		defer f.Backend("a").Release()
		_, err := f.echo.Who(withKey(t, 200*time.Millisecond, "k"), "")
		if status.Code(err) != codes.DeadlineExceeded || strings.Contains(err.Error(), "waiting for a") {
			t.Errorf("error: %v", err)
		}
	})
	// The resolver says nothing at all.
	t.Run("resolver", func(t *testing.T) {
		t.Parallel()
		r := sdktest.NewResolver("silent")
		client, err := sdk.Dial("silent:///x", plain, sdk.WithResolvers(r), sdk.WithSharding(testSharding()),
			sdk.WithShardingService("main", "127.0.0.1:1", plaintext))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		f := &fixture{client: client, echo: sdktest.NewEcho(client)}
		f.fails(t, withKey(t, 100*time.Millisecond, "k"), codes.DeadlineExceeded, []string{"the name resolver"})
	})
}

// brokenResolver cannot be built.
type brokenResolver struct{}

func (brokenResolver) Scheme() string { return "broken" }

func (brokenResolver) Build(resolver.Target, resolver.ClientConn, resolver.BuildOptions) (resolver.Resolver, error) {
	return nil, errors.New("the phone book is missing")
}

// A resolver that cannot start fails RPCs at once, as it does on a plain channel.
func TestResolverThatCannotStart(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]sdk.Option{
		"sharding from code":     {sdk.WithSharding(testSharding())},
		"sharding from resolver": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := append(options, plain, sdk.WithResolvers(brokenResolver{}), sdk.WithShardingService("main", "127.0.0.1:1", plaintext))
			client, err := sdk.Dial("broken:///x", options...)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Close() }()
			f := &fixture{client: client, echo: sdktest.NewEcho(client)}
			for range 2 {
				if took := f.fails(t, withKey(t, 10*time.Second, "k"), codes.Unavailable, []string{"the phone book is missing"}); took > 2*time.Second {
					t.Errorf("it failed after %v, want at once", took)
				}
			}
			if err := client.Status().LastResolverError; err == nil || !strings.Contains(err.Error(), "the phone book is missing") {
				t.Errorf("LastResolverError is %v", err)
			}
			if _, err := client.WaitReady(within(t, 50*time.Millisecond)); err == nil || !strings.Contains(err.Error(), "the phone book is missing") {
				t.Errorf("WaitReady: %v", err)
			}
		})
	}
}

func TestReadyMeansReady_LL06_A13(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		f := startQuick(t, testSharding(inRevision), []string{"a"})
		began := time.Now()
		ready, err := f.client.WaitReady(within(t, 300*time.Millisecond))
		if took := time.Since(began); took < 250*time.Millisecond || took > 2*time.Second {
			t.Errorf("WaitReady took %v, want 300 ms", took)
		}
		if !errors.Is(err, context.DeadlineExceeded) || ready.Assigned || ready.Fallback {
			t.Errorf("not assigned: %v, %v", ready, err)
		}
		for _, text := range []string{"no assignment", `"main"`, `"users"`} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("the error lacks %q: %v", text, err)
			}
		}
		f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a")))
		ready, err = f.client.WaitReady(within(t, 5*time.Second))
		if err != nil || !ready.Assigned || ready.Fallback || ready.String() != "assigned" {
			t.Errorf("assigned: %v, %v", ready, err)
		}
		// At once from now on, even with no time.
		_ = f.who(t, "k")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		ready, err = f.client.WaitReady(ctx)
		if err != nil || ready.String() != "assigned and connected" {
			t.Errorf("again: %v, %v", ready, err)
		}
	})
	t.Run("fallback", func(t *testing.T) {
		inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
			f := startQuick(t, testSharding(inRevision, withFallback, withTimeout(200*time.Millisecond)), []string{"a"})
			ready, err := f.client.WaitReady(within(t, 5*time.Second))
			if err != nil || !ready.Fallback || ready.Assigned || ready.String() != "in fallback" {
				t.Errorf("in fallback: %v, %v", ready, err)
			}
			f.reaches(t, f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"))))
			if ready, err := f.client.WaitReady(within(t, 5*time.Second)); err != nil || ready.Fallback || !ready.Assigned {
				t.Errorf("assigned: %v, %v", ready, err)
			}
		})
	})
	t.Run("timer passed, fallback off", func(t *testing.T) {
		inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
			f := startQuick(t, testSharding(inRevision, withTimeout(100*time.Millisecond)), []string{"a"})
			_, err := f.client.WaitReady(within(t, 400*time.Millisecond))
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "initial assignment timeout of 100ms") {
				t.Errorf("error: %v", err)
			}
			time.AfterFunc(50*time.Millisecond, func() { f.AssignEven(testTarget) })
			if ready, err := f.client.WaitReady(within(t, 5*time.Second)); err != nil || !ready.Assigned {
				t.Errorf("late assignment: %v, %v", ready, err)
			}
		})
	})
}

// While the timer runs, with or without an older assignment, the client takes
// what the resolver and the connections say.
func TestUpdatesWhileTheTimerRuns_A13(t *testing.T) {
	t.Run("no assignment", func(t *testing.T) {
		inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
			f := startQuick(t, testSharding(inRevision), []string{"a"})
			f.openStream(t)
			answer := make(chan string, 1)
			go func() {
				name, err := f.echo.Who(withKey(t, 8*time.Second, "k"), "")
				answer <- fmt.Sprint(name, err)
			}()
			eventually(t, "a queued pick", func() bool { return f.client.Status().Picks.Queued > 0 })
			if _, err := f.Start("b"); err != nil {
				t.Fatal(err)
			}
			if err := f.Resolve("b"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the new list", func() bool {
				eps := f.client.Status().Endpoints
				return len(eps) == 1 && eps[0].Name == "b"
			})
			if len(answer) > 0 || f.connections() > 0 {
				t.Errorf("%d answers, %d connections before there is an assignment", len(answer), f.connections())
			}
			f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "b")))
			if got := <-answer; got != "b<nil>" {
				t.Errorf("the queued RPC: %s, want b", got)
			}
		})
	})
	t.Run("an older assignment", func(t *testing.T) {
		inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
			next, err := sdktest.StartSharding()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(next.Close)
			sh := testSharding(inRevision)
			f := startQuick(t, sh, []string{"a", "b"}, sdk.WithShardingService("next", next.Addr(), plaintext))
			f.assigned(t, sdktest.From("", "a"))
			if got := f.who(t, "k"); got != "a" {
				t.Fatalf("reached %q", got)
			}
			f.Resolver().SetServiceConfig(fmt.Sprintf(`{"loadBalancingConfig": [{"slicewire": {"channelFactoryKey": "next", "slicingTarget": %q, "sliceKeyHeaderName": %q, "specRevision": %q}}]}`,
				testTarget, testHeader, sh.Revision))
			if err := next.WaitStreams(within(t, 5*time.Second), 1); err != nil { // which says nothing
				t.Fatal(err)
			}
			tr := keepCalling(f, map[string]string{"k": "a"})
			a := f.Backend("a")
			if err := a.Move(); err != nil {
				t.Fatal(err)
			}
			if err := f.Resolve("b", "a"); err != nil {
				t.Fatal(err)
			}
			if err := a.WaitConnections(within(t, 5*time.Second), 2); err != nil {
				t.Errorf("the new address is not used: %v", err)
			}
			tr.more(t, 20)
			if err := a.GoAway(); err != nil {
				t.Fatal(err)
			}
			if err := a.WaitConnections(within(t, 5*time.Second), 3); err != nil {
				t.Errorf("the lost connection is not made again: %v", err)
			}
			tr.more(t, 20)
			tr.end(t)
			if s := f.client.Status().Assignment; s.ChannelKey != "next" || s.Generation != 1 || s.Phase.String() != "assigned" {
				t.Errorf("status %+v, want the older assignment", s)
			}
			next.Assign(testTarget, sdktest.Ranges(sdktest.From("", "b")))
			eventually(t, "the new service's owner", func() bool { return f.who(t, "k") == "b" })
		})
	})
}
