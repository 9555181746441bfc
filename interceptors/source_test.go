package interceptors_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/slicewire/slicewire/interceptors"
)

func TestA04FieldKey(t *testing.T) {
	file := &descriptorpb.FileDescriptorProto{Options: &descriptorpb.FileOptions{}}
	withPackage := func(p string) proto.Message {
		f := proto.Clone(file).(*descriptorpb.FileDescriptorProto)
		f.Options.JavaPackage = &p
		return f
	}
	for _, tt := range []struct {
		name string
		path string
		req  any
		want string
		ok   bool
		err  []string // what the error says; none wanted if nil
	}{
		{name: "string", path: "value", req: wrapperspb.String("k"), want: "k", ok: true},
		{name: "empty string without presence", path: "value", req: wrapperspb.String("")},
		{name: "bytes", path: "payload.body", req: &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte("\x00k")}}, want: "\x00k", ok: true},
		{name: "empty bytes without presence", path: "payload.body", req: &pb.SimpleRequest{Payload: &pb.Payload{}}},
		{name: "message on the way unset", path: "payload.body", req: &pb.SimpleRequest{}},
		{name: "number in an unset message", path: "payload.type", req: &pb.SimpleRequest{}},
		{name: "number in a set message", path: "payload.type", req: &pb.SimpleRequest{Payload: &pb.Payload{}}, want: "0", ok: true},
		{name: "typed nil request", path: "payload.body", req: (*pb.SimpleRequest)(nil)},
		{name: "int32", path: "response_size", req: &pb.SimpleRequest{ResponseSize: -7}, want: "-7", ok: true},
		{name: "zero without presence", path: "response_size", req: &pb.SimpleRequest{}, want: "0", ok: true},
		{name: "int64", path: "value", req: wrapperspb.Int64(-1 << 63), want: "-9223372036854775808", ok: true},
		{name: "uint64", path: "value", req: wrapperspb.UInt64(1<<64 - 1), want: "18446744073709551615", ok: true},
		{name: "uint32", path: "value", req: wrapperspb.UInt32(1<<32 - 1), want: "4294967295", ok: true},
		{name: "enum", path: "options.optimize_for", req: &descriptorpb.FileDescriptorProto{Options: &descriptorpb.FileOptions{OptimizeFor: descriptorpb.FileOptions_LITE_RUNTIME.Enum()}}, want: "3", ok: true},
		{name: "enum unset with presence", path: "options.optimize_for", req: file},
		{name: "optional set", path: "options.java_package", req: withPackage("p"), want: "p", ok: true},
		{name: "PF-10 optional set to empty", path: "options.java_package", req: withPackage(""), ok: true},
		{name: "optional unset", path: "options.java_package", req: file},
		{name: "oneof set to empty", path: "string_value", req: structpb.NewStringValue(""), ok: true},
		{name: "another of the oneof", path: "string_value", req: structpb.NewNumberValue(1)},
		{name: "old message API", path: "value", req: protoadapt.MessageV1Of(wrapperspb.String("k")), want: "k", ok: true},
		{name: "dynamic message", path: "id", req: dynamicMessage(t, "k"), want: "k", ok: true},

		{name: "no such field", path: "payload.nope", req: &pb.SimpleRequest{}, err: []string{`"payload.nope"`, `"nope"`, "grpc.testing.Payload"}},
		{name: "name in JSON spelling", path: "responseSize", req: &pb.SimpleRequest{}, err: []string{`"responseSize"`, "grpc.testing.SimpleRequest"}},
		{name: "ends in a message", path: "payload", req: &pb.SimpleRequest{}, err: []string{`"payload"`, "message", "grpc.testing.SimpleRequest"}},
		{name: "goes through a string", path: "value.more", req: wrapperspb.String("secret"), err: []string{`"value.more"`, `"more"`, "string"}},
		{name: "bool", path: "fill_username", req: &pb.SimpleRequest{}, err: []string{`"fill_username"`, "bool"}},
		{name: "double", path: "value", req: wrapperspb.Double(1), err: []string{"double"}},
		{name: "repeated", path: "dependency", req: file, err: []string{`"dependency"`, "many values"}},
		{name: "through repeated", path: "message_type.name", req: file, err: []string{`"message_type.name"`, "many values"}},
		{name: "map", path: "fields", req: &structpb.Struct{}, err: []string{`"fields"`, "many values"}},
		{name: "no message", path: "value", req: "secret", err: []string{`"value"`, "string", "FuncKey"}},
		{name: "malformed path", path: "a..b", req: wrapperspb.String("secret"), err: []string{`"a..b"`, "malformed"}},
		{name: "stream", path: "value", req: nil, err: []string{"stream", `"value"`, "interceptors.WithKey"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			source := interceptors.FieldKey(tt.path)
			for range 2 { // the second time from the cache
				got, ok, err := source.Key(context.Background(), unaryMethod, tt.req)
				if (err != nil) != (tt.err != nil) {
					t.Fatalf("error %v, want one that says %q", err, tt.err)
				}
				for _, want := range tt.err {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error %q does not say %s", err, want)
					}
				}
				if err != nil && strings.Contains(err.Error(), "secret") {
					t.Errorf("error %q holds the key", err)
				}
				if got != tt.want || ok != tt.ok {
					t.Errorf("key %q, %v; want %q, %v", got, ok, tt.want, tt.ok)
				}
			}
		})
	}
}

