package callinfo

import (
	"context"
	"sync/atomic"
)

// Call is the record of one call. The interceptor that resolves the key makes
// a fresh one, so every call (with all its attempts) has its own; all fields
// but Waiting are set before the record enters a context and never after.
type Call struct {
	// Key is the sharding key; meaningful only when HasKey is set. An empty key
	// is a key (field case PF-10).
	Key    string
	HasKey bool
	// Header is the name, in lower case, of the outgoing header that carries
	// Key. It is empty while the key has only been asked for
	// (interceptors.WithKey) and is not on the wire yet. A picker trusts Key only
	// if Header is the header it routes by, so the key that routes is the key
	// that is sent.
	Header string
	// Derived says that Key, or its absence, was worked out for this one call
	// (from its request or method), not asked for by the caller. A context that
	// is used again for another call then asks again instead of routing the second
	// call by the first one's key.
	Derived bool
	// Waiting says why the latest pick of this call queued. The picker stores
	// it; whoever explains or measures the call loads it.
	Waiting atomic.Pointer[Wait]
}

// Wait is one reason for a pick to queue, made once and compared by address.
type Wait struct {
	// DelayType is the label of gRFC A121 ("connecting", ...).
	DelayType string
	// Text completes the sentence "the call was waiting for ...".
	Text string
}

type contextKey struct{}

// From returns the call's record, or nil where none was set. It is one context
// lookup and does not allocate.
func From(ctx context.Context) *Call {
	c, _ := ctx.Value(contextKey{}).(*Call)
	return c
}

// NewContext returns a context that carries c.
func NewContext(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// WithKey returns a context that asks for key, not yet on any wire.
func WithKey(ctx context.Context, key string) context.Context {
	return NewContext(ctx, &Call{Key: key, HasKey: true})
}
