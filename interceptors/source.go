package interceptors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// KeySource finds the key of a call that does not name one itself. It must be
// safe for concurrent use. ok is false where this call has no key here, so that
// the next source is asked; an error fails the call. An error must not contain
// the key. An empty key with ok set is a key.
//
// fullMethod is "/package.Service/Method"; req is the request of a unary call
// and nil for a stream, which opens before its first message is known.
type KeySource interface {
	Key(ctx context.Context, fullMethod string, req any) (key string, ok bool, err error)
}

// FuncKey makes a source of a function: for keys that are hashed, composed of
// several fields, or kept in the context by the application. A status error it
// returns reaches the caller as it is (package sdk puts the target before its
// text), any other as INVALID_ARGUMENT.
func FuncKey(f func(ctx context.Context, fullMethod string, req any) (key string, ok bool, err error)) KeySource {
	return funcKey(f)
}

type funcKey func(ctx context.Context, fullMethod string, req any) (string, bool, error)

func (f funcKey) Key(ctx context.Context, fullMethod string, req any) (string, bool, error) {
	return f(ctx, fullMethod, req)
}

func (f funcKey) check() error {
	if f == nil {
		return errors.New("FuncKey has no function")
	}
	return nil
}

// MethodKeys chooses the source by the method called. Patterns are
// "/package.Service/Method", "/package.Service/*" and "*"; the most specific one
// that names the method wins, in that order, and only its source is asked. A
// method that no pattern names has no key here. The map is copied.
func MethodKeys(byPattern map[string]KeySource) KeySource {
	m := &methodKeys{}
	var errs []error
	for _, pattern := range slices.Sorted(maps.Keys(byPattern)) {
		source := byPattern[pattern]
		if err := m.table.Add(pattern, source); err != nil {
			errs = append(errs, err)
		} else if err := checkSource(source); err != nil {
			errs = append(errs, fmt.Errorf("method pattern %q: %w", pattern, err))
		}
	}
	m.err = errors.Join(errs...)
	return m
}

type methodKeys struct {
	table callinfo.Methods[KeySource]
	err   error // what NewKey reports
}

func (m *methodKeys) Key(ctx context.Context, fullMethod string, req any) (string, bool, error) {
	if m.err != nil {
		return "", false, m.err
	}
	source, ok := m.table.Find(fullMethod)
	if !ok {
		return "", false, nil
	}
	return source.Key(ctx, fullMethod, req)
}

func (m *methodKeys) why(fullMethod string, req any) string {
	source, _ := m.table.Find(fullMethod)
	if e, ok := source.(explainer); ok {
		return e.why(fullMethod, req)
	}
	return ""
}

func (m *methodKeys) check() error { return m.err }

// checkSource lets NewKey report what is wrong with a source before the first
// call does.
func checkSource(source KeySource) error {
	if source == nil {
		return errors.New("the source is nil")
	}
	if c, ok := source.(interface{ check() error }); ok {
		return c.check()
	}
	return nil
}
