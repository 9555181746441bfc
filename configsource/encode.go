package configsource

import "reflect"

// encode is the tree that decode makes c of, with one place for all of it.
func encode(c *Config, origin string) *node {
	return encodeObject(root(), reflect.ValueOf(c).Elem(), Place{Origin: origin})
}

func encodeObject(o *object, from reflect.Value, place Place) *node {
	n := &node{kind: nodeObject, place: place}
	for _, f := range o.fields {
		v, said := f.get(from)
		if !said {
			continue
		}
		inner := encodeField(f, v, place)
		if f.kind == kindObject && !f.pointer && !f.required && len(inner.members) == 0 {
			continue
		}
		n.members = append(n.members, member{f.key, place, inner})
	}
	return n
}

func encodeField(f *field, v reflect.Value, place Place) *node {
	switch f.kind {
	case kindObject:
		return encodeObject(f.elem, v, place)
	case kindObjects:
		n := &node{kind: nodeList, place: place, items: make([]*node, v.Len())}
		for i := range n.items {
			n.items[i] = encodeObject(f.elem, v.Index(i), place)
		}
		return n
	case kindStrings:
		n := &node{kind: nodeList, place: place, items: make([]*node, v.Len())}
		for i := range n.items {
			n.items[i] = &node{kind: nodeScalar, value: v.Index(i).String(), place: place}
		}
		return n
	}
	return &node{kind: nodeScalar, value: v.Interface(), place: place}
}
