package balancer

import (
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"
)

// TestClientConnProviderAttribute: A119's setter and getter. The setter returns a
// copy, keeps other attributes and replaces an earlier provider.
func TestClientConnProviderAttribute(t *testing.T) {
	type other struct{}
	named := func(name string) ClientConnProvider {
		return func(key string) (grpc.ClientConnInterface, func(), error) {
			return nil, nil, errors.New(name + " " + key)
		}
	}
	before := resolver.State{Attributes: attributes.New(other{}, "kept")}
	if ClientConnProviderFromResolverState(before) != nil || ClientConnProviderFromResolverState(resolver.State{}) != nil {
		t.Error("a state without a provider has one")
	}
	first := SetClientConnProvider(before, named("first"))
	second := SetClientConnProvider(first, named("second"))
	for want, s := range map[string]resolver.State{"first key": first, "second key": second} {
		p := ClientConnProviderFromResolverState(s)
		if p == nil {
			t.Fatalf("%s: no provider", want)
		}
		if _, _, err := p("key"); err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
		if s.Attributes.Value(other{}) != "kept" {
			t.Errorf("%s: another attribute is lost", want)
		}
	}
	if ClientConnProviderFromResolverState(before) != nil {
		t.Error("the setter changed its argument")
	}
}
