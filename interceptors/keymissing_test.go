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
	"google.golang.org/protobuf/types/known/structpb"

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

// Row A-05: the error says which field has no key, or where to say so.
func TestA05MissingKeyErrorSaysWhy(t *testing.T) {
	body := interceptors.FieldKey("payload.body")
	none := interceptors.FuncKey(func(context.Context, string, any) (string, bool, error) { return "", false, nil })
	for _, tt := range []struct {
		name    string
		sources []interceptors.KeySource
		req     any
		says    string
	}{
		{"no source", nil, &pb.SimpleRequest{}, "interceptors.KeyFrom, in sdk.WithKeyOptions"},
		{"a function", []interceptors.KeySource{none}, &pb.SimpleRequest{}, "interceptors.KeyFrom, in sdk.WithKeyOptions"},
		{"empty field", []interceptors.KeySource{body}, &pb.SimpleRequest{Payload: &pb.Payload{}}, `the request's field "payload.body" is empty; set it`},
		{"message on the way unset", []interceptors.KeySource{body}, &pb.SimpleRequest{}, `the request's field "payload" is not set; set it`},
		{"optional field unset", []interceptors.KeySource{interceptors.FieldKey("string_value")}, structpb.NewNumberValue(1), `the request's field "string_value" is not set`},
		{"by method", []interceptors.KeySource{interceptors.MethodKeys(map[string]interceptors.KeySource{"*": body})}, &pb.SimpleRequest{}, `the request's field "payload" is not set`},
		{"no such method", []interceptors.KeySource{interceptors.MethodKeys(map[string]interceptors.KeySource{"/other.Service/*": body})}, &pb.SimpleRequest{}, "sdk.WithKeyOptions"},
		{"two sources", []interceptors.KeySource{none, body, interceptors.FieldKey("response_status.message")}, &pb.SimpleRequest{}, `the request's field "payload" is not set, the request's field "response_status" is not set; set`},
		{"stream", []interceptors.KeySource{body}, nil, `the field "payload.body" cannot give its key`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := newKey(t, header, interceptors.KeyFrom(tt.sources...)).Outgoing(context.Background(), unaryMethod, tt.req)
			if !errors.Is(err, interceptors.ErrMissingKey) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "interceptors.WithKey(ctx, key)") {
				t.Errorf("error %v, want ErrMissingKey that says %q", err, tt.says)
			}
		})
	}
}

func TestA05OptionalKey(t *testing.T) {
	s := newServer(t, nil)
	again := newKey(t, header, interceptors.KeyOptional(), interceptors.KeyRequired())
	if _, err := again.Outgoing(context.Background(), unaryMethod, nil); status.Code(err) != codes.InvalidArgument {
		t.Errorf("required again: %v", err)
	}
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
