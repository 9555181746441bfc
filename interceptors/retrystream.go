package interceptors

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
)

// retryStream puts around go-grpc-middleware's stream retry what that lacks: it
// refuses streams of many requests outright, and starts a stream over even after
// the application has received part of it.
func retryStream(inner grpc.StreamClientInterceptor) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if desc.ClientStreams {
			return streamer(ctx, desc, cc, method, opts...)
		}
		attempt := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := streamer(ctx, desc, cc, method, opts...)
			if err != nil {
				return nil, err
			}
			return &attemptStream{ClientStream: stream}, nil
		}
		stream, err := inner(ctx, desc, cc, method, attempt, opts...)
		if err != nil {
			return nil, err
		}
		return &retriedStream{ClientStream: stream}, nil
	}
}

// begunError hides the status of an error that came after the first message, so
// that the retry interceptor between attemptStream and retriedStream sees
// nothing it would retry on.
type begunError struct{ err error }

func (e *begunError) Error() string { return "stream failed after its first message" }

// attemptStream is one attempt's stream, inside the retry interceptor.
type attemptStream struct {
	grpc.ClientStream
	begun bool // used by RecvMsg alone, which grpc allows one goroutine at a time
}

func (s *attemptStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case err == nil:
		s.begun = true
	case s.begun && !errors.Is(err, io.EOF):
		return &begunError{err: err}
	}
	return err
}

// retriedStream is the stream the application gets, outside the retry interceptor.
type retriedStream struct{ grpc.ClientStream }

func (s *retriedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if begun, ok := err.(*begunError); ok { //nolint:errorlint // attemptStream makes it, nothing wraps it.
		return begun.err
	}
	return err
}
