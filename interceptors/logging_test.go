package interceptors_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/interceptors"
)

type matcher = selector.Matcher

// syncBuffer is a log's destination that a test may read while it is written.
type syncBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Keys are personal data: no line holds one, in any field, whatever the server
// says and however much is logged.
func TestLoggingHoldsNoKey(t *testing.T) {
	const key = `alice "al"@example.org`
	forms := []string{"alice", "example.org", hex.EncodeToString([]byte(key)), base64.StdEncoding.EncodeToString([]byte(key))}
	for _, says := range []string{
		"no such user " + key,
		fmt.Sprintf("no such user %q", key),
		fmt.Sprintf("no such user %X", key),
		"no such user " + base64.StdEncoding.EncodeToString([]byte(key)),
		"no such user " + strings.ToUpper(key),
	} {
		for name, opts := range map[string][]interceptors.LogOption{
			"default":    nil,
			"everything": {interceptors.LogStarts(), interceptors.LogErrorText(), interceptors.LogLevels(func(codes.Code) slog.Level { return slog.LevelError })},
		} {
			t.Run(name+"/"+says[len("no such user "):][:5], func(t *testing.T) {
				var buf syncBuffer
				logger := slog.New(slog.NewJSONHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))
				s := newServer(t, func(int) error { return status.Error(codes.NotFound, says) })
				k := newKey(t, header, interceptors.KeyFrom(interceptors.FieldKey("payload.body")))
				c := dial(t, s.addr, interceptors.Chain(k.Pair(), interceptors.Logging(logger, opts...))...)

				ctx := interceptors.WithKeyString(testContext(t), key)
				_, _ = output(ctx, c)
				_ = duplex(ctx, c)
				_, _ = c.UnaryCall(ctx, &pb.SimpleRequest{})
				_, _ = c.UnaryCall(testContext(t), &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(key)}})
				_, _ = c.UnaryCall(metadata.AppendToOutgoingContext(testContext(t), header, key), &pb.SimpleRequest{})

				text := buf.String()
				if n := strings.Count(text, "finished call"); n != 5 {
					t.Errorf("%d lines of finished calls, want 5:\n%s", n, text)
				}
				for _, form := range forms {
					if strings.Contains(strings.ToLower(text), strings.ToLower(form)) {
						t.Errorf("the log holds the key, as %q:\n%s", form, text)
					}
				}
			})
		}
	}
}

func TestLoggingLines(t *testing.T) {
	call := func(t *testing.T, answer error, opts ...interceptors.LogOption) []map[string]any {
		var buf syncBuffer
		logger := slog.New(slog.NewJSONHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))
		s := newServer(t, func(int) error { return answer })
		c := dial(t, s.addr, interceptors.Chain(interceptors.Logging(logger, opts...))...)
		_, _ = c.UnaryCall(testContext(t), &pb.SimpleRequest{})
		var lines []map[string]any
		for line := range strings.Lines(buf.String()) {
			var m map[string]any
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, m)
		}
		return lines
	}
	unavailable := status.Error(codes.Unavailable, "down for repairs")
	t.Run("one line with its code", func(t *testing.T) {
		lines := call(t, unavailable)
		if len(lines) != 1 {
			t.Fatalf("%d lines, want 1: %v", len(lines), lines)
		}
		for name, want := range map[string]string{"grpc.service": "grpc.testing.TestService", "grpc.method": "UnaryCall", "grpc.code": "Unavailable", "level": "WARN"} {
			if lines[0][name] != want {
				t.Errorf("%s is %v, want %s", name, lines[0][name], want)
			}
		}
		if text, ok := lines[0]["grpc.error"]; ok {
			t.Errorf("logged the error's text unasked: %v", text)
		}
	})
	t.Run("error text when asked for", func(t *testing.T) {
		lines := call(t, unavailable, interceptors.LogErrorText())
		if text := fmt.Sprint(lines[0]["grpc.error"]); !strings.Contains(text, "down for repairs") {
			t.Errorf("error text %q", text)
		}
	})
	t.Run("starts when asked for", func(t *testing.T) {
		if lines := call(t, nil, interceptors.LogStarts()); len(lines) != 2 || lines[0]["msg"] != "started call" {
			t.Errorf("lines %v, want start and end", lines)
		}
	})
	t.Run("levels", func(t *testing.T) {
		lines := call(t, nil, interceptors.LogLevels(func(c codes.Code) slog.Level {
			if c == codes.OK {
				return slog.LevelError
			}
			return slog.LevelDebug
		}))
		if lines[0]["level"] != "ERROR" {
			t.Errorf("level %v, want ERROR", lines[0]["level"])
		}
	})
	t.Run("selector", func(t *testing.T) {
		var buf syncBuffer
		logger := slog.New(slog.NewJSONHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))
		byMethod := newSelectors(t, map[string]string{outputMethod: "reads"})
		c := dial(t, newServer(t, nil).addr, interceptors.Chain(byMethod.Pair(), interceptors.Logging(logger))...)
		for _, tt := range []struct {
			name string
			call func(context.Context) error
			want any
		}{
			{"asked for", func(ctx context.Context) error { return duplex(interceptors.WithSelector(ctx, "mine"), c) }, "mine"},
			{"by its method", func(ctx context.Context) error { _, err := output(ctx, c); return err }, "reads"},
			{"default asked for", func(ctx context.Context) error { _, err := output(interceptors.WithSelector(ctx, ""), c); return err }, nil},
			{"default", func(ctx context.Context) error { return duplex(ctx, c) }, nil},
		} {
			before := len(buf.String())
			if err := tt.call(testContext(t)); err != nil {
				t.Fatal(err)
			}
			var line map[string]any
			if err := json.Unmarshal([]byte(buf.String()[before:]), &line); err != nil {
				t.Fatal(err)
			}
			if line["slicewire.selector"] != tt.want {
				t.Errorf("%s: the line says selector %v, want %v", tt.name, line["slicewire.selector"], tt.want)
			}
		}
	})
	t.Run("no logger", func(t *testing.T) {
		if p := interceptors.Logging(nil); p.Unary != nil || p.Stream != nil {
			t.Errorf("Logging(nil) does something")
		}
	})
	t.Run("a level that is off costs no line", func(t *testing.T) {
		var buf syncBuffer
		s := newServer(t, nil)
		c := dial(t, s.addr, interceptors.Chain(interceptors.Logging(slog.New(slog.NewTextHandler(&buf, nil))))...)
		if _, err := c.UnaryCall(context.WithoutCancel(testContext(t)), &pb.SimpleRequest{}); err != nil || buf.String() != "" {
			t.Errorf("error %v, log %q; want none", err, buf.String())
		}
	})
}
