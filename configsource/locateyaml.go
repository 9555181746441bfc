package configsource

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// locateYAML finds the keys and lines of one YAML document.
func locateYAML(data []byte, origin string) (*node, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil // comments alone
		}
		return nil, err
	}
	// A parser that reads the first document alone would leave the rest unsaid.
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("line %d: a second document begins; a file holds one", more.Line)
	}
	l := yamlLocator{origin: origin, done: make(map[*yaml.Node]*node)}
	return l.locate(&doc), nil
}

// yamlLocator walks a document. What an alias refers to is walked once, so that
// aliases of aliases cost no more than they are long; an alias of what it is in is
// refused by the parser before.
type yamlLocator struct {
	origin string
	done   map[*yaml.Node]*node
}

func (l *yamlLocator) locate(y *yaml.Node) *node {
	switch y.Kind {
	case yaml.DocumentNode:
		if len(y.Content) == 0 {
			return nil
		}
		return l.locate(y.Content[0])
	case yaml.AliasNode:
		n, ok := l.done[y.Alias]
		if !ok {
			l.done[y.Alias] = &node{} // of itself: null
			n = l.locate(y.Alias)
			l.done[y.Alias] = n
		}
		return n
	}
	n := &node{place: Place{l.origin, y.Line}}
	switch y.Kind {
	case yaml.SequenceNode:
		n.kind = nodeList
		n.items = make([]*node, len(y.Content))
		for i, c := range y.Content {
			n.items[i] = l.locate(c)
		}
	case yaml.MappingNode:
		n.kind = nodeObject
		l.mapping(n, y)
	case yaml.ScalarNode:
		if y.Tag != "!!null" {
			n.kind = nodeScalar
		}
	}
	return n
}

// mapping adds the members of y, then what it merges in ("<<") and does not have
// itself.
func (l *yamlLocator) mapping(n *node, y *yaml.Node) {
	n.members = make([]member, 0, len(y.Content)/2)
	var merged []*node
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], l.locate(y.Content[i+1])
		if key.Kind == yaml.ScalarNode && key.Tag == "!!merge" {
			if value.kind == nodeList {
				merged = append(merged, value.items...)
			} else {
				merged = append(merged, value)
			}
			continue
		}
		n.members = append(n.members, member{key.Value, Place{l.origin, key.Line}, value})
	}
	for _, from := range merged {
		for _, m := range from.members {
			if n.find(m.key) == nil {
				n.members = append(n.members, m)
			}
		}
	}
}
