package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// publishedMethod is the name everybody speaks. Spelled out here on purpose:
// WatchMethod must equal it, not define it.
const publishedMethod = "/google.cloud.autosharding.v1.AutoshardingService/WatchShardingAssignment"

type serverFunc func(Stream) error

func (f serverFunc) WatchShardingAssignment(s Stream) error { return f(s) }

// serve runs s on a loopback port and returns a channel to it; both end with
// the test.
func serve(t *testing.T, s *grpc.Server) *grpc.ClientConn {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(lis) }()
	t.Cleanup(func() { s.Stop(); <-done })
	cc, err := grpc.NewClient("passthrough:///"+lis.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func initial(target string) *WatchShardingAssignmentRequest {
	return &WatchShardingAssignmentRequest{Request: &WatchShardingAssignmentRequest_InitialClientConfig{
		InitialClientConfig: &InitialClientConfig{Target: target},
	}}
}

func chunk(endpoint string) *WatchShardingAssignmentResponse {
	return &WatchShardingAssignmentResponse{Response: &WatchShardingAssignmentResponse_Chunk{
		Chunk: &AssignmentChunk{Endpoints: []*EndpointState{{Endpoint: endpoint}}},
	}}
}

// TestExchange sends requests and receives frames over a real connection, and
// ends with the server's own end of stream.
func TestExchange(t *testing.T) {
	s := grpc.NewServer()
	RegisterServer(s, serverFunc(func(stream Stream) error {
		for {
			req, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := stream.Send(chunk(req.GetInitialClientConfig().GetTarget())); err != nil {
				return err
			}
			if req.GetInitialClientConfig().GetTarget() == "last" {
				return nil
			}
		}
	}))
	w, err := Open(testContext(t), serve(t, s), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var kept [][]byte
	for _, target := range []string{"first", "last"} {
		if err := w.Send(initial(target)); err != nil {
			t.Fatal(err)
		}
		f, err := w.Recv()
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, f.Bytes)
		var got WatchShardingAssignmentResponse
		if err := proto.Unmarshal(f.Bytes, &got); err != nil {
			t.Fatal(err)
		}
		if want := chunk(target); !proto.Equal(&got, want) {
			t.Errorf("received %v, want %v", &got, want)
		}
	}
	if _, err := w.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the server returned nil, Recv gave %v, want io.EOF", err)
	}
	// The second frame came in the buffer of the first, which is as long or longer.
	if &kept[0][0] != &kept[1][0] {
		t.Error("each frame has a buffer of its own; a large assignment would make much garbage")
	}
}

// TestMethodOnTheWire looks at a call as a server that knows no method does.
func TestMethodOnTheWire(t *testing.T) {
	if WatchMethod != publishedMethod {
		t.Errorf("WatchMethod = %q, want %q", WatchMethod, publishedMethod)
	}
	type call struct{ method, contentType string }
	calls := make(chan call, 1)
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		md, _ := metadata.FromIncomingContext(stream.Context())
		c := call{method: method}
		if v := md.Get("content-type"); len(v) == 1 {
			c.contentType = v[0]
		}
		calls <- c
		return nil
	}))
	w, err := Open(testContext(t), serve(t, s), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("Recv: %v, want io.EOF", err)
	}
	got := <-calls
	if got.method != publishedMethod {
		t.Errorf("the server saw method %q, want %q", got.method, publishedMethod)
	}
	// The forced codec must not show: a server picks its own by this header.
	if got.contentType != "application/grpc" && got.contentType != "application/grpc+proto" {
		t.Errorf("the server saw content-type %q, want application/grpc or application/grpc+proto", got.contentType)
	}
}

// TestFrameBound: the bound on one message is the reader's shield against a
// hostile sharding service.
func TestFrameBound(t *testing.T) {
	resp := chunk(string(bytes.Repeat([]byte("x"), 1000)))
	size := proto.Size(resp)
	for _, tt := range []struct {
		name  string
		bound int
		want  codes.Code
	}{
		{"a frame of exactly the bound passes", size, codes.OK},
		{"a frame one byte over the bound ends the stream", size - 1, codes.ResourceExhausted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := grpc.NewServer()
			RegisterServer(s, serverFunc(func(stream Stream) error {
				if err := stream.Send(resp); err != nil {
					return err
				}
				<-stream.Context().Done()
				return nil
			}))
			w, err := Open(testContext(t), serve(t, s), tt.bound)
			if err != nil {
				t.Fatal(err)
			}
			f, err := w.Recv()
			if got := status.Code(err); got != tt.want {
				t.Fatalf("Recv: %v, want code %v", err, tt.want)
			}
			if tt.want == codes.OK && len(f.Bytes) != size {
				t.Errorf("frame has %d bytes, want %d", len(f.Bytes), size)
			}
		})
	}
}

// TestOpenWaitsForTheConnection: the stream is opened with wait-for-ready
// (A119, backoff), so a refused port is the context's end, not an error.
func TestOpenWaitsForTheConnection(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := lis.Addr().String()
	lis.Close()
	cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	w, err := Open(ctx, cc, 1<<20)
	if err == nil {
		_, err = w.Recv()
	}
	if got := status.Code(err); got != codes.DeadlineExceeded {
		t.Errorf("Open to a refused port ended with %v, want DEADLINE_EXCEEDED", err)
	}
}

func TestCodecRefusesForeignTypes(t *testing.T) {
	if _, err := (frameCodec{}).Marshal("text"); err == nil {
		t.Error("Marshal took a string")
	}
	if err := (frameCodec{}).Unmarshal(nil, new(string)); err == nil {
		t.Error("Unmarshal filled a string")
	}
}
