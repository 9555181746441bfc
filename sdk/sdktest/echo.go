package sdktest

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// EchoService is the full name of the service every [Backend] has:
//
//	service Echo {
//	  rpc Who(google.protobuf.StringValue) returns (google.protobuf.StringValue);
//	  rpc Watch(google.protobuf.StringValue) returns (stream google.protobuf.StringValue);
//	  rpc Talk(stream google.protobuf.StringValue) returns (stream google.protobuf.StringValue);
//	}
//
// All three answer with the backend's name: Who once; Watch at once, and then
// the stream stays open; Talk for each message.
const EchoService = "slicewire.test.Echo"

// Full names of the methods, as [Call] has them.
const (
	EchoWho   = "/" + EchoService + "/Who"
	EchoWatch = "/" + EchoService + "/Watch"
	EchoTalk  = "/" + EchoService + "/Talk"
)

// Echo is a client of EchoService.
type Echo struct {
	cc grpc.ClientConnInterface
}

// NewEcho makes a client over cc, which may be anything that calls: a
// *grpc.ClientConn or a Slicewire client.
func NewEcho(cc grpc.ClientConnInterface) Echo { return Echo{cc: cc} }

// Who returns the name of the backend that was called.
func (e Echo) Who(ctx context.Context, text string, opts ...grpc.CallOption) (string, error) {
	answer := new(wrapperspb.StringValue)
	if err := e.cc.Invoke(ctx, EchoWho, wrapperspb.String(text), answer, opts...); err != nil {
		return "", err
	}
	return answer.GetValue(), nil
}

// Watch opens a stream on which the backend says its name once. It ends with
// ctx or with the backend.
func (e Echo) Watch(ctx context.Context, text string, opts ...grpc.CallOption) (*EchoStream, error) {
	s, err := e.cc.NewStream(ctx, &watchDesc, EchoWatch, opts...)
	if err != nil {
		return nil, err
	}
	if err := s.SendMsg(wrapperspb.String(text)); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return &EchoStream{stream: s}, s.CloseSend()
}

// Talk opens a stream on which the backend answers each message with its name.
func (e Echo) Talk(ctx context.Context, opts ...grpc.CallOption) (*EchoStream, error) {
	s, err := e.cc.NewStream(ctx, &talkDesc, EchoTalk, opts...)
	if err != nil {
		return nil, err
	}
	return &EchoStream{stream: s}, nil
}

// EchoStream is the client's side of Watch or Talk. One goroutine may send while
// another receives.
type EchoStream struct {
	stream grpc.ClientStream
}

// Send says something. It is for Talk.
func (s *EchoStream) Send(text string) error { return s.stream.SendMsg(wrapperspb.String(text)) }

// Recv waits for the backend's name. After the end it returns io.EOF.
func (s *EchoStream) Recv() (string, error) {
	answer := new(wrapperspb.StringValue)
	if err := s.stream.RecvMsg(answer); err != nil {
		return "", err
	}
	return answer.GetValue(), nil
}

// Ask is Send and then Recv.
func (s *EchoStream) Ask(text string) (string, error) {
	if err := s.Send(text); err != nil && !errors.Is(err, io.EOF) { // EOF: Recv has the status
		return "", err
	}
	return s.Recv()
}

// CloseSend says that nothing more is sent; Talk then ends.
func (s *EchoStream) CloseSend() error { return s.stream.CloseSend() }

var (
	watchDesc = grpc.StreamDesc{StreamName: "Watch", ServerStreams: true, Handler: echoWatch}
	talkDesc  = grpc.StreamDesc{StreamName: "Talk", ServerStreams: true, ClientStreams: true, Handler: echoTalk}
)

// echoServer is the server's side, written by hand to need no generated code.
type echoServer struct {
	name string
}

func (e echoServer) register(r grpc.ServiceRegistrar) {
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: EchoService,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Who", Handler: echoWho}},
		Streams:     []grpc.StreamDesc{watchDesc, talkDesc},
	}, e)
}

func (e echoServer) answer() *wrapperspb.StringValue { return wrapperspb.String(e.name) }

func echoWho(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	in := new(wrapperspb.StringValue)
	if err := decode(in); err != nil {
		return nil, err
	}
	handle := func(context.Context, any) (any, error) { return srv.(echoServer).answer(), nil }
	if intercept == nil {
		return handle(ctx, in)
	}
	return intercept(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: EchoWho}, handle)
}

func echoWatch(srv any, s grpc.ServerStream) error {
	if err := s.RecvMsg(new(wrapperspb.StringValue)); err != nil {
		return err
	}
	if err := s.SendMsg(srv.(echoServer).answer()); err != nil {
		return err
	}
	<-s.Context().Done()
	return s.Context().Err()
}

func echoTalk(srv any, s grpc.ServerStream) error {
	for {
		err := s.RecvMsg(new(wrapperspb.StringValue))
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.SendMsg(srv.(echoServer).answer()); err != nil {
			return err
		}
	}
}
