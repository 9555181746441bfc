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
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// marker is a key that must appear nowhere but on the wire.
const marker = "SECRET-4711-marker"

// keepsSecret fails the test if the marker is in any of the texts, or in the
// client's status.
func (f *fixture) keepsSecret(t testing.TB, texts ...string) {
	t.Helper()
	s := f.client.Status()
	texts = append(texts, fmt.Sprintf("%+v", s), fmt.Sprintf("%#v", s), fmt.Sprintf("%+v", s.Config),
		fmt.Sprint(s.LastResolverError), fmt.Sprint(s.LastConfigError))
	for _, text := range texts {
		if strings.Contains(text, marker) || strings.Contains(text, marker[:11]) {
			t.Errorf("the key is in %q", text)
		}
	}
}

// TestEachErrorSaysWhat goes through the errors of routing: which one, for which
// target, and what to do. None has the key; none of these RPCs is sent.
func TestEachErrorSaysWhat(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		options []sdk.Option
		break_  func(t *testing.T, f *fixture)
		ctx     func(context.Context) context.Context
		code    codes.Code
		texts   []string // the target is looked for anyway
	}{
		"missing key": {
			ctx: func(ctx context.Context) context.Context {
				return metadata.AppendToOutgoingContext(ctx, "x-other", marker)
			},
			code:  codes.InvalidArgument,
			texts: []string{"no sharding key", testHeader, "interceptors.WithKey(ctx, key)", "interceptors.KeyFrom", "sdk.WithKeyOptions"},
		},
		"two keys": {
			ctx: func(ctx context.Context) context.Context {
				return metadata.AppendToOutgoingContext(ctx, testHeader, marker, testHeader, marker)
			},
			code:  codes.InvalidArgument,
			texts: []string{"2 values", testHeader, "set the header once"},
		},
		"unprintable key": {
			ctx:   func(ctx context.Context) context.Context { return interceptors.WithKeyString(ctx, marker+"\x01") },
			code:  codes.InvalidArgument,
			texts: []string{testHeader, "-bin"},
		},
		"key source": {
			options: []sdk.Option{sdk.WithKeyOptions(interceptors.KeyFrom(interceptors.FieldKey("tenant")))},
			ctx:     func(ctx context.Context) context.Context { return ctx },
			code:    codes.InvalidArgument,
			texts:   []string{"has no field \"tenant\"", testHeader},
		},
		"empty field": {
			options: []sdk.Option{sdk.WithKeyOptions(interceptors.KeyFrom(interceptors.FieldKey("value")))},
			ctx:     func(ctx context.Context) context.Context { return ctx },
			code:    codes.InvalidArgument,
			texts:   []string{"the request's field \"value\" is empty", testHeader},
		},
		"unknown provider key": {
			options: []sdk.Option{
				sdk.WithSharding(testSharding(func(sh *sdk.Sharding) { sh.ServiceKey = "elsewhere" })),
				sdk.WithClientConnProvider(func(key string) (grpc.ClientConnInterface, func(), error) {
					return nil, nil, fmt.Errorf("there is no service %q", key)
				}),
			},
			code:  codes.Unavailable,
			texts: []string{`channel key "elsewhere"`, `there is no service "elsewhere"`, "check the channel key"},
		},
		"provider error": {
			options: []sdk.Option{
				sdk.WithSharding(testSharding(func(sh *sdk.Sharding) { sh.ServiceKey = "elsewhere" })),
				sdk.WithClientConnProvider(func(string) (grpc.ClientConnInterface, func(), error) {
					return nil, nil, status.Error(codes.NotFound, "the vault is sealed") // not a code for RPCs
				}),
			},
			code:  codes.Unavailable,
			texts: []string{`channel key "elsewhere"`, "the vault is sealed", "ClientConnProvider"},
		},
		"empty endpoint list": {
			break_: func(t *testing.T, f *fixture) { f.SetEndpoints() },
			code:   codes.Unavailable,
			texts:  []string{"the name resolver gave no endpoints", "until it gives some"},
		},
		"timer expiry": {
			options: []sdk.Option{sdk.WithSharding(testSharding(withTimeout(100 * time.Millisecond)))},
			break_:  func(t *testing.T, f *fixture) { f.Sharding().Hang() },
			code:    codes.Unavailable,
			texts:   []string{"initial assignment timeout of 100ms", `sharding target "users"`, "does it know the target?"},
		},
		"all owners down": {
			break_: func(t *testing.T, f *fixture) {
				f.AssignEven(testTarget)
				f.Backend("a").Kill()
			},
			code:  codes.Unavailable,
			texts: []string{"every owner of the key's slice is failing", `endpoint "a"`, "connection refused"},
		},
		"unknown owner": {
			break_: func(t *testing.T, f *fixture) {
				f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "stranger")))
			},
			code:  codes.Unavailable,
			texts: []string{"the name resolver knows none", "fallback is off"},
		},
		"no owner": {
			break_: func(t *testing.T, f *fixture) { f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From(""))) },
			code:   codes.Unavailable,
			texts:  []string{"the sharding service assigned no endpoint", "fallback is off"},
		},
		"resolver error": {
			break_: func(t *testing.T, f *fixture) {
				f.openStream(t)
				f.SetEndpoints()
				eventually(t, "an empty update", func() bool { return f.client.Status().EmptyUpdates == 1 })
				f.Resolver().ReportError(errors.New("the phone book burned"))
			},
			code:  codes.Unavailable,
			texts: []string{"name resolution failed", "the phone book burned"},
		},
		"deadline": {
			ctx: func(ctx context.Context) context.Context {
				ctx, cancel := context.WithTimeout(interceptors.WithKeyString(ctx, marker), 100*time.Millisecond)
				time.AfterFunc(time.Second, cancel)
				return ctx
			},
			code:  codes.DeadlineExceeded,
			texts: []string{"waiting for the first assignment"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logBook
			f := startQuick(t, testSharding(), []string{"a"}, append(tt.options, log.option())...)
			if tt.break_ != nil {
				tt.break_(t, f)
			}
			ctx := interceptors.WithKeyString(within(t, 5*time.Second), marker)
			if tt.ctx != nil {
				ctx = tt.ctx(within(t, 5*time.Second))
			}
			_, err := f.echo.Who(ctx, "")
			// What was broken may take a moment to arrive.
			for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); _, err = f.echo.Who(ctx, "") {
				if err != nil && strings.Contains(err.Error(), tt.texts[0]) {
					break
				}
			}
			if err == nil {
				t.Fatal("the RPC got through")
			}
			if status.Code(err) != tt.code {
				t.Errorf("code %v, want %v", status.Code(err), tt.code)
			}
			texts := tt.texts
			if tt.code != codes.DeadlineExceeded {
				texts = append(texts, fmt.Sprintf("slicewire: target %q: ", f.Target()))
			}
			if n := strings.Count(err.Error(), f.Target()); n > 1 {
				t.Errorf("the error says the target %d times: %v", n, err)
			}
			for _, text := range texts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("the error lacks %q: %v", text, err)
				}
			}
			_ = f.client.Close()
			f.keepsSecret(t, err.Error(), fmt.Sprintf("%+v", err), log.String())
			if n := f.Backend("a").Count(); n != 0 {
				t.Errorf("%d calls were sent", n)
			}
		})
	}
}

