package configsource

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Explain writes the whole configuration as YAML that reads back as the same: every
// value that holds, with where it came from, or that it is the default, in a comment
// beside it. What is off because it was left out is not written.
func (u *Update) Explain(w io.Writer) error {
	full := u.config.WithDefaults()
	e := explainer{w: w}
	e.object(root(), reflect.ValueOf(full), u.tree, 0, "")
	if e.wrote == 0 {
		e.line(0, "{}", "")
	}
	return e.err
}

type explainer struct {
	w     io.Writer
	wrote int
	err   error
}

// line writes one line and its comment, aligned where there is room.
func (e *explainer) line(depth int, text, comment string) {
	if e.err != nil {
		return
	}
	text = strings.Repeat("  ", depth) + text
	if comment != "" {
		text = fmt.Sprintf("%-44s # %s", text, comment)
	}
	_, e.err = fmt.Fprintln(e.w, text)
	e.wrote++
}

// object writes the members of a struct. n is what was said of it, nil if nothing.
// first goes before the first member, as the dash of a list does.
func (e *explainer) object(o *object, holder reflect.Value, n *node, depth int, first string) {
	for _, f := range o.fields {
		v, said := f.get(holder)
		if !said {
			continue
		}
		inner := n.find(f.key)
		at, lead := depth, ""
		if first != "" {
			at, lead, first = depth-1, first, ""
		}
		switch f.kind {
		case kindObject:
			if !f.pointer && inner == nil && len(encodeObject(f.elem, v, Place{}).members) == 0 {
				continue
			}
			e.line(at, lead+f.key+":", "")
			before := e.wrote
			e.object(f.elem, v, inner, depth+1, "")
			if e.wrote == before {
				e.line(depth+1, "{}", "")
			}
		case kindObjects:
			e.line(at, lead+f.key+":", "")
			for i := range v.Len() {
				var item *node
				if inner != nil && i < len(inner.items) {
					item = inner.items[i]
				}
				e.object(f.elem, v.Index(i), item, depth+2, "- ")
			}
		default:
			from := "default"
			if inner != nil && inner.kind != nodeNull {
				from = inner.place.String()
			}
			e.line(at, lead+f.key+": "+shownValue(f, v), from)
		}
	}
}

// shownValue is a scalar or a list of strings. Words of ours need no quotes.
func shownValue(f *field, v reflect.Value) string {
	if f.kind == kindString && f.enum != nil && f.key != "specRevision" {
		return v.String()
	}
	return format(v.Interface())
}
