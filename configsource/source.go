package configsource

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"time"
)

// Source is where a configuration comes from: [File], [Env], [Static], [Func], an
// [Overlay] of several, or one's own. Sources of this package hold no state: one may
// serve several clients, and until it is watched it has nothing open.
type Source interface {
	// Load reads the whole configuration once. The error holds every problem; see
	// [Problems].
	Load(ctx context.Context) (*Update, error)
	// Watch tells publish of every reading that differs from since, or from the one
	// before, until ctx ends or the source fails for good; its error is why. It calls
	// publish from one goroutine at a time, the one it was called by if it can, and
	// readings that come while publish runs are folded into the newest one: what is
	// published never goes back. A nil since is like no reading, so that the first one
	// is published.
	//
	// What cannot be used is published as an error, once for each edit, and the next
	// good reading is published even if it is the last good one again. When Watch has
	// returned, publish is not called any more and nothing is left open.
	Watch(ctx context.Context, since *Update, publish func(*Update, error)) error
}

// Overlay puts sources on top of each other: what a later one says counts. Objects
// are joined key by key. Lists are replaced whole, but for the elements that [Env]
// names by position. Only the result has to be valid. A nil source is left out.
//
// Of a Source of another package the Load is used, whenever its Watch publishes.
func Overlay(sources ...Source) Source {
	var all stack
	for _, s := range sources {
		switch s := s.(type) {
		case nil:
		case source:
			all = append(all, s.stack...)
		default:
			all = append(all, foreign{s})
		}
	}
	return source{all}
}

// source is a Source of this package: layers from the bottom up.
type source struct{ stack }

// Load implements Source.
func (s source) Load(ctx context.Context) (*Update, error) {
	readings, err := s.readAll(ctx)
	if err != nil {
		return nil, err
	}
	return assemble(readings)
}

// Watch implements Source.
func (s source) Watch(ctx context.Context, since *Update, publish func(*Update, error)) error {
	return s.watch(ctx, since, publish)
}

// stack is readers, of which later ones count.
type stack []reader

// reader is one layer's origin.
type reader interface {
	// read reads it now.
	read(ctx context.Context) (reading, error)
	// wake calls notify whenever what read gives may have changed, until ctx ends. It
	// may do so for nothing. An error ends the watch; the end of ctx is none.
	wake(ctx context.Context, notify func()) error
}

// reading is what a reader gave once. Equal hashes mean that nothing changed.
type reading struct {
	layer  layer
	hash   [sha256.Size]byte
	settle time.Duration // for how long a change has to stay as it is; 0 if none is ever half done
}

// layer adds what it says to what the layers below say.
type layer interface {
	onto(below *node, r *report) *node
}

func (s stack) readAll(ctx context.Context) ([]reading, error) {
	readings := make([]reading, len(s))
	for i, reader := range s {
		var err error
		if readings[i], err = reader.read(ctx); err != nil {
			return nil, err
		}
	}
	return readings, nil
}

func joinHashes(readings []reading) [sha256.Size]byte {
	if len(readings) == 1 {
		return readings[0].hash
	}
	h := sha256.New()
	for i := range readings {
		h.Write(readings[i].hash[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// treeLayer is a layer that was read before.
type treeLayer struct{ tree *node }

func (l treeLayer) onto(below *node, _ *report) *node { return l.tree.over(below) }

// readingOf is a Config of code.
func readingOf(c *Config, origin string) reading {
	tree := encode(c, origin)
	h := sha256.New()
	tree.write(h)
	return reading{layer: treeLayer{tree}, hash: [sha256.Size]byte(h.Sum(nil))}
}

func (n *node) write(h hash.Hash) {
	switch n.kind {
	case nodeObject:
		fmt.Fprintf(h, "{%d", len(n.members))
		for _, m := range n.members {
			fmt.Fprintf(h, "%q:", m.key)
			m.node.write(h)
		}
	case nodeList:
		fmt.Fprintf(h, "[%d", len(n.items))
		for _, item := range n.items {
			item.write(h)
		}
	default:
		fmt.Fprintf(h, "%T%q;", n.value, n.text())
	}
}

// foreign is a Source of another package as a layer.
type foreign struct{ Source }

func (f foreign) read(ctx context.Context) (reading, error) {
	u, err := f.Load(ctx)
	if err != nil {
		return reading{}, err
	}
	return reading{layer: treeLayer{u.tree}, hash: u.hash}, nil
}

func (f foreign) wake(ctx context.Context, notify func()) error {
	err := f.Watch(ctx, nil, func(*Update, error) { notify() })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func wait(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