// dynamicMessage is a message of a type made at run time, with its id set.
func dynamicMessage(t testing.TB, id string) proto.Message {
	t.Helper()
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("dynamic.proto"), Package: proto.String("dyn"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name: proto.String("Request"),
			Field: []*descriptorpb.FieldDescriptorProto{{
				Name: proto.String("id"), Number: proto.Int32(1), JsonName: proto.String("id"),
				Type:  descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
				Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			}},
		}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(file.Messages().Get(0))
	m.Set(m.Descriptor().Fields().Get(0), protoreflect.ValueOfString(id))
	return m
}

// One FieldKey serves many message types from many goroutines (race detector).
func TestA04FieldKeyConcurrently(t *testing.T) {
	source := interceptors.FieldKey("value")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				for want, req := range map[string]proto.Message{"k": wrapperspb.String("k"), "7": wrapperspb.Int64(7), "b": wrapperspb.Bytes([]byte("b"))} {
					if got, ok, err := source.Key(context.Background(), "", req); got != want || !ok || err != nil {
						t.Errorf("key %q, %v, %v; want %q", got, ok, err, want)
					}
				}
			}
		})
	}
	wg.Wait()
}

// Row A-04 on the wire: the field decides for unary calls; a stream says what to do instead.
func TestA04FieldKeyOnStream(t *testing.T) {
	s := newServer(t, nil)
	field := interceptors.FieldKey("payload.body")
	c := dial(t, s.addr, interceptors.Chain(newKey(t, header, interceptors.KeyFrom(field)).Pair())...)

	if _, err := c.UnaryCall(testContext(t), &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte("k")}}); err != nil {
		t.Fatal(err)
	}
	if got := s.seen()[0][header]; len(got) != 1 || got[0] != "k" {
		t.Errorf("server saw %q", got)
	}
	err := duplex(testContext(t), c)
	if status.Code(err) != codes.InvalidArgument || !errors.Is(err, interceptors.ErrMissingKey) {
		t.Fatalf("error %v, want INVALID_ARGUMENT that is ErrMissingKey", err)
	}
	for _, want := range []string{header, duplexMethod, "stream", "payload.body", "interceptors.WithKey"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	if err := duplex(interceptors.WithKeyString(testContext(t), "k"), c); err != nil {
		t.Errorf("with WithKey: %v", err)
	}

	next := interceptors.FuncKey(func(context.Context, string, any) (string, bool, error) { return "next", true, nil })
	c = dial(t, s.addr, interceptors.Chain(newKey(t, header, interceptors.KeyFrom(field, next)).Pair())...)
	if err := duplex(testContext(t), c); err != nil {
		t.Errorf("with another source behind: %v", err)
	}
}

