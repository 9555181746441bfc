package interceptors_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// ownerPolicy is a balancer whose picker sends every call with key "k" to the
// owner of the moment, as the real one does, and the others nowhere.
const ownerPolicy = "interceptors_test_owner"

var owner atomic.Pointer[string] // stored by tests, loaded by each pick

func init() {
	balancer.Register(base.NewBalancerBuilder(ownerPolicy, ownerPickers{}, base.Config{}))
}

type ownerPickers struct{}

func (ownerPickers) Build(info base.PickerBuildInfo) balancer.Picker {
	byAddr := make(map[string]balancer.SubConn)
	for sc, i := range info.ReadySCs {
		byAddr[i.Address.Addr] = sc
	}
	return ownerPicker(byAddr)
}

type ownerPicker map[string]balancer.SubConn

func (p ownerPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	if c := callinfo.From(info.Ctx); c == nil || !c.HasKey || c.Key != "k" || c.Header != header {
		return balancer.PickResult{}, status.Error(codes.Internal, "the picker got another key")
	}
	sc, ok := p[*owner.Load()]
	if !ok {
		return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
	}
	return balancer.PickResult{SubConn: sc}, nil
}

const serviceConfigRetry = `{"loadBalancingConfig":[{"interceptors_test_owner":{}}],"methodConfig":[{"name":[{}],
	"retryPolicy":{"maxAttempts":4,"initialBackoff":"0.01s","maxBackoff":"0.01s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`

// Field case IM-03: retries keep the key and use the map of the moment.
func TestIM03RetriesKeepTheKeyAndPickAnew(t *testing.T) {
	quick := interceptors.RetryBackoff(time.Millisecond, time.Millisecond)
	for _, tt := range []struct {
		name          string
		opts          func(k *interceptors.Key) []grpc.DialOption
		config        string
		attemptHeader string
		kinds         []string
	}{
		{"retry preset outside the key", func(k *interceptors.Key) []grpc.DialOption {
			return interceptors.Chain(interceptors.Retry(quick), k.Pair())
		}, `{"loadBalancingConfig":[{"interceptors_test_owner":{}}]}`, "x-retry-attempt", []string{"unary", "output"}},
		{"retry preset inside the key", func(k *interceptors.Key) []grpc.DialOption {
			return interceptors.Chain(k.Pair(), interceptors.Retry(quick))
		}, `{"loadBalancingConfig":[{"interceptors_test_owner":{}}]}`, "x-retry-attempt", []string{"unary", "output"}},
		{"service config", func(k *interceptors.Key) []grpc.DialOption {
			return interceptors.Chain(k.Pair())
		}, serviceConfigRetry, "grpc-previous-rpc-attempts", []string{"unary", "output", "duplex"}},
	} {
		for _, kind := range tt.kinds {
			t.Run(tt.name+"/"+kind, func(t *testing.T) {
				newOwner := newServer(t, nil)
				oldOwner := newServer(t, func(call int) error {
					if call == 2 { // the slice moves between attempts 2 and 3
						owner.Store(&newOwner.addr)
					}
					return status.Error(codes.Unavailable, "not mine")
				})
				owner.Store(&oldOwner.addr)

				r := manual.NewBuilderWithScheme("owners")
				r.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: oldOwner.addr}, {Addr: newOwner.addr}}})
				c := dial(t, "owners:///x", append(tt.opts(newKey(t, header)), grpc.WithResolvers(r), grpc.WithDefaultServiceConfig(tt.config))...)

				ctx := metadata.AppendToOutgoingContext(interceptors.WithKeyString(testContext(t), "k"), "x-other", "o")
				var err error
				switch kind {
				case "unary":
					_, err = c.UnaryCall(ctx, &pb.SimpleRequest{}, grpc.WaitForReady(true))
				case "output":
					_, err = output(ctx, c)
				case "duplex":
					err = duplex(ctx, c)
				}
				if err != nil {
					t.Fatal(err)
				}
				var attempts [][]string
				for _, md := range append(oldOwner.seen(), newOwner.seen()...) {
					if !cmp.Equal(md[header], []string{"k"}) || !cmp.Equal(md["x-other"], []string{"o"}) {
						t.Errorf("attempt carried key %q and other %q", md[header], md["x-other"])
					}
					attempts = append(attempts, md[tt.attemptHeader])
				}
				if diff := cmp.Diff([][]string{nil, {"1"}, {"2"}}, attempts); diff != "" {
					t.Errorf("attempt header (-want +got):\n%s", diff)
				}
				if len(newOwner.seen()) != 1 {
					t.Errorf("the new owner saw %d attempts, want the third alone", len(newOwner.seen()))
				}
			})
		}
	}
}

