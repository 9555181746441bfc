package configsource

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Validate reports everything that is wrong with c, as one error that [Problems]
// takes apart.
func (c Config) Validate() error {
	r := &report{}
	c.validate(r, nil)
	return r.err()
}

// validate reports to r. tree, if there is one, says where values came from.
func (c *Config) validate(r *report, tree *node) {
	v := &validator{report: r, tree: tree}
	v.object(root(), reflect.ValueOf(c).Elem(), nil)
	v.names(c)
	v.references(c)
	v.relations(c)
}

// validator walks a Config.
type validator struct {
	*report
	tree *node
}

// wrong reports a value that is there.
func (v *validator) wrong(at *path, value any, allowed string, args ...any) {
	p := &Problem{Path: at.String(), Value: format(value), Allowed: fmt.Sprintf(allowed, args...)}
	if n := v.tree.lookup(at); n != nil {
		p.Place = n.place
	}
	v.add(p)
}

// object checks every value by its own limits.
func (v *validator) object(o *object, holder reflect.Value, at *path) {
	for _, f := range o.fields {
		value, said := f.get(holder)
		if !said {
			v.absent(f, value, at)
			continue
		}
		here := at.in(f.key)
		if !f.applies(o, holder) {
			by, _ := o.byKey[f.only.key].get(holder)
			v.wrong(here, shown(f, value), "%s %s has no such setting; it is for %s", f.only.key, quote(by.String()),
				strings.Join(f.only.values, ", "))
			continue
		}
		switch f.kind {
		case kindObject:
			v.object(f.elem, value, here)
		case kindObjects:
			for i := range value.Len() {
				v.object(f.elem, value.Index(i), here.at(i))
			}
		case kindStrings:
			for i := range value.Len() {
				v.scalar(f, value.Index(i), here.at(i))
			}
		default:
			v.scalar(f, value, here)
		}
	}
}

// absent checks what was not said: required values, and empty lists of strings that
// replace a default.
func (v *validator) absent(f *field, value reflect.Value, at *path) {
	here := at.in(f.key)
	switch {
	case f.required && f.kind == kindString:
		v.wrong(here, "", "it has to be %s", f.allowed())
	case f.required:
		v.wrong(here, []string(nil), "it has to be %s, at least one", f.allowed())
	case f.kind == kindStrings && f.standard != nil && !value.IsNil():
		v.wrong(here, []string(nil), "it has to be %s, or left out for the default", f.allowed())
	}
}

// words stand for a value in a sentence, without quotes.
type words string

// shown is the value for a sentence.
func shown(f *field, value reflect.Value) any {
	if f.kind == kindObject || f.kind == kindObjects {
		return words("an object")
	}
	return value.Interface()
}

func (v *validator) scalar(f *field, value reflect.Value, at *path) {
	if value.Kind() == reflect.String {
		s := value.String()
		switch {
		case f.enum != nil && !slices.Contains(f.enum, s):
			v.wrong(at, s, "%sit has to be one of %s", meant(s, f.enum), strings.Join(f.enum, ", "))
		case !utf8.ValidString(s):
			v.wrong(at, s, "it has to be UTF-8")
		case strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f }):
			v.wrong(at, s, "it must not hold control characters")
		case strings.TrimSpace(s) != s:
			v.wrong(at, s, "it must not begin or end with spaces")
		case s == "" && f.key != "service": // the health service as a whole is ""
			v.wrong(at, s, "it has to be a string of at least one character")
		}
		return
	}
	if value.Kind() != reflect.Bool && !f.bounds.allow(value.Interface()) {
		v.wrong(at, value.Interface(), "it has to be %s", f.allowed())
	}
}

// names checks that no two objects of a list have the same name.
func (v *validator) names(c *Config) {
	config := reflect.ValueOf(c).Elem()
	for _, f := range root().fields {
		if f.kind != kindObjects || f.elem.id == nil {
			continue
		}
		list, first := f.of(config), make(map[string]int)
		for i := range list.Len() {
			name := f.elem.id.of(list.Index(i)).String()
			if name == "" {
				continue
			}
			if earlier, twice := first[name]; twice {
				v.wrong((*path)(nil).in(f.key).at(i).in(f.elem.id.key), name, "it is also %s[%d]; give each its own", f.key, earlier)
				continue
			}
			first[name] = i
		}
	}
}
