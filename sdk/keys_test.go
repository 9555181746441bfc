package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// A call without a key fails at once, also one that waits for ready, and before
// there is an assignment.
func TestMissingKey_A05(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		f := startQuick(t, testSharding(inRevision), []string{"a"})
		f.openStream(t)
		texts := []string{f.Target(), sdktest.EchoWho, testHeader, "interceptors.WithKey"}
		for name, opts := range map[string][]grpc.CallOption{"plain": nil, "wait for ready": {grpc.WaitForReady(true)}} {
			if took := f.fails(t, within(t, 5*time.Second), codes.InvalidArgument, texts, opts...); took > 200*time.Millisecond {
				t.Errorf("%s: it failed after %v", name, took)
			}
		}
		_, err := f.echo.Who(within(t, 5*time.Second), "")
		if !errors.Is(err, interceptors.ErrMissingKey) {
			t.Errorf("%v is not ErrMissingKey", err)
		}
		if _, err := f.echo.Watch(within(t, 5*time.Second), ""); !errors.Is(err, interceptors.ErrMissingKey) {
			t.Errorf("stream: %v", err)
		}
		if n := f.Backend("a").Count(); n != 0 {
			t.Errorf("%d calls reached a server", n)
		}
	})
}

// A key may come from anywhere WithKeyOptions says.
func TestKeyOptions_A05(t *testing.T) {
	t.Parallel()
	c := sdktest.NewCluster(t, "a", "b")
	c.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
	f := dial(t, c, testSharding(), sdk.WithKeyOptions(interceptors.KeyFrom(interceptors.FuncKey(
		func(ctx context.Context, _ string, _ any) (string, bool, error) { return "zoe", true, nil }))))
	for name, ctx := range map[string]context.Context{
		"b": within(t, 5*time.Second),
		"a": metadata.AppendToOutgoingContext(within(t, 5*time.Second), "X-User", "alice"),
	} {
		if got, err := f.echo.Who(ctx, ""); err != nil || got != name {
			t.Errorf("reached %q, %v; want %q", got, err, name)
		}
	}
}

// Calls that may have no key go to any endpoint, with no header; those with one
// go to its owner.
func TestKeyOptional_A05(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]interceptors.KeyOption{
		"all":         interceptors.KeyOptional(),
		"by a method": interceptors.KeyOptionalFor(sdktest.EchoWho),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, testSharding(), []string{"a", "b", "c"}, sdk.WithKeyOptions(option))
			f.assigned(t, sdktest.From("", "a"))
			if got := f.who(t, "k"); got != "a" {
				t.Errorf("the key reached %q", got)
			}
			reached := map[string]bool{}
			eventually(t, "every endpoint reached", func() bool {
				got, err := f.echo.Who(within(t, 5*time.Second), "")
				if err != nil {
					t.Fatalf("without key: %v", err)
				}
				reached[got] = true
				return len(reached) == 3
			})
			for _, b := range []string{"b", "c"} {
				if keys := f.Backend(b).Keys(testHeader); len(keys) > 0 {
					t.Errorf("%s received the header, %q", b, keys)
				}
			}
			if got := f.who(t, "k"); got != "a" {
				t.Errorf("afterwards the key reached %q", got)
			}
		})
	}
}

// The status of a key source keeps its code, its details and its cause, and says
// which target the call was for.
func TestKeySourceStatus(t *testing.T) {
	t.Parallel()
	refusal, err := status.New(codes.PermissionDenied, "not your tenant").WithDetails(wrapperspb.String("detail"))
	if err != nil {
		t.Fatal(err)
	}
	cause := refusal.Err()
	f := start(t, testSharding(), []string{"a"}, sdk.WithKeyOptions(interceptors.KeyFrom(interceptors.FuncKey(
		func(context.Context, string, any) (string, bool, error) { return "", false, cause }))))
	f.AssignEven(testTarget)
	_, err = f.echo.Who(within(t, 5*time.Second), "")
	st := status.Convert(err)
	if want := fmt.Sprintf("slicewire: target %q: not your tenant", f.Target()); st.Code() != codes.PermissionDenied || st.Message() != want || len(st.Details()) != 1 {
		t.Errorf("status %v with %d details, want %s", st, len(st.Details()), want)
	}
	if !errors.Is(err, cause) {
		t.Errorf("%v does not wrap its cause", err)
	}
}

