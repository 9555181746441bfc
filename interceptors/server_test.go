package interceptors_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	unaryMethod  = "/grpc.testing.TestService/UnaryCall"
	outputMethod = "/grpc.testing.TestService/StreamingOutputCall"
	duplexMethod = "/grpc.testing.TestService/FullDuplexCall"
)

// server is a real gRPC server on loopback that records the metadata of every
// call it gets and answers as told.
type server struct {
	pb.UnimplementedTestServiceServer
	addr string
	// answer decides a call's fate from its number, which counts from 1.
	answer func(call int) error
	// midway, where set, ends an output stream after its first message.
	midway error
	// onCall, where set, runs in each handler with its context.
	onCall func(context.Context)
	hang   chan struct{} // for answers that wait; the test closes it

	mu    sync.Mutex    // guards calls
	calls []metadata.MD // one for each call, in order
}

func newServer(t testing.TB, answer func(call int) error) *server {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: lis.Addr().String(), answer: answer}
	gs := grpc.NewServer()
	pb.RegisterTestServiceServer(gs, s)
	done := make(chan struct{})
	go func() { // ended by Stop, waited for in the cleanup
		defer close(done)
		_ = gs.Serve(lis)
	}()
	t.Cleanup(func() { gs.Stop(); <-done })
	return s
}

func (s *server) take(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	s.calls = append(s.calls, md)
	n := len(s.calls)
	s.mu.Unlock()
	if s.onCall != nil {
		s.onCall(ctx)
	}
	if s.answer == nil {
		return nil
	}
	return s.answer(n)
}

func (s *server) seen() []metadata.MD {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]metadata.MD(nil), s.calls...)
}

func (s *server) UnaryCall(ctx context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	return &pb.SimpleResponse{Payload: req.GetPayload()}, nil
}

func (s *server) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, st pb.TestService_StreamingOutputCallServer) error {
	if err := s.take(st.Context()); err != nil {
		return err
	}
	if err := st.Send(&pb.StreamingOutputCallResponse{}); err != nil {
		return err
	}
	return s.midway
}

func (s *server) FullDuplexCall(st pb.TestService_FullDuplexCallServer) error {
	if err := s.take(st.Context()); err != nil {
		return err
	}
	for {
		if _, err := st.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := st.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

func dial(t testing.TB, target string, opts ...grpc.DialOption) pb.TestServiceClient {
	t.Helper()
	return pb.NewTestServiceClient(connect(t, target, opts...))
}

func connect(t testing.TB, target string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, opts...)
	cc, err := grpc.NewClient(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// output runs a stream of one request to its end and returns its messages.
func output(ctx context.Context, c pb.TestServiceClient) (messages int, err error) {
	st, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
	for err == nil {
		if _, err = st.Recv(); err == nil {
			messages++
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return messages, err
}

// duplex opens a stream of many requests, exchanges one message and closes it.
func duplex(ctx context.Context, c pb.TestServiceClient) error {
	st, err := c.FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	_ = st.Send(&pb.StreamingOutputCallRequest{}) // Recv tells why it failed
	if _, err := st.Recv(); err != nil {
		return err
	}
	_ = st.CloseSend()
	if _, err := st.Recv(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
