package interceptors

import (
	"context"
	"errors"
	"fmt"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// ForMethods matches calls of the methods that one of the patterns names, as for
// [MethodKeys]. Use it with [Pair.Only] or with go-grpc-middleware's selector
// package. The error names each malformed pattern.
func ForMethods(patterns ...string) (selector.Matcher, error) {
	return matcher("ForMethods", patterns, true)
}

// ExceptMethods matches the calls that [ForMethods] does not.
func ExceptMethods(patterns ...string) (selector.Matcher, error) {
	return matcher("ExceptMethods", patterns, false)
}

func matcher(name string, patterns []string, want bool) (selector.Matcher, error) {
	var table callinfo.Methods[struct{}]
	var errs []error
	for _, p := range patterns {
		errs = append(errs, table.Add(p, struct{}{}))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("interceptors.%s: %w", name, err)
	}
	return selector.MatchFunc(func(_ context.Context, call interceptors.CallMeta) bool {
		_, found := table.Find(call.FullMethod())
		return found == want
	}), nil
}