// IM-04: every byte in a "-bin" header, whatever its case in the config.
func TestBinaryKeys_IM04(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		sh := testSharding(inRevision)
		sh.KeyHeader = "Shard-Key-BIN"
		f := startQuick(t, sh, []string{"low", "high"})
		f.assigned(t, sdktest.From("", "low"), sdktest.From("\x80", "high"))
		var every []byte
		for b := range 256 {
			every = append(every, byte(b))
			key := []byte{byte(b), 0xff, 0x00, byte(b)}
			want := "low"
			if b >= 0x80 {
				want = "high"
			}
			f.Backend(want).Forget()
			got, err := f.echo.Who(interceptors.WithKey(within(t, 5*time.Second), key), "")
			if err != nil || got != want {
				t.Fatalf("key % x reached %q, %v; want %q", key, got, err, want)
			}
			if keys := f.Backend(want).Keys("shard-key-bin"); len(keys) != 1 || keys[0] != string(key) {
				t.Fatalf("key % x arrived as %q", key, keys)
			}
		}
		f.Backend("low").Forget()
		if _, err := f.echo.Who(interceptors.WithKey(within(t, 5*time.Second), every), ""); err != nil {
			t.Fatal(err)
		}
		if keys := f.Backend("low").Keys("shard-key-bin"); len(keys) != 1 || !bytes.Equal([]byte(keys[0]), every) {
			t.Errorf("all bytes arrived as %q", keys)
		}
	})
}

func TestHeaderNames_IM04(t *testing.T) {
	t.Parallel()
	t.Run("any case", func(t *testing.T) {
		t.Parallel()
		sh := testSharding()
		sh.KeyHeader = "X-Shard-Key"
		f := start(t, sh, []string{"a"})
		f.AssignEven(testTarget)
		_ = f.who(t, "k")
		if keys := f.Backend("a").Keys("x-shard-key"); !slices.Equal(keys, []string{"k"}) {
			t.Errorf("the header holds %q", keys)
		}
	})
	t.Run("control bytes in a plain header", func(t *testing.T) {
		t.Parallel()
		f := start(t, testSharding(), []string{"a"})
		f.AssignEven(testTarget)
		for _, key := range []string{"a\x00b", "a\nb", "é"} {
			f.fails(t, withKey(t, 5*time.Second, key), codes.InvalidArgument, []string{testHeader, "-bin"})
		}
		if n := f.Backend("a").Count(); n != 0 {
			t.Errorf("%d calls reached a server", n)
		}
	})
}