func TestA04WrongFieldIsNamedEvenWhenOptional(t *testing.T) {
	k := newKey(t, header, interceptors.KeyFrom(interceptors.FieldKey("tenant")), interceptors.KeyOptional())
	_, err := k.Outgoing(context.Background(), unaryMethod, &pb.SimpleRequest{})
	if status.Code(err) != codes.InvalidArgument || errors.Is(err, interceptors.ErrMissingKey) {
		t.Fatalf("error %v, want INVALID_ARGUMENT that is not ErrMissingKey", err)
	}
	for _, want := range []string{`"tenant"`, "grpc.testing.SimpleRequest", unaryMethod, header} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %s", err, want)
		}
	}
}

func TestA04FuncKeyErrors(t *testing.T) {
	errTenant := errors.New("no tenant in the session")
	for _, tt := range []struct {
		name string
		err  error
		code codes.Code
	}{
		{"plain", errTenant, codes.InvalidArgument},
		{"status", status.Error(codes.Unauthenticated, "log in"), codes.Unauthenticated},
		{"cancelled", context.Canceled, codes.Canceled},
		{"deadline", context.DeadlineExceeded, codes.DeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newKey(t, header, interceptors.KeyFrom(interceptors.FuncKey(func(context.Context, string, any) (string, bool, error) { return "secret", true, tt.err })))
			_, err := k.Outgoing(context.Background(), unaryMethod, nil)
			if status.Code(err) != tt.code {
				t.Errorf("error %v, want code %v", err, tt.code)
			}
			if tt.code == codes.InvalidArgument && !errors.Is(err, errTenant) {
				t.Errorf("error %v lost its cause", err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("error %q holds the key", err)
			}
		})
	}
}

func TestA04MethodKeys(t *testing.T) {
	says := func(s string) interceptors.KeySource {
		return interceptors.FuncKey(func(context.Context, string, any) (string, bool, error) { return s, true, nil })
	}
	m := interceptors.MethodKeys(map[string]interceptors.KeySource{
		"/p.S/Exact": says("exact"), "/p.S/*": says("service"), "*": says("all"),
	})
	for method, want := range map[string]string{
		"/p.S/Exact": "exact", "/p.S/Other": "service", "/p.T/Exact": "all", "/p.SS/X": "all", "noslash": "all",
	} {
		if got, ok, err := m.Key(context.Background(), method, nil); got != want || !ok || err != nil {
			t.Errorf("%s: key %q, %v, %v; want %q", method, got, ok, err, want)
		}
	}
	m = interceptors.MethodKeys(map[string]interceptors.KeySource{"/p.S/*": says("service")})
	if got, ok, err := m.Key(context.Background(), "/p.T/X", nil); got != "" || ok || err != nil {
		t.Errorf("a method no pattern names: %q, %v, %v; want no key", got, ok, err)
	}
	for _, pattern := range []string{"", "/", "//", "/*", "/p.S/", "p.S/M", "/p.S/M*", "/p.*/M", "**", "/p.S/*/*", "/p.S", "//M"} {
		m := interceptors.MethodKeys(map[string]interceptors.KeySource{pattern: says("x")})
		if _, err := interceptors.NewKey(header, interceptors.KeyFrom(m)); err == nil || !strings.Contains(err.Error(), "method pattern") {
			t.Errorf("pattern %q: error %v, want one that says how patterns look", pattern, err)
		}
	}
	m = interceptors.MethodKeys(map[string]interceptors.KeySource{"/p.S/*": nil})
	if _, err := interceptors.NewKey(header, interceptors.KeyFrom(m)); err == nil || !strings.Contains(err.Error(), "/p.S/*") {
		t.Errorf("nil source: error %v, want one that names its pattern", err)
	}
}
