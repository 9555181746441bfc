package interceptors

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// retryStream puts around go-grpc-middleware's stream retry what that lacks: it
// refuses streams of many requests outright, starts a stream over even after the
// application has received part of it, and lets the end of the first attempt look
// like the end of the stream to grpc.OnFinish, by which package sdk knows what is
// in flight when it closes.
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
		finish, opts := takeOnFinish(opts)
		stream, err := inner(ctx, desc, cc, method, attempt, opts...)
		if err != nil {
			finish(err)
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { finish(status.FromContextError(ctx.Err()).Err()) })
		return &retriedStream{
			ClientStream: stream,
			single:       !desc.ServerStreams,
			finish:       func(err error) { stop(); finish(err) },
		}, nil
	}
}

// takeOnFinish returns opts without grpc.OnFinish, and a function that calls those
// once, with how the stream with all its attempts ended.
func takeOnFinish(opts []grpc.CallOption) (finish func(error), rest []grpc.CallOption) {
	var told []func(error)
	for _, o := range opts {
		if f, ok := o.(grpc.OnFinishCallOption); ok {
			told = append(told, f.OnFinish)
		} else {
			rest = append(rest, o)
		}
	}
	var once sync.Once
	return func(err error) {
		once.Do(func() {
			for _, f := range told {
				f(err)
			}
		})
	}, rest
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
type retriedStream struct {
	grpc.ClientStream
	single bool // it has one response
	finish func(error)
}

func (s *retriedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if begun, ok := err.(*begunError); ok { //nolint:errorlint // attemptStream makes it, nothing wraps it.
		err = begun.err
	}
	switch {
	case errors.Is(err, io.EOF) || err == nil && s.single:
		s.finish(nil)
	case err != nil:
		s.finish(err)
	}
	return err
}
