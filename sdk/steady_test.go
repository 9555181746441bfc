package sdk_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// plain asks for plaintext connections to the endpoints.
var plain = sdk.WithTransportCredentials(insecure.NewCredentials())

// quickBackoff takes the place of gRPC's seconds.
var quickBackoff = backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 200 * time.Millisecond}

// quickStream makes a client come back soon to the sharding service.
func quickStream(change ...func(*sdk.ShardingStream)) sdk.Option {
	st := sdk.ShardingStream{Backoff: quickBackoff, MinGap: 20 * time.Millisecond}
	for _, c := range change {
		c(&st)
	}
	return sdk.WithShardingStream(st)
}

// quickService declares c's sharding service under the tests' key, with a
// channel that reconnects soon.
func quickService(c *sdktest.Cluster) sdk.Option {
	return sdk.WithShardingService("main", c.Sharding().Addr(), plaintext,
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quickBackoff, MinConnectTimeout: time.Second}))
}

// startQuick is start with a client that comes back soon.
func startQuick(t testing.TB, sh sdk.Sharding, names []string, opts ...sdk.Option) *fixture {
	t.Helper()
	c := sdktest.NewCluster(t, names...)
	return dial(t, c, sh, append([]sdk.Option{quickStream()}, opts...)...)
}

// inBothRevisions runs a test under either draft of A119.
func inBothRevisions(t *testing.T, test func(t *testing.T, inRevision func(*sdk.Sharding))) {
	for _, rev := range []assignment.Revision{assignment.Revision202608, assignment.Revision202610} {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			test(t, func(sh *sdk.Sharding) { sh.Revision = rev })
		})
	}
}

// openStream makes the client open a stream to a sharding service that may have
// nothing to say yet.
func (f *fixture) openStream(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = f.client.WaitReady(ctx) // connects
	if err := f.Sharding().WaitLive(within(t, 5*time.Second), 1); err != nil {
		t.Fatal(err)
	}
}

// assigned puts an assignment in force at the client and returns its generation.
func (f *fixture) assigned(t testing.TB, slices ...sdktest.Slice) int64 {
	t.Helper()
	generation := f.Sharding().Assign(testTarget, sdktest.Ranges(slices...))
	f.openStream(t)
	f.reaches(t, generation)
	return generation
}

// reaches waits until picks use a generation, or, while the channel is idle, the
// client holds it.
func (f *fixture) reaches(t testing.TB, generation int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("generation %d", generation), func() bool {
		s := f.client.Status()
		idle := s.Target == ""
		return s.Generation >= generation || idle && s.Assignment.Generation >= generation
	})
}

// steady is RPCs that go on while something else happens. None may fail, and
// each must reach the owner of its key.
type steady struct {
	stop    chan struct{}
	running sync.WaitGroup
	calls   atomic.Int64

	mu     sync.Mutex // guards faults
	faults []string
}

// keepCalling sends RPCs with the keys of owners until end. An owner "" is any.
func keepCalling(f *fixture, owners map[string]string) *steady {
	s := &steady{stop: make(chan struct{})}
	for key, owner := range owners {
		s.running.Go(func() {
			for {
				select {
				case <-s.stop:
					return
				case <-time.After(time.Millisecond):
				}
				s.call(f, key, owner)
			}
		})
	}
	return s
}

func (s *steady) call(f *fixture, key, owner string) {
	ctx, cancel := context.WithTimeout(interceptors.WithKeyString(context.Background(), key), 5*time.Second)
	defer cancel()
	name, err := f.echo.Who(ctx, "")
	s.calls.Add(1)
	if err == nil && (name == owner || owner == "") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) < 5 {
		s.faults = append(s.faults, fmt.Sprintf("key %q reached %q, want %q; error: %v", key, name, owner, err))
	}
}

// more waits for n more calls.
func (s *steady) more(t testing.TB, n int64) {
	t.Helper()
	want := s.calls.Load() + n
	eventually(t, "more calls", func() bool { return s.calls.Load() >= want })
}

// end stops the calls and fails the test if one went wrong.
func (s *steady) end(t testing.TB) {
	t.Helper()
	close(s.stop)
	s.running.Wait()
	if s.calls.Load() == 0 {
		t.Error("there was no traffic")
	}
	for _, fault := range s.faults {
		t.Error(fault)
	}
}

// logBook is what a client logged.
type logBook struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// option makes a client log into the book, debug records too.
func (b *logBook) option() sdk.Option {
	return sdk.WithLogger(slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug})))
}
