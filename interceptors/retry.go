package interceptors

import (
	"context"
	"slices"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// RetryOption sets one thing of [Retry].
type RetryOption func(*retrySettings)

type retrySettings struct {
	attempts       uint
	codes          []codes.Code
	base, max      time.Duration
	attemptTimeout time.Duration
}

// RetryAttempts sets how often a call is tried in all, the first time included.
// The default is 3; 0 and 1 mean no retry.
func RetryAttempts(n uint) RetryOption {
	return func(s *retrySettings) { s.attempts = n }
}

// RetryCodes sets the codes that are tried again. The default is UNAVAILABLE
// alone: mostly no server took the call. But a connection that breaks midway gives
// it too, so a method that must not run twice is best left out with [Pair.Only].
// CANCELED and DEADLINE_EXCEEDED are never tried again, whatever is set here;
// see [RetryAttemptTimeout].
func RetryCodes(retryable ...codes.Code) RetryOption {
	retryable = slices.Clone(retryable)
	return func(s *retrySettings) { s.codes = retryable }
}

// RetryBackoff sets the wait before the second attempt and the longest wait.
// Each wait is twice the one before, give or take half. The defaults are 50 ms
// and 2 s. With base 0 there is no wait.
func RetryBackoff(base, longest time.Duration) RetryOption {
	return func(s *retrySettings) { s.base, s.max = base, longest }
}

// RetryAttemptTimeout bounds each attempt of a unary call; an attempt that runs
// out of it is followed by the next, as long as the call's own context lives. So
// it is only right for methods that may run twice. The default, 0, is no bound.
// Streams have none: it would end them however well they run.
func RetryAttemptTimeout(d time.Duration) RetryOption {
	return func(s *retrySettings) { s.attemptTimeout = max(d, 0) }
}

// Retry tries failed calls again, by go-grpc-middleware's retry interceptors.
// Every attempt is picked anew, so it goes by the newest assignment, with the
// same single key (field case IM-03) and the same selector, avoids the endpoints
// that the attempts before went to while the selector has others, and from the
// second on has its number in the header "x-retry-attempt". Options of that package given to one call, such
// as retry.Disable(), work.
//
// Put [Key.Pair] before it; package sdk does so by itself. A call without a key
// then fails at once with INVALID_ARGUMENT. With no Key on the channel it is the
// LB policy that refuses the call, with UNAVAILABLE as all it does, and Retry would
// try again what cannot succeed.
//
// Streams with one request are tried again until their first message arrives:
// afterwards the application has seen part of the answer and a second attempt
// would show it twice. Streams of many requests are never tried again.
func Retry(opts ...RetryOption) Pair {
	s := retrySettings{
		attempts: 3,
		codes:    []codes.Code{codes.Unavailable},
		base:     50 * time.Millisecond,
		max:      2 * time.Second,
	}
	for _, o := range opts {
		if o != nil {
			o(&s)
		}
	}
	common := []retry.CallOption{
		retry.WithMax(s.attempts),
		retry.WithBackoff(s.backoff()),
		retry.WithRetriable(s.retriable),
	}
	unary := retry.UnaryClientInterceptor(append(slices.Clone(common), retry.WithPerRetryTimeout(s.attemptTimeout))...)
	stream := retryStream(retry.StreamClientInterceptor(common...))
	// Whatever is further in makes a record for each attempt. They are of one call
	// because it begins here, unless it has begun further out.
	return Pair{
		Unary: func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return unary(callinfo.Begin(ctx, cc, method), method, req, reply, cc, invoker, opts...)
		},
		Stream: func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return stream(callinfo.Begin(ctx, cc, method), desc, cc, method, streamer, opts...)
		},
	}
}

func (s retrySettings) backoff() retry.BackoffFunc {
	if s.base <= 0 {
		return retry.BackoffLinear(0)
	}
	return retry.BackoffExponentialWithJitterBounded(s.base, 0.5, max(s.max, s.base))
}

func (s retrySettings) retriable(err error) bool {
	if _, begun := err.(*begunError); begun { //nolint:errorlint // attemptStream makes it, nothing wraps it.
		return false
	}
	code := status.Code(err)
	return code != codes.Canceled && code != codes.DeadlineExceeded && slices.Contains(s.codes, code)
}