// An attempt that fails is picked again, by the map of the moment, with the same
// single key.
func TestRetriesUseTheNewestMap_IM03(t *testing.T) {
	t.Parallel()
	// Long enough for a move to arrive between two attempts.
	const slow = `{"methodConfig": [{"name": [{"service": "slicewire.test.Echo"}], "retryPolicy": {
		"maxAttempts": 2, "initialBackoff": "0.7s", "maxBackoff": "0.7s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`
	retry := interceptors.Retry(interceptors.RetryBackoff(700*time.Millisecond, time.Second))
	ways := map[string]struct {
		option  sdk.Option
		attempt string // header that counts attempts
	}{
		"service config": {sdk.WithServiceConfig(slow), "grpc-previous-rpc-attempts"},
		"middleware":     {sdk.WithDialOptions(interceptors.Chain(retry)...), "x-retry-attempt"},
	}
	calls := map[string]func(f *fixture, ctx context.Context) (string, error){
		"unary": func(f *fixture, ctx context.Context) (string, error) { return f.echo.Who(ctx, "") },
		"stream": func(f *fixture, ctx context.Context) (string, error) {
			s, err := f.echo.Watch(ctx, "")
			if err != nil {
				return "", err
			}
			return s.Recv()
		},
	}
	for way, w := range ways {
		for kind, call := range calls {
			t.Run(way+"/"+kind, func(t *testing.T) {
				t.Parallel()
				f := startQuick(t, testSharding(), []string{"a", "b"}, w.option)
				f.assigned(t, sdktest.From("", "a"))
				f.Backend("a").FailCalls(codes.Unavailable)
				type answer struct {
					name string
					err  error
				}
				answers := make(chan answer, 1)
				ctx, cancel := context.WithCancel(withKey(t, 8*time.Second, "k"))
				defer cancel()
				go func() {
					name, err := call(f, ctx)
					answers <- answer{name, err}
				}()
				if err := f.Backend("a").WaitCalls(within(t, 5*time.Second), 1); err != nil {
					t.Fatal(err)
				}
				f.reaches(t, f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "b"))))
				if got := <-answers; got.err != nil || got.name != "b" {
					t.Fatalf("reached %q, %v; want the new owner", got.name, got.err)
				}
				cancel()
				if n := f.Backend("a").Count(); n != 1 {
					t.Errorf("the old owner got %d attempts", n)
				}
				second := f.Backend("b").Calls()[0].Metadata
				if keys := second.Get(testHeader); !slices.Equal(keys, []string{"k"}) {
					t.Errorf("attempt 2 carries the keys %q", keys)
				}
				if got := second.Get(w.attempt); !slices.Equal(got, []string{"1"}) {
					t.Errorf("attempt 2 has %s %q", w.attempt, got)
				}
			})
		}
	}
}

// A handler calls out with the context of the request it serves.
func TestInboundKeyIsNotOutbound_IM05(t *testing.T) {
	t.Parallel()
	c := sdktest.NewCluster(t, "a")
	c.AssignEven(testTarget)
	inbound := func(d time.Duration) context.Context {
		return metadata.NewIncomingContext(within(t, d), metadata.Pairs(testHeader, "theirs", "authorization", "secret"))
	}
	f := dial(t, c, testSharding())
	f.fails(t, inbound(5*time.Second), codes.InvalidArgument, []string{"no sharding key"})
	forwarding := dial(t, c, testSharding(), sdk.WithKeyOptions(interceptors.ForwardInboundKey()))
	if _, err := forwarding.echo.Who(inbound(5*time.Second), ""); err != nil {
		t.Fatal(err)
	}
	md := c.Backend("a").Calls()[0].Metadata
	if keys := md.Get(testHeader); !slices.Equal(keys, []string{"theirs"}) {
		t.Errorf("forwarded keys are %q", keys)
	}
	if leaked := md.Get("authorization"); len(leaked) > 0 {
		t.Errorf("another inbound header leaked: %q", leaked)
	}
}

// A caller's context and bytes stay as they are (LL-07).
func TestKeyBytesAreCopied_LL07(t *testing.T) {
	t.Parallel()
	f := start(t, testSharding(), []string{"a", "b"})
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
	key := []byte("alice")
	md := metadata.Pairs("X-Other", "1")
	ctx := interceptors.WithKey(metadata.NewOutgoingContext(within(t, 5*time.Second), md), key)
	copy(key, "zzzzz")
	for range 2 { // the same context twice
		if got, err := f.echo.Who(ctx, ""); err != nil || got != "a" {
			t.Errorf("reached %q, %v", got, err)
		}
	}
	if len(md) != 1 || !strings.EqualFold(md.Get("x-other")[0], "1") {
		t.Errorf("the caller's metadata is now %v", md)
	}
}
