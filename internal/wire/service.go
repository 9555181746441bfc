package wire

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

const (
	// ServiceName is the full name of the sharding service on the wire.
	ServiceName = "google.cloud.autosharding.v1.AutoshardingService"
	// WatchMethod is the full name of its one method.
	WatchMethod = "/" + ServiceName + "/" + watchStream

	watchStream = "WatchShardingAssignment"
)

// Stream is the server's side of one WatchShardingAssignment call.
type Stream = grpc.BidiStreamingServer[WatchShardingAssignmentRequest, WatchShardingAssignmentResponse]

// Server is implemented by a sharding service.
type Server interface {
	WatchShardingAssignment(Stream) error
}

// RegisterServer registers srv under ServiceName.
func RegisterServer(r grpc.ServiceRegistrar, srv Server) {
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: ServiceName,
		HandlerType: (*Server)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName:    watchStream,
			ServerStreams: true,
			ClientStreams: true,
			Handler: func(srv any, s grpc.ServerStream) error {
				return srv.(Server).WatchShardingAssignment(
					&grpc.GenericServerStream[WatchShardingAssignmentRequest, WatchShardingAssignmentResponse]{ServerStream: s})
			},
		}},
	}, srv)
}

// Frame is one response as it came off the wire, undecoded, so that the reader
// can decode a chunk straight into the arrays it builds.
type Frame struct {
	Bytes []byte
}

// Watch is the client's side of one call. One goroutine may send while another
// receives.
type Watch struct {
	stream grpc.ClientStream
	frame  Frame // its buffer is used again for each response
}

// Open starts a call on cc. It waits for the connection (A119, backoff: the
// stream is opened with wait-for-ready) until ctx ends. A frame larger than
// maxFrameBytes ends the stream with RESOURCE_EXHAUSTED.
func Open(ctx context.Context, cc grpc.ClientConnInterface, maxFrameBytes int) (*Watch, error) {
	return open(ctx, cc, maxFrameBytes, true)
}

// OpenNow is Open, but fails with UNAVAILABLE where the channel could not
// connect: the error says why, which that of a wait does not. Of such a call
// the service sees nothing.
func OpenNow(ctx context.Context, cc grpc.ClientConnInterface, maxFrameBytes int) (*Watch, error) {
	return open(ctx, cc, maxFrameBytes, false)
}

func open(ctx context.Context, cc grpc.ClientConnInterface, maxFrameBytes int, waitForReady bool) (*Watch, error) {
	stream, err := cc.NewStream(ctx,
		&grpc.StreamDesc{StreamName: watchStream, ServerStreams: true, ClientStreams: true},
		WatchMethod,
		grpc.WaitForReady(waitForReady),
		grpc.ForceCodecV2(frameCodec{}),
		grpc.MaxCallRecvMsgSize(maxFrameBytes))
	if err != nil {
		return nil, err
	}
	return &Watch{stream: stream}, nil
}

// Send sends one request.
func (w *Watch) Send(m *WatchShardingAssignmentRequest) error { return w.stream.SendMsg(m) }

// Recv waits for the next response. The frame is good until the next Recv: a
// large assignment comes in many frames, and a buffer for each would be garbage.
func (w *Watch) Recv() (Frame, error) {
	if err := w.stream.RecvMsg(&w.frame); err != nil {
		return Frame{}, err
	}
	return w.frame, nil
}

// frameCodec sends requests as protobuf and leaves responses as bytes. It
// answers to the name "proto": on the wire nothing differs.
type frameCodec struct{}

func (frameCodec) Name() string { return "proto" }

func (frameCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("wire: cannot send a %T, want a protobuf message", v)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (frameCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*Frame)
	if !ok {
		return fmt.Errorf("wire: cannot receive into a %T, want a *wire.Frame", v)
	}
	f.Bytes = slices.Grow(f.Bytes[:0], data.Len())[:data.Len()]
	data.CopyTo(f.Bytes)
	return nil
}
