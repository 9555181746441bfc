package configsource

import (
	"encoding/hex"
	"reflect"
	"strings"
)

// Update is one complete, valid reading of a source. It is immutable and may be
// used concurrently.
type Update struct {
	config Config
	tree   *node
	hash   [32]byte
}

// NewUpdate makes the Update of a Config for a Source of one's own. origin names
// the source in problems. The error is that of [Config.Validate].
func NewUpdate(c Config, origin string) (*Update, error) {
	return assemble([]reading{readingOf(&c, origin)})
}

// Config is the caller's own copy of what was said. [Config.WithDefaults] adds what
// was not.
func (u *Update) Config() Config { return u.config.Clone() }

// Hash tells whether two readings came from the same bytes: those of the files and
// variables, or the Config of code.
func (u *Update) Hash() string { return hex.EncodeToString(u.hash[:8]) }

// Same says whether both are from the same bytes. A nil Update is like no other.
func (u *Update) Same(other *Update) bool {
	return u != nil && other != nil && u.hash == other.hash
}

// Place is where the value of a path such as groups[1].targets[0] came from. It is
// false if nothing was said about it.
func (u *Update) Place(path string) (Place, bool) {
	n := u.tree
	for part := range strings.SplitSeq(strings.ReplaceAll(path, "[", ".["), ".") {
		if part == "" {
			continue
		}
		if n = n.step(part); n == nil {
			return Place{}, false
		}
	}
	return n.place, true
}

// step is the member, or in brackets the item, that a part of a path names.
func (n *node) step(part string) *node {
	index, isIndex := strings.CutPrefix(part, "[")
	if !isIndex {
		return n.find(part)
	}
	i, ok := parseText(kindInt, strings.TrimSuffix(index, "]"))
	if !ok || i.(int) < 0 || i.(int) >= len(n.items) {
		return nil
	}
	return n.items[i.(int)]
}

// Equal says whether both say the same, whatever they were read from.
func (c Config) Equal(other Config) bool { return reflect.DeepEqual(c, other) }

// assemble puts readings on top of each other and makes an Update of the result, or
// an error of everything that is wrong with it. Where a layer cannot be read at all,
// only that is said.
func assemble(readings []reading) (*Update, error) {
	r := &report{}
	var tree *node
	for _, reading := range readings {
		tree = reading.layer.onto(tree, r)
	}
	if r.unreadable {
		return nil, r.err()
	}
	if tree == nil {
		tree = &node{kind: nodeObject}
	}
	u := &Update{tree: tree, hash: joinHashes(readings)}
	u.config = decode(tree, r)
	u.config.validate(r, tree)
	if err := r.err(); err != nil {
		return nil, err
	}
	return u, nil
}
