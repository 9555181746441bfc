package configsource

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// assignments is the layer that environment variables make.
type assignments []assignment

func (as assignments) onto(below *node, r *report) *node {
	tree := below
	for _, a := range as {
		place := Place{Origin: "environment variable " + a.name}
		if a.steps == nil {
			near := ""
			if known := nearestEnv(a.rest); known != "" {
				near = "did you mean " + strings.TrimSuffix(a.name, a.rest) + known + "? "
			}
			r.add(&Problem{Place: place, Allowed: "no key has this name; " + near + "docs/configuration.md lists the names"})
			continue
		}
		value, err := a.node(place)
		if err != nil {
			r.add(err)
			continue
		}
		changed, err := assign(tree, a.steps, value, nil)
		if err != nil {
			r.add(err)
			continue
		}
		tree = changed
	}
	return tree
}

// nearestEnv is the nearest name of a key, with the positions that rest has.
func nearestEnv(rest string) string {
	words := strings.Split(rest, "_")
	var positions []string
	for i, w := range words {
		if w != "" && strings.Trim(w, "0123456789") == "" {
			positions, words[i] = append(positions, w), "#"
		}
	}
	var names []string
	for _, k := range Keys() {
		names = append(names, k.Env)
		if k.Kind == kindStrings.String() {
			names = append(names, k.Env+"_#")
		}
	}
	best := nearest(strings.Join(words, "_"), names)
	for _, p := range positions {
		best = strings.Replace(best, "#", p, 1)
	}
	if best == rest {
		return ""
	}
	return best
}

// node is the variable's value: text for a scalar, JSON for what is larger.
func (a *assignment) node(place Place) (*node, *Problem) {
	text := strings.TrimSpace(a.value)
	k := a.field.kind
	element := a.steps[len(a.steps)-1].key == ""
	switch {
	case k == kindStrings && element:
		return &node{kind: nodeScalar, value: a.value, place: place}, nil
	case k == kindObject, k == kindObjects, k == kindStrings && strings.HasPrefix(text, "["):
		tree, err := read(fmt.Appendf(nil, `{"value":%s}`, text), JSON, place.Origin)
		if err == nil && len(tree.members) != 1 {
			err = errors.New("it is no single value")
		}
		if err != nil {
			allowed := a.field.allowed()
			if k == kindObjects && element {
				allowed = "an object with keys of " + a.field.elem.keys()
			}
			return nil, &Problem{Path: pathOf(a.steps), Value: a.value, Place: place, Err: err, Allowed: "it has to be " + allowed + ", as JSON"}
		}
		return placed(tree.find("value"), place), nil
	case k == kindString:
		return &node{kind: nodeScalar, value: a.value, place: place}, nil
	case k == kindDuration:
		return &node{kind: nodeScalar, value: text, place: place}, nil
	}
	value, ok := parseText(k, text)
	if !ok {
		return nil, &Problem{Path: pathOf(a.steps), Value: quote(a.value), Place: place, Allowed: "it has to be " + a.field.allowed()}
	}
	if list, ok := value.([]string); ok {
		n := &node{kind: nodeList, place: place}
		for _, s := range list {
			n.items = append(n.items, &node{kind: nodeScalar, value: s, place: place})
		}
		return n, nil
	}
	return &node{kind: nodeScalar, value: value, place: place}, nil
}

// placed is n as if all of it had come from one place.
func placed(n *node, place Place) *node {
	out := *n
	out.place, out.items, out.members = place, nil, nil
	for _, item := range n.items {
		out.items = append(out.items, placed(item, place))
	}
	for _, m := range n.members {
		out.members = append(out.members, member{m.key, place, placed(m.node, place)})
	}
	return &out
}

// assign is tree with a value at the end of steps. Tree is not changed.
func assign(tree *node, steps []step, value *node, at []step) (*node, *Problem) {
	if len(steps) == 0 {
		return value, nil
	}
	s := steps[0]
	at = append(at, s)
	fail := func(allowed string) (*node, *Problem) {
		return nil, &Problem{Path: pathOf(at), Value: value.text(), Place: value.place, Allowed: allowed}
	}
	if s.key != "" {
		if tree == nil || tree.kind == nodeNull {
			tree = &node{kind: nodeObject, place: value.place}
		}
		if tree.kind != nodeObject {
			return fail("what it is in is no object in " + tree.place.String())
		}
		inner, err := assign(tree.find(s.key), steps[1:], value, at)
		if err != nil {
			return nil, err
		}
		return tree.with(s.key, value.place, inner), nil
	}
	if tree == nil || tree.kind == nodeNull {
		tree = &node{kind: nodeList, place: value.place}
	}
	if tree.kind != nodeList {
		return fail("what it is in is no list in " + tree.place.String())
	}
	if s.index > len(tree.items) {
		return fail(fmt.Sprintf("the next position of the list is %d", len(tree.items)))
	}
	var old *node
	if s.index < len(tree.items) {
		old = tree.items[s.index]
	}
	inner, err := assign(old, steps[1:], value, at)
	if err != nil {
		return nil, err
	}
	out := &node{kind: nodeList, place: tree.place, items: append([]*node(nil), tree.items...)}
	if old == nil {
		out.items = append(out.items, inner)
	} else {
		out.items[s.index] = inner
	}
	return out, nil
}

func pathOf(steps []step) string {
	var b bytes.Buffer
	for i, s := range steps {
		switch {
		case s.key == "":
			fmt.Fprintf(&b, "[%d]", s.index)
		case i == 0:
			b.WriteString(s.key)
		default:
			b.WriteString("." + s.key)
		}
	}
	return b.String()
}
