package sdktest

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen at once.
func patience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func startSharding(t *testing.T) *ShardingService {
	t.Helper()
	s := must[*ShardingService](t)(StartSharding())
	t.Cleanup(s.Close)
	return s
}

func startBackend(t *testing.T, name string, opts ...Option) *Backend {
	t.Helper()
	b := must[*Backend](t)(StartBackend(name, opts...))
	t.Cleanup(b.Close)
	return b
}

// dial makes a channel that does not back off for longer than a moment.
func dial(t *testing.T, target string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	params := grpc.ConnectParams{MinConnectTimeout: 5 * time.Second}
	params.Backoff.BaseDelay = 10 * time.Millisecond
	params.Backoff.MaxDelay = 50 * time.Millisecond
	params.Backoff.Multiplier = 1.6
	opts = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(params),
	}, opts...)
	cc := must[*grpc.ClientConn](t)(grpc.NewClient(target, opts...))
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// watch opens a stream of the protocol and says the first message.
func watch(t *testing.T, cc *grpc.ClientConn, target string, latest int64) *wire.Watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	w := must[*wire.Watch](t)(wire.Open(ctx, cc, 64<<20))
	err := w.Send(&wire.WatchShardingAssignmentRequest{
		Request: &wire.WatchShardingAssignmentRequest_InitialClientConfig{
			InitialClientConfig: &wire.InitialClientConfig{Target: target, ClientUuid: "u-1", LatestGeneration: latest},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func sendAck(t *testing.T, w *wire.Watch, generation int64, accepted bool, message string) {
	t.Helper()
	err := w.Send(&wire.WatchShardingAssignmentRequest{
		Request: &wire.WatchShardingAssignmentRequest_AssignmentAck{
			AssignmentAck: &wire.AssignmentAck{Generation: generation, Accepted: accepted, ErrorMessage: message},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}
