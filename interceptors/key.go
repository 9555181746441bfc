package interceptors

import (
	"context"
	"errors"
	"fmt"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// Key gives each call of a channel its sharding key. It is immutable and safe
// for concurrent use; one Key may serve many channels.
//
// The key of a call is, in this order: what [WithKey] or [WithKeyString] put in
// the context; the header, where the caller put exactly one value of it into the
// outgoing metadata by hand; the first source of [KeyFrom] that has one; the
// inbound header, if [ForwardInboundKey] allows it.
type Key struct {
	header         string
	binary         bool
	sources        []KeySource
	optional       bool
	optionalFor    callinfo.Methods[struct{}]
	forwardInbound bool
}

// NewKey makes a Key for a header. Names are not case-sensitive. A header whose
// name ends in "-bin" carries any bytes, others printable ASCII. The error names
// everything that is wrong: an empty, malformed or reserved header name, a nil
// source, a malformed field path or method pattern.
func NewKey(header string, opts ...KeyOption) (*Key, error) {
	var s keySettings
	for _, o := range opts {
		if o != nil {
			o(&s)
		}
	}
	h, err := callinfo.ParseHeader(header)
	if err == nil && h == retry.AttemptMetadataKey {
		err = fmt.Errorf("header name %q is taken: retries count their attempts in it", header)
	}
	k := &Key{
		header:         h,
		binary:         callinfo.BinaryHeader(h),
		sources:        s.sources,
		optional:       s.optional,
		forwardInbound: s.forwardInbound,
	}
	errs := []error{err, s.check()}
	for _, p := range s.optionalFor {
		errs = append(errs, k.optionalFor.Add(p, struct{}{}))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("interceptors.NewKey: %w", err)
	}
	return k, nil
}

// Header returns the name of the header that carries the key, in lower case.
func (k *Key) Header() string { return k.header }

// Unary returns the interceptor for unary calls.
func (k *Key) Unary() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		ctx, err := k.outgoing(ctx, within, cc, method, req)
		if err != nil {
			return err
		}
		return invoker(ctx, method, req, reply, cc, opts...)
	}
}

// Stream returns the interceptor for streams. A stream opens before its first
// message is known, so sources that read the request have nothing to read.
func (k *Key) Stream() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		ctx, err := k.outgoing(ctx, within, cc, method, nil)
		if err != nil {
			return nil, err
		}
		// The stream goes back unwrapped and untouched: asking for its Context here
		// would pin the attempt and end retries (field case TE-10).
		return streamer(ctx, desc, cc, method, opts...)
	}
}

// Pair returns [Key.Unary] and [Key.Stream] together.
func (k *Key) Pair() Pair { return Pair{Unary: k.Unary(), Stream: k.Stream()} }

// Outgoing returns the context for one call to fullMethod ("/package.Service/Method"):
// ctx, with the call's key in it and exactly one value of the header in its
// outgoing metadata. req is the request of a unary call and nil for a stream.
// ctx itself, its metadata and the maps behind it are not changed (field case
// IM-01).
//
// Errors have the code INVALID_ARGUMENT and never contain the key: a missing key
// ([ErrMissingKey]), a key that the header cannot carry, a header with more than
// one value put by hand, and what a source reports.
//
// It is for those who start calls without a grpc interceptor. Each use starts a
// new call; using it again on the context it returned changes nothing on the wire.
// That context may make several calls, so nothing is remembered of any one of
// them: see [Key.Begin].
func (k *Key) Outgoing(ctx context.Context, fullMethod string, req any) (context.Context, error) {
	return k.outgoing(ctx, asked, nil, fullMethod, req)
}

// Begin is [Key.Outgoing] for one call on cc, which the context it returns may
// make and no other; package sdk uses it. Only for a call begun by it, or by one of
// the interceptors [Key], [Selectors] and [Retry], can a retry avoid the endpoints
// that were tried. Those interceptors on cc see the call as begun here.
func (k *Key) Begin(ctx context.Context, cc *grpc.ClientConn, fullMethod string, req any) (context.Context, error) {
	return k.outgoing(ctx, begins, cc, fullMethod, req)
}