func TestRetryPreset(t *testing.T) {
	quick := interceptors.RetryBackoff(time.Millisecond, time.Millisecond)
	unavailable := status.Error(codes.Unavailable, "down")
	always := func(err error) func(int) error { return func(int) error { return err } }
	unary := func(ctx context.Context, c pb.TestServiceClient) error {
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
		return err
	}
	stream := func(ctx context.Context, c pb.TestServiceClient) error {
		_, err := output(ctx, c)
		return err
	}
	for _, tt := range []struct {
		name     string
		opts     []interceptors.RetryOption
		answer   func(int) error
		call     func(context.Context, pb.TestServiceClient) error
		code     codes.Code
		attempts int
	}{
		{name: "three attempts by default", answer: always(unavailable), call: unary, code: codes.Unavailable, attempts: 3},
		{name: "stream, three by default", answer: always(unavailable), call: stream, code: codes.Unavailable, attempts: 3},
		{name: "attempts set", opts: []interceptors.RetryOption{interceptors.RetryAttempts(5)}, answer: always(unavailable), call: unary, code: codes.Unavailable, attempts: 5},
		{name: "none", opts: []interceptors.RetryOption{interceptors.RetryAttempts(0)}, answer: always(unavailable), call: unary, code: codes.Unavailable, attempts: 1},
		{name: "other codes are final", answer: always(status.Error(codes.ResourceExhausted, "")), call: unary, code: codes.ResourceExhausted, attempts: 1},
		{name: "codes set", opts: []interceptors.RetryOption{interceptors.RetryCodes(codes.Aborted)}, answer: always(status.Error(codes.Aborted, "")), call: stream, code: codes.Aborted, attempts: 3},
		{name: "deadline is final whatever is set", opts: []interceptors.RetryOption{interceptors.RetryCodes(codes.DeadlineExceeded)}, answer: always(status.Error(codes.DeadlineExceeded, "")), call: unary, code: codes.DeadlineExceeded, attempts: 1},
		{name: "streams of many requests run once", answer: always(unavailable), call: duplex, code: codes.Unavailable, attempts: 1},
		{name: "streams of many requests run", call: duplex, attempts: 1},
		{name: "switched off for one call", answer: always(unavailable), code: codes.Unavailable, attempts: 1, call: func(ctx context.Context, c pb.TestServiceClient) error {
			_, err := c.UnaryCall(ctx, &pb.SimpleRequest{}, retry.Disable())
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, tt.answer)
			c := dial(t, s.addr, interceptors.Chain(interceptors.Retry(append([]interceptors.RetryOption{quick}, tt.opts...)...))...)
			if err := tt.call(testContext(t), c); status.Code(err) != tt.code {
				t.Errorf("error %v, want %v", err, tt.code)
			}
			if got := len(s.seen()); got != tt.attempts {
				t.Errorf("%d attempts, want %d", got, tt.attempts)
			}
		})
	}
}

// The application never sees the beginning of an answer twice.
func TestRetryStreamNotAfterItsFirstMessage(t *testing.T) {
	s := newServer(t, nil)
	s.midway = status.Error(codes.Unavailable, "broke midway")
	c := dial(t, s.addr, interceptors.Chain(interceptors.Retry(interceptors.RetryBackoff(0, 0)))...)
	messages, err := output(testContext(t), c)
	if messages != 1 || status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "broke midway" {
		t.Errorf("%d messages, error %v; want the one message and the server's own error", messages, err)
	}
	if got := len(s.seen()); got != 1 {
		t.Errorf("%d attempts, want 1", got)
	}
}

func TestRetryAttemptTimeout(t *testing.T) {
	s := newServer(t, nil)
	s.answer = func(call int) error {
		if call == 1 {
			<-s.hang
		}
		return nil
	}
	s.hang = make(chan struct{})
	defer close(s.hang)
	c := dial(t, s.addr, interceptors.Chain(interceptors.Retry(interceptors.RetryAttemptTimeout(100*time.Millisecond), interceptors.RetryBackoff(0, 0)))...)
	if _, err := c.UnaryCall(testContext(t), &pb.SimpleRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	if got := len(s.seen()); got < 2 {
		t.Errorf("%d attempts, want 2", got)
	}
}

func TestTimeoutPreset(t *testing.T) {
	s := newServer(t, nil)
	s.hang = make(chan struct{})
	defer close(s.hang)
	s.answer = func(int) error { <-s.hang; return nil }
	c := dial(t, s.addr, interceptors.Chain(interceptors.Timeout(50*time.Millisecond))...)
	if _, err := c.UnaryCall(testContext(t), &pb.SimpleRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("error %v, want DEADLINE_EXCEEDED", err)
	}
	if p := interceptors.Timeout(0); p.Unary != nil || p.Stream != nil {
		t.Errorf("Timeout(0) does something")
	}
	if p := interceptors.Timeout(time.Second); p.Stream != nil {
		t.Errorf("Timeout bounds streams")
	}
}

func TestPairOnly(t *testing.T) {
	s := newServer(t, func(int) error { return status.Error(codes.Unavailable, "down") })
	for _, tt := range []struct {
		name          string
		match         func(...string) (m matcher, err error)
		patterns      []string
		unary, stream int
	}{
		{"for a method", interceptors.ForMethods, []string{unaryMethod}, 3, 1},
		{"for a service", interceptors.ForMethods, []string{"/grpc.testing.TestService/*"}, 3, 3},
		{"except a method", interceptors.ExceptMethods, []string{unaryMethod}, 1, 3},
		{"except all", interceptors.ExceptMethods, []string{"*"}, 1, 1},
		{"for none", interceptors.ForMethods, nil, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := tt.match(tt.patterns...)
			if err != nil {
				t.Fatal(err)
			}
			c := dial(t, s.addr, interceptors.Chain(interceptors.Retry(interceptors.RetryBackoff(0, 0)).Only(m), interceptors.Timeout(time.Minute).Only(m))...)
			before := len(s.seen())
			_, _ = c.UnaryCall(testContext(t), &pb.SimpleRequest{})
			middle := len(s.seen())
			_, _ = output(testContext(t), c)
			if unary, stream := middle-before, len(s.seen())-middle; unary != tt.unary || stream != tt.stream {
				t.Errorf("%d unary and %d stream attempts, want %d and %d", unary, stream, tt.unary, tt.stream)
			}
		})
	}
	for name, match := range map[string]func(...string) (matcher, error){"ForMethods": interceptors.ForMethods, "ExceptMethods": interceptors.ExceptMethods} {
		if _, err := match("UnaryCall"); err == nil {
			t.Errorf("%s took a malformed pattern", name)
		}
	}
}
