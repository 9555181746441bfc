package interceptors

import (
	"errors"
	"fmt"
)

// KeyOption sets one thing of a [Key]. Options hold no state: one value may be
// used for many Keys.
type KeyOption func(*keySettings)

type keySettings struct {
	sources        []KeySource
	optional       bool
	optionalFor    []string
	forwardInbound bool
}

// KeyFrom adds sources to ask, in order, for the key of a call that names none
// itself; the first that has one wins. Several KeyFrom options add up.
func KeyFrom(sources ...KeySource) KeyOption {
	sources = append([]KeySource(nil), sources...)
	return func(s *keySettings) { s.sources = append(s.sources, sources...) }
}

// KeyOptional lets calls without a key through, with no header: they go to any
// endpoint. Without this option such a
// call fails with INVALID_ARGUMENT and [ErrMissingKey].
func KeyOptional() KeyOption {
	return func(s *keySettings) { s.optional = true }
}

// KeyRequired undoes a [KeyOptional] before it. Methods of KeyOptionalFor may still do
// without a key.
func KeyRequired() KeyOption {
	return func(s *keySettings) { s.optional = false }
}

// KeyOptionalFor is [KeyOptional] for some methods only. Patterns are as for
// [MethodKeys].
func KeyOptionalFor(patterns ...string) KeyOption {
	patterns = append([]string(nil), patterns...)
	return func(s *keySettings) { s.optionalFor = append(s.optionalFor, patterns...) }
}

// ForwardInboundKey lets a server handler that calls out with the context of the
// request it serves pass that request's key on: the value of the same header in
// the incoming metadata is the key when the call and all sources have none. No
// other inbound header is passed on. Without this option the inbound side is
// never read (field case IM-05).
func ForwardInboundKey() KeyOption {
	return func(s *keySettings) { s.forwardInbound = true }
}

// check returns all that is wrong with the settings.
func (s *keySettings) check() error {
	var errs []error
	for i, source := range s.sources {
		if err := checkSource(source); err != nil {
			errs = append(errs, fmt.Errorf("key source %d: %w", i+1, err))
		}
	}
	return errors.Join(errs...)
}