// outgoing is Outgoing for a stage. Within a call that has begun further out (sdk
// outside, the user's interceptor inside) the record stays as it is if it resolved
// the same key.
func (k *Key) outgoing(ctx context.Context, st stage, cc *grpc.ClientConn, fullMethod string, req any) (context.Context, error) {
	rec := callinfo.From(ctx)
	mine := rec != nil && rec.Header == k.header
	// One lookup, which does not allocate where the header is not set; the whole
	// metadata is copied only to replace a value.
	onWire := metadata.ValueFromOutgoingContext(ctx, k.header)

	var key string
	var has, derived bool
	switch {
	case rec != nil && rec.HasKey && rec.Header == "":
		key, has = rec.Key, true
	case len(onWire) > 1:
		return nil, &keyError{text: fmt.Sprintf(
			"the outgoing metadata of the call to %s has %d values for header %q; a call has one sharding key: set the header once, or use interceptors.WithKey(ctx, key)",
			fullMethod, len(onWire), k.header)}
	case len(onWire) == 1 && (!mine || !rec.HasKey || rec.Key != onWire[0]):
		// Not what we wrote, so somebody put it there by hand.
		key, has = onWire[0], true
	case mine && rec.HasKey && !rec.Derived:
		key, has = rec.Key, true
	default:
		derived = true
		var err error
		if key, has, err = k.find(ctx, fullMethod, req); err != nil {
			return nil, err
		}
	}
	if has {
		if err := k.checkValue(fullMethod, key); err != nil {
			return nil, err
		}
	}

	wireIsRight := !has && onWire == nil || has && mine && len(onWire) == 1 && onWire[0] == key
	same := st == within && rec.Is(cc, fullMethod)
	if same && mine && wireIsRight && rec.HasKey == has && rec.Key == key {
		return ctx, nil
	}
	if !wireIsRight {
		ctx = k.write(ctx, key, has, onWire != nil)
	}
	next := st.next(rec, cc, fullMethod)
	if same && rec.Header != "" {
		// Somebody changed the key on the way here. One call may be spread over
		// several keys so, and these do not avoid each other's endpoints.
		next.Begin(cc, fullMethod)
	}
	next.Key, next.HasKey, next.Header, next.Derived = key, has, k.header, derived
	return callinfo.NewContext(ctx, next), nil
}

// find asks the sources, then the inbound side.
func (k *Key) find(ctx context.Context, fullMethod string, req any) (key string, has bool, err error) {
	var noRequest *noRequestError
	for _, source := range k.sources {
		key, has, err := source.Key(ctx, fullMethod, req)
		if err == nil {
			if has {
				return key, true, nil
			}
			continue
		}
		var ok bool
		if noRequest, ok = errors.AsType[*noRequestError](err); !ok {
			return "", false, k.sourceFailed(fullMethod, err)
		}
	}
	if k.forwardInbound {
		switch inbound := metadata.ValueFromIncomingContext(ctx, k.header); len(inbound) {
		case 0:
		case 1:
			return inbound[0], true, nil
		default:
			return "", false, &keyError{text: fmt.Sprintf(
				"the request being served has %d values for header %q, so the call to %s cannot forward one as its sharding key; use interceptors.WithKey(ctx, key)",
				len(inbound), k.header, fullMethod)}
		}
	}
	if k.optional {
		return "", false, nil
	}
	if _, ok := k.optionalFor.Find(fullMethod); ok {
		return "", false, nil
	}
	return "", false, k.missing(fullMethod, req, noRequest)
}

// write sets the header to key alone, or removes it. present says that the
// metadata names the header already, in whatever case.
func (k *Key) write(ctx context.Context, key string, has, present bool) context.Context {
	if !present {
		return metadata.AppendToOutgoingContext(ctx, k.header, key)
	}
	// A deep copy with every name in lower case: the caller's map stays as it is,
	// and "X-Shard-Key" put into a raw map, which grpc-go refuses, becomes valid.
	md, _ := metadata.FromOutgoingContext(ctx)
	if has {
		md[k.header] = []string{key}
	} else {
		delete(md, k.header)
	}
	return metadata.NewOutgoingContext(ctx, md)
}
