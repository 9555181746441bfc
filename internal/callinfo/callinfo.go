package callinfo

import (
	"context"
	"sync/atomic"
	"unique"
)

// Call is what one call asks for and what became of it. All fields but Waiting and
// attempt are set before the record enters a context and never after.
//
// A record is either asked or begun. An asked one (WithKey, WithSelector) is the
// caller's, whose context may make any number of calls. A begun one (Begin,
// Within) belongs to one call with all its attempts, and only that one has Tried.
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
	// HasSelector says that Selector was asked for, also where that is the default;
	// SelectorDerived, as Derived, that it was worked out from the call's method.
	HasSelector     bool
	SelectorDerived bool
	// Selector names the selector that routes the call (Selector); the zero handle
	// is the default one. A handle, because a picker compares it for each pick.
	Selector unique.Handle[string]
	// HasGroup says that Group was asked for, the name of the group of targets that
	// takes the call. Whoever chooses the channel reads it; no picker does.
	HasGroup bool
	Group    unique.Handle[string]
	// Tried are the endpoints that attempts of this call were sent to; nil, which
	// is a set that stays empty, in a record that is only asked. The picker adds and
	// reads: each attempt of gRPC's own retries has the call's context, and those of
	// interceptors.Retry have records that share the set.
	Tried *Tried
	// Waiting says why the latest pick of this call queued. The picker stores
	// it; whoever explains or measures the call loads it.
	Waiting atomic.Pointer[Wait]

	channel any // of a begun record
	method  string
	own     Tried // room for what Tried points at
	attempt Attempt
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
	c := From(ctx).branch()
	c.Key, c.HasKey, c.Header, c.Derived = key, true, "", false
	return NewContext(ctx, c)
}

// WithSelector returns a context that asks for a selector.
func WithSelector(ctx context.Context, selector unique.Handle[string]) context.Context {
	c := From(ctx).branch()
	c.Selector, c.HasSelector, c.SelectorDerived = selector, true, false
	return NewContext(ctx, c)
}

// WithGroup returns a context that asks for a group of targets.
func WithGroup(ctx context.Context, group unique.Handle[string]) context.Context {
	c := From(ctx).branch()
	c.Group, c.HasGroup = group, true
	return NewContext(ctx, c)
}

// Again returns an asked record for a new call that asks for what c, which may be
// nil, asked for. What an earlier call's method chose is not asked for again.
func (c *Call) Again() *Call {
	again := c.asks()
	if c != nil && c.Tried != nil && c.SelectorDerived {
		again.Selector, again.HasSelector, again.SelectorDerived = unique.Handle[string]{}, false, false
	}
	return again
}

// Within returns another record of the call that c, which must be begun, belongs
// to, for one that changes what is asked: the attempts under both share Tried.
func (c *Call) Within() *Call {
	within := c.asks()
	within.Tried, within.channel, within.method = c.Tried, c.channel, c.method
	return within
}

// Begin makes c, which nobody else has seen yet, the record of one call of
// method on channel, a pointer, with nothing tried.
func (c *Call) Begin(channel any, method string) {
	c.Tried, c.channel, c.method = &c.own, channel, method
}

// Is says whether c, which may be nil, belongs to a call of method on channel. An
// interceptor asks it: a call that another interceptor makes with the context it
// was given is on another channel or of another method, and not this one.
func (c *Call) Is(channel any, method string) bool {
	return c != nil && c.Tried != nil && c.channel == channel && c.method == method
}

// Begin returns a context for one call of method on channel: ctx itself where it
// belongs to that call.
func Begin(ctx context.Context, channel any, method string) context.Context {
	c := From(ctx)
	if c.Is(channel, method) {
		return ctx
	}
	c = c.Again()
	c.Begin(channel, method)
	return NewContext(ctx, c)
}

// branch returns a record for a context that asks for something else than c's.
// Where c is begun, the new one has nothing tried: an interceptor may spread one
// call over several keys, and these do not avoid each other's endpoints.
func (c *Call) branch() *Call {
	b := c.asks()
	if c != nil && c.Tried != nil {
		b.Begin(c.channel, c.method)
	}
	return b
}

// asks returns an asked record with what c, which may be nil, asks for.
func (c *Call) asks() *Call {
	if c == nil {
		return &Call{}
	}
	return &Call{
		Key: c.Key, HasKey: c.HasKey, Header: c.Header, Derived: c.Derived,
		Selector: c.Selector, HasSelector: c.HasSelector, SelectorDerived: c.SelectorDerived,
		Group: c.Group, HasGroup: c.HasGroup,
	}
}
