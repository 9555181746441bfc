package assignment

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// logText is a logger and what it wrote. It may be used concurrently.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// warnings are the lines that say the service cannot be reached.
func (l *logText) warnings() (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, "cannot be reached; a stream waits") {
			lines = append(lines, line)
		}
	}
	return lines
}

// closedPort is an address on loopback where nothing listens.
const closedPort = "127.0.0.1:1"

// A service that cannot be reached: cause and address are in the status and the
// log at once, and in the error of the initial timeout.
func TestUnreachable(t *testing.T) {
	plaintext := insecure.NewCredentials()
	listening := newService(silence).listen(t)
	tests := map[string]struct {
		target string
		creds  credentials.TransportCredentials
		want   []string
	}{
		"refused":        {closedPort, plaintext, []string{closedPort, "connection refused"}},
		"no such host":   {"dns:///nowhere.invalid:443", plaintext, []string{"dns:///nowhere.invalid:443", "name resolver error"}},
		"TLS":            {listening, credentials.NewTLS(nil), []string{listening, "handshake failed"}},
		"unknown scheme": {"dsn:///localhost:443", plaintext, []string{"dsn:///localhost:443"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logText
			w := NewWatcher(Options{Logger: log.logger()}, nil)
			defer w.Close()
			want := slices.Concat(tt.want, []string{"cannot be reached: "})
			c := with(func(c *Config) { c.InitialTimeout = time.Second })
			w.Configure(c, func(string) (grpc.ClientConnInterface, func(), error) {
				cc, err := grpc.NewClient(tt.target, grpc.WithTransportCredentials(tt.creds))
				return cc, func() { _ = cc.Close() }, err
			})
			eventually(t, "the cause is known", func() bool { return w.Status().LastError != "" })
			wantText(t, errors.New(w.Status().LastError), want...)
			eventually(t, "the watcher failed", func() bool { return w.State().Phase == Failed })
			wantText(t, w.State().Err, append(want, `"key-one"`, `"target-one"`)...)
			if s := w.Status(); s.StreamsOpened != 0 || s.StreamConnected {
				t.Errorf("status %+v counts streams that the service never saw", s)
			}
			// The status of a connection is no verdict on RPCs.
			if s, ok := status.FromError(w.State().Err); ok {
				t.Errorf("the error has the status %v", s)
			}
			w.Close()
			lines := log.warnings()
			if len(lines) != 1 {
				t.Fatalf("%d warnings, want 1: %q", len(lines), lines)
			}
			for _, text := range tt.want {
				if !strings.Contains(lines[0], text) {
					t.Errorf("the warning lacks %q: %s", text, lines[0])
				}
			}
			if text := log.text.String(); !strings.Contains(text, `timeout has passed" channel_key=key-one sharding_target=target-one`) {
				t.Errorf("the timeout's warning does not name key and target: %s", text)
			}
		})
	}
}

// downChannel is a channel that cannot connect until it is up, as gRPC's: a call
// that does not wait is told why, one that waits is not.
type downChannel struct {
	*memory
	mu    sync.Mutex
	cause string // "" is up
	asked int    // calls that did not wait
	up    chan struct{}
}

func newDown(s *service, cause string) *downChannel {
	return &downChannel{memory: newMemory(s), cause: cause, up: make(chan struct{})}
}

func (c *downChannel) set(cause string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cause == "" {
		close(c.up)
	} else if c.cause == "" {
		c.up = make(chan struct{})
	}
	c.cause = cause
}

func (c *downChannel) askedTimes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *downChannel) provide(string) (grpc.ClientConnInterface, func(), error) {
	return c, c.release, nil
}

func waits(opts []grpc.CallOption) bool {
	for _, o := range opts {
		if f, ok := o.(grpc.FailFastCallOption); ok {
			return !f.FailFast
		}
	}
	return false
}

