package configsource

// nodeKind is what a node is.
type nodeKind uint8

const (
	nodeNull nodeKind = iota
	nodeScalar
	nodeList
	nodeObject
)

// node is one value of a configuration as it was written, with its place. Nodes
// are immutable once they are read; layers share them.
type node struct {
	kind    nodeKind
	value   any // of a scalar: string, bool, int, int64, float64 or what else a parser gives
	items   []*node
	members []member
	place   Place
}

// member is a key of an object, spelled as it was written.
type member struct {
	key   string
	place Place
	node  *node
}

// find is the member of that key, nil if there is none.
func (n *node) find(key string) *node {
	if n == nil {
		return nil
	}
	for i := range n.members {
		if n.members[i].key == key {
			return n.members[i].node
		}
	}
	return nil
}

// with is n with another node for a key. n is not changed.
func (n *node) with(key string, place Place, value *node) *node {
	out := &node{kind: nodeObject, place: n.place, members: make([]member, 0, len(n.members)+1)}
	found := false
	for _, m := range n.members {
		if m.key == key {
			m.node, m.place, found = value, place, true
		}
		out.members = append(out.members, m)
	}
	if !found {
		out.members = append(out.members, member{key, place, value})
	}
	return out
}

// over is what two layers add up to: objects are joined key by key, everything else
// is replaced whole, and null says nothing. Neither is changed.
func (n *node) over(below *node) *node {
	switch {
	case n == nil || n.kind == nodeNull:
		return below
	case below == nil || below.kind != nodeObject || n.kind != nodeObject:
		return n
	}
	out := below
	for _, m := range n.members {
		out = out.with(m.key, m.place, m.node.over(below.find(m.key)))
	}
	return out
}

// lookup is the node that a path names, or the nearest one around it.
func (n *node) lookup(p *path) *node {
	if p == nil || n == nil {
		return n
	}
	around := n.lookup(p.parent)
	if around == nil {
		return nil
	}
	var inner *node
	switch {
	case p.key != "":
		inner = around.find(p.key)
	case p.index < len(around.items):
		inner = around.items[p.index]
	}
	if inner == nil {
		return around
	}
	return inner
}

// text is the node as a sentence shows it.
func (n *node) text() string {
	switch n.kind {
	case nodeObject:
		return "an object"
	case nodeList:
		return "a list"
	case nodeNull:
		return "null"
	}
	return format(n.value)
}
