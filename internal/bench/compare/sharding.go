package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/slicewire/slicewire/internal/wire"
)

// waitLimit bounds every wait for the other side. It is for a harness that is
// broken, not for one that is slow.
const waitLimit = 2 * time.Minute

// sharding is a sharding service without a network: a channel whose one stream
// gives what assign is told to. It serves one client at a time.
type sharding struct {
	feeds      chan feed
	acks       chan *wire.AssignmentAck
	generation int64
}

type feed struct {
	frames     iter.Seq[[]byte]
	generation int64
}

func newSharding() *sharding {
	return &sharding{feeds: make(chan feed), acks: make(chan *wire.AssignmentAck, 1)}
}

// assign sends an assignment and waits for the client's ack, which says that
// picks use it.
func (s *sharding) assign(frames iter.Seq[[]byte]) error {
	s.generation++
	late := time.After(waitLimit)
	select {
	case s.feeds <- feed{frames, s.generation}:
	case <-late:
		return errors.New("the client opened no stream to the sharding service")
	}
	select {
	case ack := <-s.acks:
		if ack.GetGeneration() != s.generation || !ack.GetAccepted() {
			return fmt.Errorf("the client answered generation %d with %v", s.generation, ack)
		}
		return nil
	case <-late:
		return errors.New("the client did not ack an assignment")
	}
}

// provider makes the channel; it is a balancer.ClientConnProvider.
func (s *sharding) provider(string) (grpc.ClientConnInterface, func(), error) {
	return s, func() {}, nil
}

func (s *sharding) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return errors.New("the sharding service has no unary method")
}

func (s *sharding) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return &watchStream{sharding: s, ctx: ctx}, nil
}

// watchStream is the client's end of a stream. One goroutine receives; what it
// receives is made as it asks for it.
type watchStream struct {
	sharding *sharding
	ctx      context.Context
	next     func() ([]byte, bool) // nil between assignments
	stop     func()
	ends     int64 // generation of the present one
}

func (w *watchStream) Context() context.Context     { return w.ctx }
func (w *watchStream) Header() (metadata.MD, error) { return nil, nil }
func (w *watchStream) Trailer() metadata.MD         { return nil }
func (w *watchStream) CloseSend() error             { return nil }

func (w *watchStream) SendMsg(m any) error {
	request, ok := m.(*wire.WatchShardingAssignmentRequest)
	if !ok {
		return fmt.Errorf("the client sent a %T", m)
	}
	if ack := request.GetAssignmentAck(); ack != nil {
		w.sharding.acks <- ack
	}
	return nil
}

func (w *watchStream) RecvMsg(m any) error {
	into, ok := m.(*wire.Frame)
	if !ok {
		return fmt.Errorf("the client receives into a %T", m)
	}
	if w.next == nil {
		select {
		case f := <-w.sharding.feeds:
			w.next, w.stop = iter.Pull(f.frames)
			w.ends = f.generation
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
	}
	if w.ctx.Err() != nil {
		w.stop()
		return w.ctx.Err()
	}
	frame, more := w.next()
	if !more {
		w.stop()
		w.next = nil
		frame = metadataFrame(w.ends)
	}
	// As the codec does: into a buffer of the client's, if it has brought one.
	if cap(into.Bytes) < len(frame) {
		into.Bytes = make([]byte, 0, len(frame))
	}
	into.Bytes = append(into.Bytes[:0], frame...)
	return nil
}
