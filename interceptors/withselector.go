package interceptors

import (
	"context"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// WithSelector returns a context whose calls are routed by the named selector of
// their channel (seed 001, request flow 1). It wins over [Selectors] and goes
// together with [WithKey], in either order. The last name counts. The names ""
// and "default" ask for the default selector.
//
// Nothing of it is sent to the server. A name that the channel does not know is
// the channel's to judge.
func WithSelector(ctx context.Context, name string) context.Context {
	return callinfo.WithSelector(ctx, callinfo.Selector(name))
}
