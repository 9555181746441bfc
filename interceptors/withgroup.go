package interceptors

import (
	"context"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// WithGroup returns a context whose calls go to the named group of targets of
// their client (seed 003). It wins over the client's method patterns and goes
// together with [WithKey] and [WithSelector], in any order. The last name counts;
// the empty name asks for the client's default group.
//
// Only a client that has groups reads it (sdk.WithGroup), and judges a name it does
// not know. Nothing of it is sent to the server.
func WithGroup(ctx context.Context, name string) context.Context {
	return callinfo.WithGroup(ctx, callinfo.Group(name))
}
