package sdk

import (
	"sync/atomic"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
)

// keys says how calls get their key for one header, by what their selector's
// policy does with it.
type keys struct {
	header string
	needed *interceptors.Key // routed by the key
	used   *interceptors.Key // may look at the key, and can do without
	passed *interceptors.Key // does not look: only a key that was given by hand
}

// keyRules are where the keys of a pool come from. Immutable, but for what was found.
type keyRules struct {
	options []interceptors.KeyOption
	own     *keys                // for the header that code or configuration names; nil without
	found   atomic.Pointer[keys] // for the header of the LB config in force
}

// of gives the keys for a header.
func (r *keyRules) of(header string) (*keys, error) {
	if k := r.found.Load(); k != nil && k.header == header {
		return k, nil
	}
	k := r.own
	if k == nil || k.header != header {
		var err error
		if k, err = newKeys(header, r.options); err != nil {
			return nil, err
		}
	}
	r.found.Store(k)
	return k, nil
}

func newKeys(header string, opts []interceptors.KeyOption) (*keys, error) {
	needed, err := interceptors.NewKey(header, opts...)
	if err != nil {
		return nil, err
	}
	optional := interceptors.KeyOptional()
	used, err := interceptors.NewKey(header, append(opts[:len(opts):len(opts)], optional)...)
	if err != nil {
		return nil, err
	}
	passed, err := interceptors.NewKey(header, optional)
	if err != nil {
		return nil, err
	}
	return &keys{needed.Header(), needed, used, passed}, nil
}

// of returns the Key for calls that p routes.
func (k *keys) of(p selection.Policy) *interceptors.Key {
	switch p.Kind() {
	case selection.KindSliced, 0:
		return k.needed
	case selection.KindKetama, selection.KindCustom, selection.KindCustomBuilt:
		return k.used
	}
	return k.passed
}
