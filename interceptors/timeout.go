package interceptors

import (
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/timeout"
)

// Timeout bounds each unary call by d, by go-grpc-middleware's timeout
// interceptor; a shorter deadline of the call's own context stays. Placed inside
// [Retry] it bounds each attempt, outside the call with all its attempts.
// Streams live as long as their context. With d 0 or less there is no bound.
func Timeout(d time.Duration) Pair {
	if d <= 0 {
		return Pair{}
	}
	return Pair{Unary: timeout.UnaryClientInterceptor(d)}
}
