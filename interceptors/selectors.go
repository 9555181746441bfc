package interceptors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unique"

	"google.golang.org/grpc"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// Selectors gives each call of a channel the selector for its method. It is
// immutable and safe for concurrent use; one may serve many channels. A nil
// *Selectors, and the zero value, name none.
//
// The selector of a call is what [WithSelector] put in the context, else what the
// most specific pattern that names the method says, else the default.
type Selectors struct {
	table callinfo.Methods[unique.Handle[string]]
}

// NewSelectors makes Selectors from names by method pattern. Patterns are as for
// [MethodKeys]; the names "" and "default" are the default selector's, for methods
// that a wider pattern would send elsewhere. The map is copied. The error names
// each malformed pattern.
func NewSelectors(byPattern map[string]string) (*Selectors, error) {
	s := &Selectors{}
	var errs []error
	for _, pattern := range slices.Sorted(maps.Keys(byPattern)) {
		errs = append(errs, s.table.Add(pattern, callinfo.Selector(byPattern[pattern])))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("interceptors.NewSelectors: %w", err)
	}
	return s, nil
}

// Unary returns the interceptor for unary calls.
func (s *Selectors) Unary() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return invoker(s.outgoing(ctx, within, cc, method), method, req, reply, cc, opts...)
	}
}

// Stream returns the interceptor for streams.
func (s *Selectors) Stream() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return streamer(s.outgoing(ctx, within, cc, method), desc, cc, method, opts...)
	}
}

// Pair returns [Selectors.Unary] and [Selectors.Stream] together. Put it before
// [Logging], which then names the selector.
func (s *Selectors) Pair() Pair { return Pair{Unary: s.Unary(), Stream: s.Stream()} }

// Outgoing returns the context for calls of fullMethod ("/package.Service/Method"):
// ctx, with their selector in it. It is for those who start calls without a grpc
// interceptor; [Key.Outgoing] and [Key.Begin] come after it. What the method of an
// earlier call chose is forgotten.
func (s *Selectors) Outgoing(ctx context.Context, fullMethod string) context.Context {
	return s.outgoing(ctx, asked, nil, fullMethod)
}

// Begin is [Selectors.Outgoing] for one call on cc that needs no key; see
// [Key.Begin].
func (s *Selectors) Begin(ctx context.Context, cc *grpc.ClientConn, fullMethod string) context.Context {
	return s.outgoing(ctx, begins, cc, fullMethod)
}

func (s *Selectors) outgoing(ctx context.Context, st stage, cc *grpc.ClientConn, fullMethod string) context.Context {
	rec := callinfo.From(ctx)
	same := st == within && rec.Is(cc, fullMethod)
	var selector unique.Handle[string]
	var has, derived bool
	if rec != nil {
		selector, has, derived = rec.Selector, rec.HasSelector, rec.SelectorDerived
	}
	if !has || derived {
		switch found, ok := s.find(fullMethod); {
		case ok:
			selector, has, derived = found, true, true
		case !same: // what an interceptor further out knows of this call stays
			selector, has, derived = unique.Handle[string]{}, false, false
		}
	}
	unchanged := rec == nil && !has || rec != nil && rec.HasSelector == has && rec.Selector == selector
	if unchanged && (same || st == asked && (rec == nil || rec.Tried == nil)) {
		return ctx
	}
	next := st.next(rec, cc, fullMethod)
	next.Selector, next.HasSelector, next.SelectorDerived = selector, has, derived
	return callinfo.NewContext(ctx, next)
}

func (s *Selectors) find(fullMethod string) (unique.Handle[string], bool) {
	if s == nil {
		return unique.Handle[string]{}, false
	}
	return s.table.Find(fullMethod)
}
