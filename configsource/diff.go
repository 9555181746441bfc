package configsource

import (
	"reflect"
	"slices"
	"strings"
)

// Change is one thing that differs between two configurations.
type Change struct {
	// Path names it. Elements of lists are named by what they are called, not by their
	// position, as in groups["read"].recovery: one that is added moves no other.
	Path string
	// Old and New are its values as a file would give them, "" where nothing was said.
	// Of an object that appears or goes they are the whole of it, in one line.
	Old, New string
	// Reload is what a reload does with it.
	Reload Reload
}

// String is one line: the path, what was, what is.
func (c Change) String() string {
	switch {
	case c.Old == "":
		return c.Path + ": added " + c.New
	case c.New == "":
		return c.Path + ": removed, was " + c.Old
	}
	return c.Path + ": " + c.Old + " becomes " + c.New
}

// Diff lists what a change from one configuration to another is made of, in the
// order of the types. Nothing that is said differs from its default being said. The
// order of a list counts where it has a meaning: in groups, of which the first is the
// default one, and in lists of strings.
func Diff(from, to Config) []Change {
	var changes []Change
	diffObject(root(), reflect.ValueOf(from), reflect.ValueOf(to), "", &changes)
	return changes
}

func diffObject(o *object, from, to reflect.Value, at string, changes *[]Change) {
	for _, f := range o.fields {
		a, said := f.get(from)
		b, says := f.get(to)
		path := at + f.key
		switch {
		case f.kind == kindObjects:
			diffList(f, f.of(from), f.of(to), path, changes)
		case !said && !says:
		case said && says && f.kind == kindObject:
			diffObject(f.elem, a, b, path+".", changes)
		case said != says || !reflect.DeepEqual(a.Interface(), b.Interface()):
			c := Change{Path: path, Reload: f.reload}
			if said {
				c.Old = line(encodeField(f, a, Place{}))
			}
			if says {
				c.New = line(encodeField(f, b, Place{}))
			}
			*changes = append(*changes, c)
		}
	}
}

// diffList compares the objects of a list by their names.
func diffList(f *field, from, to reflect.Value, path string, changes *[]Change) {
	id := f.elem.id
	names := func(list reflect.Value) ([]string, map[string]reflect.Value) {
		order, byName := make([]string, list.Len()), make(map[string]reflect.Value, list.Len())
		for i := range order {
			order[i] = id.of(list.Index(i)).String()
			byName[order[i]] = list.Index(i)
		}
		return order, byName
	}
	before, old := names(from)
	after, now := names(to)
	add := func(name string, was, is *node) {
		c := Change{Path: path + "[" + quote(name) + "]", Reload: f.reload}
		if was != nil {
			c.Old = line(was)
		}
		if is != nil {
			c.New = line(is)
		}
		*changes = append(*changes, c)
	}
	for _, name := range before {
		if _, stays := now[name]; !stays {
			add(name, encodeObject(f.elem, old[name], Place{}), nil)
		}
	}
	for _, name := range after {
		was, there := old[name]
		if !there {
			add(name, nil, encodeObject(f.elem, now[name], Place{}))
			continue
		}
		diffObject(f.elem, was, now[name], path+"["+quote(name)+"].", changes)
	}
	if !f.ordered {
		return
	}
	gone := func(in map[string]reflect.Value) func(string) bool {
		return func(name string) bool { _, is := in[name]; return !is }
	}
	firstMoved := len(before) > 0 && len(after) > 0 && before[0] != after[0]
	before, after = slices.DeleteFunc(before, gone(now)), slices.DeleteFunc(after, gone(old))
	if firstMoved || !slices.Equal(before, after) {
		*changes = append(*changes, Change{Path: path + " (order)", Old: order(from, id), New: order(to, id), Reload: f.reload})
	}
}

// order is the names of a list, the first few of many.
func order(list reflect.Value, id *field) string {
	const most = 12
	var names []string
	for i := range min(list.Len(), most) {
		names = append(names, id.of(list.Index(i)).String())
	}
	if list.Len() > most {
		names = append(names, "...")
	}
	return strings.Join(names, ", ")
}

// line is a tree in one line, as YAML's flow style has it.
func line(n *node) string {
	var b strings.Builder
	switch n.kind {
	case nodeObject:
		b.WriteByte('{')
		for i, m := range n.members {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(m.key + ": " + line(m.node))
		}
		b.WriteByte('}')
	case nodeList:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(line(item))
		}
		b.WriteByte(']')
	default:
		return n.text()
	}
	return b.String()
}
