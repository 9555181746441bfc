package configsource

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Place is where a value came from: a line of a file, an environment variable or
// what a program said.
type Place struct {
	// Origin is the file's path as it was given, "environment variable NAME", or the
	// name of a source.
	Origin string
	// Line counts from 1; it is 0 where there are no lines.
	Line int
}

// String is app.yaml:12, or the origin alone.
func (p Place) String() string {
	if p.Line == 0 {
		return p.Origin
	}
	return p.Origin + ":" + strconv.Itoa(p.Line)
}

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	// Path names the value, as in groups[1].targets[0]. It is "" for what concerns the
	// whole, such as a file that is no YAML.
	Path string
	// Value is what is there, as a file would give it, "" if nothing is.
	Value string
	// Allowed says what is allowed there, or what to do.
	Allowed string
	// Place is where the value came from, or what it is missing from. It is zero for a
	// Config made by code.
	Place Place
	// Err is the cause where there is one, such as an error of the file system.
	Err error
}

// Error is one sentence with all of it.
func (p *Problem) Error() string {
	var b strings.Builder
	if p.Place.Origin != "" {
		b.WriteString(p.Place.String() + ": ")
	}
	switch {
	case p.Path == "":
	case p.Value == "":
		b.WriteString(p.Path + " is missing; ")
	default:
		fmt.Fprintf(&b, "%s is %s; ", p.Path, shorten(p.Value))
	}
	b.WriteString(p.Allowed)
	if p.Err != nil {
		b.WriteString(": " + p.Err.Error())
	}
	return b.String()
}

// Unwrap is the cause.
func (p *Problem) Unwrap() error { return p.Err }

// shorten keeps a sentence readable when a whole list is the wrong value.
func shorten(value string) string {
	const most = 120
	if len(value) <= most {
		return value
	}
	return strings.ToValidUTF8(value[:most], "") + "..."
}

// Problems are the problems that an error of this package holds, in order, nil if
// it holds none.
func Problems(err error) []*Problem {
	var found []*Problem
	var walk func(error)
	walk = func(err error) {
		var p *Problem
		joined, many := err.(interface{ Unwrap() []error })
		switch {
		case many:
			for _, e := range joined.Unwrap() {
				walk(e)
			}
		case errors.As(err, &p):
			found = append(found, p)
		}
	}
	if err != nil {
		walk(err)
	}
	return found
}

// report collects problems. Of a path and what is in it the first one stays: what
// follows from it need not be said.
type report struct {
	list       []*Problem
	paths      map[string]bool
	unreadable bool // a layer is missing from the whole
}

func (r *report) add(p *Problem) {
	if p.Path != "" {
		for i, c := range p.Path {
			if (c == '.' || c == '[') && r.paths[p.Path[:i]] {
				return
			}
		}
		if r.paths[p.Path] {
			return
		}
		if r.paths == nil {
			r.paths = make(map[string]bool)
		}
		r.paths[p.Path] = true
	}
	r.list = append(r.list, p)
}

// err joins them in the order of their lines, nil if there are none.
func (r *report) err() error {
	origins := make(map[string]int)
	for _, p := range r.list {
		if _, seen := origins[p.Place.Origin]; !seen {
			origins[p.Place.Origin] = len(origins)
		}
	}
	slices.SortStableFunc(r.list, func(a, b *Problem) int {
		return cmp.Or(origins[a.Place.Origin]-origins[b.Place.Origin], a.Place.Line-b.Place.Line)
	})
	errs := make([]error, len(r.list))
	for i, p := range r.list {
		errs[i] = p
	}
	return errors.Join(errs...)
}

// path is where a value is, from the inside out. It is made text only for a
// problem. A nil path is the whole configuration.
type path struct {
	parent *path
	key    string
	index  int // in a list, if key is ""
}

func (p *path) in(key string) *path { return &path{parent: p, key: key} }
func (p *path) at(index int) *path  { return &path{parent: p, index: index} }

func (p *path) String() string {
	switch {
	case p == nil:
		return ""
	case p.key == "":
		return p.parent.String() + "[" + strconv.Itoa(p.index) + "]"
	case p.parent == nil:
		return p.key
	}
	return p.parent.String() + "." + p.key
}