// Keys are bounds of slices as well. Nothing that is said of an assignment, good
// or bad, has them; and a good key is on the wire alone.
func TestKeysStayPrivate(t *testing.T) {
	inBothRevisions(t, func(t *testing.T, inRevision func(*sdk.Sharding)) {
		var log logBook
		f := startQuick(t, testSharding(inRevision), []string{"a", "b"}, log.option())
		f.assigned(t, sdktest.From("", "a"), sdktest.From(marker, "b"), sdktest.From(marker+"2", "a"))
		if got := f.who(t, marker+"1"); got != "b" {
			t.Errorf("reached %q", got)
		}
		bad := []sdktest.ChunkSlice{
			{End: marker, Owners: []int32{0}},
			{Start: marker, End: marker, Owners: []int32{0}},
			{Start: marker, End: marker + "x", Owners: []int32{9}},
			{Start: marker, Owners: []int32{0}},
			{Start: marker + "5", Owners: []int32{0}},
			{Start: marker + strings.Repeat("k", 600), Owners: []int32{0}},
		}
		f.Sharding().Send(testTarget, sdktest.Chunk{Endpoints: []string{"a"}, Slices: bad}, sdktest.Metadata(2))
		acks := f.acksOf(t, 2)
		f.Sharding().Cut()
		texts := []string{acks[1].Message}
		_, err := f.echo.Who(withKey(t, 5*time.Second, marker+"\x00"), "")
		texts = append(texts, fmt.Sprint(err))
		_ = f.client.Close()
		f.keepsSecret(t, append(texts, log.String())...)
		if !strings.Contains(log.String(), "assignment received") {
			t.Error("nothing was logged")
		}
		for _, ack := range acks {
			if strings.Contains(ack.Message, "SECRET") {
				t.Errorf("an ack has the key: %s", ack.Message)
			}
		}
	})
}
