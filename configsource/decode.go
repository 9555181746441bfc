package configsource

import "reflect"

// decode makes a Config of a tree. What it cannot read is reported and left out.
func decode(tree *node, r *report) Config {
	var c Config
	if tree != nil {
		decodeObject(tree, root(), reflect.ValueOf(&c).Elem(), nil, r)
	}
	return c
}

// schemaKey is where a JSON file names its schema, for editors.
const schemaKey = "$schema"

// decodeObject fills a struct from the members of n.
func decodeObject(n *node, o *object, into reflect.Value, at *path, r *report) {
	for _, m := range n.members {
		if at == nil && m.key == schemaKey {
			continue
		}
		f := o.byKey[m.key]
		if f == nil {
			r.add(&Problem{
				Path: at.in(m.key).String(), Value: "an unknown key", Place: m.place,
				Allowed: meant(m.key, o.known()) + "known here are " + o.keys(),
			})
			continue
		}
		if m.node.kind == nodeNull {
			continue // says nothing
		}
		decodeField(m.node, f, into, at.in(m.key), r)
	}
	for _, f := range o.fields {
		if f.required && n.find(f.key) == nil {
			r.add(&Problem{Path: at.in(f.key).String(), Place: n.place, Allowed: "it has to be " + f.allowed()})
		}
	}
}

func (o *object) known() []string {
	names := make([]string, len(o.fields))
	for i, f := range o.fields {
		names[i] = f.key
	}
	return names
}

func decodeField(n *node, f *field, into reflect.Value, at *path, r *report) {
	switch {
	case f.kind == kindObject && n.kind == nodeObject:
		v := f.of(into)
		if f.pointer {
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
		}
		decodeObject(n, f.elem, v, at, r)
	case f.kind == kindObjects && n.kind == nodeList:
		if len(n.items) == 0 {
			return // an empty list says nothing
		}
		list := reflect.MakeSlice(f.of(into).Type(), len(n.items), len(n.items))
		for i, item := range n.items {
			if item.kind != nodeObject {
				wrongKind(item, "an object with keys of "+f.elem.keys(), at.at(i), r)
				continue
			}
			decodeObject(item, f.elem, list.Index(i), at.at(i), r)
		}
		f.of(into).Set(list)
	case f.kind == kindObjects && n.kind == nodeObject:
		allowed := f.allowed() + ": names are values, since keys would not keep their case and their dots"
		wrongKind(n, allowed, at, r)
	case f.kind == kindStrings && n.kind == nodeList:
		list := make([]string, len(n.items))
		for i, item := range n.items {
			s, ok := convert(kindString, item.value)
			if !ok {
				wrongKind(item, "a string", at.at(i), r)
				continue
			}
			list[i] = s.(string)
		}
		if len(list) > 0 || f.standard != nil { // to replace a default by nothing is a problem that is found later
			f.of(into).Set(reflect.ValueOf(list))
		}
	case f.kind < kindStrings && n.kind == nodeScalar:
		value, ok := convert(f.kind, n.value)
		if !ok {
			wrongKind(n, f.allowed(), at, r)
			return
		}
		f.set(into, value)
	default:
		wrongKind(n, f.allowed(), at, r)
	}
}

// wrongKind reports a value that is no such thing at all.
func wrongKind(n *node, allowed string, at *path, r *report) {
	r.add(&Problem{Path: at.String(), Value: n.text(), Allowed: "it has to be " + allowed + hint(n, allowed), Place: n.place})
}

// hint is what one who wrote n where such a value belongs most likely overlooked.
func hint(n *node, allowed string) string {
	if n.kind != nodeScalar || len(allowed) < 8 || allowed[:8] != "a string" {
		return ""
	}
	if _, text := n.value.(string); text {
		return ""
	}
	return "; put it in quotes"
}
