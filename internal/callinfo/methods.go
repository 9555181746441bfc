package callinfo

import (
	"fmt"
	"strings"
)

// Methods maps methods to values by pattern: "/package.Service/Method",
// "/package.Service/*" or "*". It is filled before use and only read afterwards. A
// lookup does not allocate.
type Methods[T any] struct {
	methods  map[string]T // "/package.Service/Method"
	services map[string]T // "/package.Service/"
	all      map[string]T // "" where the pattern "*" was given
}

// Add makes the methods that pattern names have value. The error says what is
// allowed.
func (t *Methods[T]) Add(pattern string, value T) error {
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

// Find returns the value of the most specific pattern that names the method.
func (t *Methods[T]) Find(fullMethod string) (T, bool) {
	if v, ok := t.methods[fullMethod]; ok {
		return v, true
	}
	if v, ok := t.services[fullMethod[:strings.LastIndexByte(fullMethod, '/')+1]]; ok {
		return v, true
	}
	v, ok := t.all[""]
	return v, ok
}
