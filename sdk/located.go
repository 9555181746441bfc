package sdk

import (
	"errors"
	"slices"
	"strings"
)

// locatedError is several faults, one a line, each of which says where it is.
type locatedError struct {
	where string
	err   error
}

func (e *locatedError) Error() string {
	return e.where + ": " + strings.ReplaceAll(e.err.Error(), "\n", "\n"+e.where+": ")
}

func (e *locatedError) Unwrap() error { return e.err }

// located says of each fault in err where it is.
func located(where string, err error) error {
	if err == nil {
		return nil
	}
	return &locatedError{where, err}
}

// without is err without the faults that said has as well.
func without(err, said error) error {
	if err == nil || said == nil {
		return err
	}
	known := strings.Split(said.Error(), "\n")
	lines := strings.Split(err.Error(), "\n")
	left := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(known, line) })
	switch len(left) {
	case 0:
		return nil
	case len(lines):
		return err
	}
	return errors.New(strings.Join(left, "\n"))
}
