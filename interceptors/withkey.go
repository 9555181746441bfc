package interceptors

import (
	"context"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// WithKey returns a context whose calls are routed by key. It wins over a
// header in the outgoing metadata and over every [KeySource]. The key is copied,
// so the caller may change its slice afterwards (field case LL-07). An empty or
// nil key is a key, not a missing one (field case PF-10).
//
// Keys with bytes outside printable ASCII need a header that ends in "-bin";
// the call fails with INVALID_ARGUMENT otherwise.
func WithKey(ctx context.Context, key []byte) context.Context {
	return callinfo.WithKey(ctx, string(key))
}

// WithKeyString is [WithKey] for a key that is a string.
func WithKeyString(ctx context.Context, key string) context.Context {
	return callinfo.WithKey(ctx, key)
}
