package interceptors

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrMissingKey is what a call that needs a key and has none fails with. The
// error of such a call has the code INVALID_ARGUMENT and matches it with
// errors.Is.
var ErrMissingKey = errors.New("interceptors: the call has no sharding key")

// keyError is a status error that keeps its cause, which a plain status error
// would drop.
type keyError struct {
	text  string
	cause error
}

func (e *keyError) Error() string { return e.GRPCStatus().Err().Error() }

// GRPCStatus makes the status package see INVALID_ARGUMENT: each of these is
// the caller's mistake, and a refusal here, unlike one from a picker, keeps its
// code (gRFC A54).
func (e *keyError) GRPCStatus() *status.Status {
	return status.New(codes.InvalidArgument, e.text)
}

func (e *keyError) Unwrap() error { return e.cause }

// noRequestError is how a source that reads the request says that there is
// none yet: a stream opens before its first message is known.
type noRequestError struct{ path string }

func (e *noRequestError) Error() string {
	return fmt.Sprintf("a stream has no request when it opens, so the field %q cannot give its key; use interceptors.WithKey(ctx, key)", e.path)
}

// explainer is a source that can say why it has no key for a unary call. It is
// asked only when no source has one.
type explainer interface {
	why(fullMethod string, req any) string
}

func (k *Key) missing(fullMethod string, req any, noRequest *noRequestError) error {
	text := fmt.Sprintf("the call to %s has no sharding key and header %q needs one: ", fullMethod, k.header)
	var reasons []string
	for _, source := range k.sources {
		if e, ok := source.(explainer); ok {
			if reason := e.why(fullMethod, req); reason != "" {
				reasons = append(reasons, reason)
			}
		}
	}
	switch {
	case noRequest != nil:
		text += noRequest.Error()
	case len(reasons) > 0:
		text += strings.Join(reasons, ", ") + "; set it, or use interceptors.WithKey(ctx, key)"
	default:
		text += "use interceptors.WithKey(ctx, key), or say where keys are with interceptors.KeyFrom, in sdk.WithKeyOptions or without package sdk in interceptors.NewKey"
	}
	return &keyError{text: text, cause: ErrMissingKey}
}

// sourceFailed keeps a status the source chose itself, and the code of an ended
// context; anything else is an INVALID_ARGUMENT that says where it came from.
func (k *Key) sourceFailed(fullMethod string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	if s, ok := status.FromError(err); ok && s.Code() != codes.OK {
		return err
	}
	return &keyError{
		text:  fmt.Sprintf("the sharding key of the call to %s (header %q) could not be made: %v", fullMethod, k.header, err),
		cause: err,
	}
}
