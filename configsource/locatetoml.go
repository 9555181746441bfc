package configsource

import (
	"github.com/pelletier/go-toml/v2/unstable"
)

// locateTOML finds the keys and lines of a TOML document. The parser that viper
// uses has read it before, so it is well formed.
func locateTOML(data []byte, origin string) (*node, error) {
	l := tomlLocator{origin: origin}
	l.Reset(data)
	top := &node{kind: nodeObject, place: Place{origin, 1}}
	table := top
	for l.NextExpression() {
		e := l.Expression()
		switch e.Kind {
		case unstable.Table:
			keys := l.keys(e.Key())
			table = l.descend(top, keys)
		case unstable.ArrayTable:
			keys := l.keys(e.Key())
			last := keys[len(keys)-1]
			list := l.enter(l.descend(top, keys[:len(keys)-1]), last, nodeList)
			table = &node{kind: nodeObject, place: last.place}
			list.items = append(list.items, table)
		case unstable.KeyValue:
			l.keyValue(table, e)
		}
	}
	return top, l.Error()
}

type tomlLocator struct {
	unstable.Parser
	origin string
}

// tomlKey is one part of a dotted key.
type tomlKey struct {
	text  string
	place Place
}

func (l *tomlLocator) keys(parts unstable.Iterator) []tomlKey {
	var keys []tomlKey
	for parts.Next() {
		n := parts.Node()
		keys = append(keys, tomlKey{string(n.Data), Place{l.origin, l.Shape(n.Raw).Start.Line}})
	}
	return keys
}

// descend goes from a table to the one that keys name. Of a list of tables it is in
// the last one, as TOML has it.
func (l *tomlLocator) descend(table *node, keys []tomlKey) *node {
	for _, k := range keys {
		table = l.enter(table, k, nodeObject)
		if table.kind == nodeList && len(table.items) > 0 {
			table = table.items[len(table.items)-1]
		}
	}
	return table
}

// enter is the member of a table, made if it is not there.
func (l *tomlLocator) enter(table *node, k tomlKey, as nodeKind) *node {
	if n := table.find(k.text); n != nil {
		return n
	}
	n := &node{kind: as, place: k.place}
	table.members = append(table.members, member{k.text, k.place, n})
	return n
}

func (l *tomlLocator) keyValue(table *node, e *unstable.Node) {
	keys := l.keys(e.Key())
	last := keys[len(keys)-1]
	table = l.descend(table, keys[:len(keys)-1])
	table.members = append(table.members, member{last.text, last.place, l.value(e.Value(), last.place)})
}

// value is a value that began in the line of near, or after it.
func (l *tomlLocator) value(v *unstable.Node, near Place) *node {
	n := &node{kind: nodeScalar, place: near}
	if v.Raw.Length > 0 {
		n.place.Line = max(near.Line, l.Shape(v.Raw).Start.Line)
	}
	switch v.Kind {
	case unstable.Array:
		n.kind = nodeList
		for items := v.Children(); items.Next(); {
			n.items = append(n.items, l.value(items.Node(), near))
		}
	case unstable.InlineTable:
		n.kind = nodeObject
		for members := v.Children(); members.Next(); {
			l.keyValue(n, members.Node())
		}
	}
	return n
}
