package interceptors_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// Row A-05: a missing key fails at once with INVALID_ARGUMENT, wait-for-ready or not, connected or not.
func TestA05MissingKeyFailsAtOnce(t *testing.T) {
	s := newServer(t, nil)
	c := dial(t, s.addr, interceptors.Chain(newKey(t, header).Pair())...)
	nowhere := dial(t, "127.0.0.1:1", interceptors.Chain(newKey(t, header).Pair())...)
	for name, call := range map[string]func(context.Context) error{
		unaryMethod: func(ctx context.Context) error {
			_, err := c.UnaryCall(ctx, &pb.SimpleRequest{}, grpc.WaitForReady(true))
			return err
		},
		duplexMethod: func(ctx context.Context) error {
			_, err := c.FullDuplexCall(ctx, grpc.WaitForReady(true))
			return err
		},
		outputMethod: func(ctx context.Context) error {
			_, err := nowhere.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{}, grpc.WaitForReady(true))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			err := call(testContext(t))
			if took := time.Since(start); took > 200*time.Millisecond {
				t.Errorf("took %v, want under 200ms", took)
			}
			if status.Code(err) != codes.InvalidArgument || !errors.Is(err, interceptors.ErrMissingKey) {
				t.Errorf("error %v, want INVALID_ARGUMENT that is ErrMissingKey", err)
			}
			for _, want := range []string{header, name, "interceptors.WithKey"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
	if n := len(s.seen()); n != 0 {
		t.Errorf("%d calls without key reached the server", n)
	}
}

func TestA05OptionalKey(t *testing.T) {
	s := newServer(t, nil)
	for _, tt := range []struct {
		name   string
		opt    interceptors.KeyOption
		unary  codes.Code
		duplex codes.Code
	}{
		{"all", interceptors.KeyOptional(), codes.OK, codes.OK},
		{"for a method", interceptors.KeyOptionalFor(unaryMethod), codes.OK, codes.InvalidArgument},
		{"for a service", interceptors.KeyOptionalFor("/grpc.testing.TestService/*"), codes.OK, codes.OK},
		{"for another service", interceptors.KeyOptionalFor("/other.Service/*"), codes.InvalidArgument, codes.InvalidArgument},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newKey(t, header, tt.opt)
			c := dial(t, s.addr, interceptors.Chain(k.Pair())...)
			if _, err := c.UnaryCall(testContext(t), &pb.SimpleRequest{}); status.Code(err) != tt.unary {
				t.Errorf("unary: %v, want %v", err, tt.unary)
			}
			if err := duplex(testContext(t), c); status.Code(err) != tt.duplex {
				t.Errorf("duplex: %v, want %v", err, tt.duplex)
			}
		})
	}
	for _, md := range s.seen() {
		if _, ok := md[header]; ok {
			t.Errorf("a call without key carried the header: %q", md[header])
		}
	}
	k := newKey(t, header, interceptors.KeyOptional())
	ctx, err := k.Outgoing(context.Background(), unaryMethod, nil)
	if rec := callinfo.From(ctx); err != nil || rec == nil || rec.HasKey {
		t.Errorf("record %+v, error %v; want a record without key", rec, err)
	}
}
