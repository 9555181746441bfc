package interceptors

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
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
	var table methodTable[struct{}]
	var errs []error
	for _, p := range patterns {
		errs = append(errs, table.add(p, struct{}{}))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("interceptors.%s: %w", name, err)
	}
	return selector.MatchFunc(func(_ context.Context, call interceptors.CallMeta) bool {
		_, found := table.find(call.FullMethod())
		return found == want
	}), nil
}

// methodTable maps methods to values by pattern. It is filled before use and
// only read afterwards. A lookup does not allocate.
type methodTable[T any] struct {
	methods  map[string]T // "/package.Service/Method"
	services map[string]T // "/package.Service/"
	all      map[string]T // "" where the pattern "*" was given
}

func (t *methodTable[T]) add(pattern string, value T) error {
	into, name := &t.methods, pattern
	switch slash := strings.LastIndexByte(pattern, '/'); {
	case pattern == "*":
		into, name = &t.all, ""
	case !strings.HasPrefix(pattern, "/") || slash < 2 || slash == len(pattern)-1 ||
		strings.Contains(strings.TrimSuffix(pattern, "*"), "*") ||
		strings.HasSuffix(pattern, "*") && slash != len(pattern)-2:
		return fmt.Errorf("method pattern %q is malformed; allowed are \"/package.Service/Method\", \"/package.Service/*\" and \"*\"", pattern)
	case strings.HasSuffix(pattern, "*"):
		into, name = &t.services, pattern[:slash+1]
	}
	if *into == nil {
		*into = make(map[string]T)
	}
	(*into)[name] = value
	return nil
}

// find returns the value of the most specific pattern that names the method.
func (t *methodTable[T]) find(fullMethod string) (T, bool) {
	if v, ok := t.methods[fullMethod]; ok {
		return v, true
	}
	if v, ok := t.services[fullMethod[:strings.LastIndexByte(fullMethod, '/')+1]]; ok {
		return v, true
	}
	v, ok := t.all[""]
	return v, ok
}
