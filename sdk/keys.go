package sdk

import (
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