func (c *downChannel) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c.mu.Lock()
	cause, up := c.cause, c.up
	if !waits(opts) {
		c.asked++
	}
	c.mu.Unlock()
	if cause != "" {
		if !waits(opts) {
			return nil, status.Error(codes.Unavailable, cause)
		}
		select {
		case <-up:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	return c.memory.NewStream(ctx, d, method, opts...)
}

// The newest cause is known all along, one warning is given for each outage, and
// the stream is opened in the moment in which the channel connects: what went
// before is no stream, no retry and no backoff (A119: wait-for-ready).
func TestUnreachableForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		svc := newService(silence)
		c := newDown(svc, "refused")
		w := NewWatcher(Options{Logger: log.logger()}, nil)
		defer w.Close()
		w.Configure(with(func(c *Config) { c.InitialTimeout = 5 * time.Minute }), c.provide)
		synctest.Wait()
		wantText(t, errors.New(w.Status().LastError), "refused")
		wantText(t, errors.New(w.Pending()), `"key-one"`, `"target-one"`, "cannot be reached: refused")
		c.set("no such host")
		time.Sleep(12 * time.Second)
		wantText(t, errors.New(w.Status().LastError), "no such host")

		time.Sleep(10 * time.Minute)
		wantText(t, wantPhase(t, w, Failed).Err, "5m0s", "cannot be reached: no such host")
		if n := c.askedTimes(); n < 50 || n > 70 {
			t.Errorf("the channel was asked %d times in 10 minutes, want once in 10 s", n)
		}
		if n := len(log.warnings()); n != 1 {
			t.Errorf("%d warnings of one outage", n)
		}
		if s := w.Status(); s.StreamsOpened != 0 || svc.streams() != 0 {
			t.Errorf("status %+v, and %d streams at the service", s, svc.streams())
		}

		c.set("")
		synctest.Wait() // no time passes
		if s := w.Status(); !s.StreamConnected || s.StreamsOpened != 1 || svc.streams() != 1 {
			t.Errorf("status %+v, want a stream at once", s)
		}
		wantText(t, w.State().Err, "a stream is open")

		c.set("gone") // the next outage, with a first failure of backoff
		c.breakStreams()
		time.Sleep(2 * time.Second)
		wantText(t, errors.New(w.Status().LastError), "cannot be reached: gone")
		time.Sleep(5 * time.Minute)
		c.set("")
		synctest.Wait()
		if n := svc.streams(); n != 2 || len(log.warnings()) != 2 {
			t.Errorf("%d streams and %d warnings, want two of each", n, len(log.warnings()))
		}
	})
}

// 2026-10 reports errors of streams at once. That there is no connection is not
// one: the stream waits.
func TestUnreachableIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWatcher(Options{}, nil)
		defer w.Close()
		w.Configure(with(october), newDown(newService(silence), "refused").provide)
		time.Sleep(59 * time.Second)
		wantPhase(t, w, Waiting)
	})
}

// lateChannel opens every stream in the moment in which the wait for it ends.
type lateChannel struct{ *downChannel }

func (c lateChannel) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if !waits(opts) {
		return c.downChannel.NewStream(ctx, d, method, opts...)
	}
	<-ctx.Done()
	for { // either may win
		if s, err := c.memory.NewStream(ctx, d, method, opts...); err == nil {
			return s, nil
		}
	}
}

// A stream that is opened as the wait ends was seen by the service: it is ended
// on the channel, counted and spaced, but no failure.
func TestUnreachableOpensTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newDown(newService(silence), "refused")
		w := NewWatcher(Options{}, nil)
		w.Configure(cfg, func(string) (grpc.ClientConnInterface, func(), error) { return lateChannel{c}, c.release, nil })
		time.Sleep(10 * time.Minute)
		s := w.Status()
		if s.StreamsOpened < 45 || s.StreamsOpened > 60 {
			t.Errorf("%d streams in 10 minutes, want one in 11 s: never backed off", s.StreamsOpened)
		}
		wantText(t, errors.New(s.LastError), "cannot be reached: refused")
		w.Close()
		c.check(t)
	})
}

func TestMachineWarnsOnceAnOutage(t *testing.T) {
	v := newVirtual(t, Revision202608, 0.5)
	steps := []struct {
		after time.Duration
		event string
		warn  bool
	}{
		{0, "unreachable", true},
		{time.Hour, "unreachable", false},
		{time.Second, "opened", false},
		{time.Second, "unreachable", true},
		{time.Second, "opened", false},
		{time.Second, "unreachable", false}, // it flaps
		{59 * time.Second, "unreachable", true},
		{time.Hour, "unreachable", false},
	}
	for i, s := range steps {
		v.pass(s.after)
		if s.event == "opened" {
			v.opened(v.now)
		} else if got := v.unreachable(v.now); got != s.warn {
			t.Errorf("step %d: warn %v, want %v", i, got, s.warn)
		}
	}
}
