package configsource

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// locateJSON finds the keys and lines of one JSON value.
func locateJSON(data []byte, origin string) (*node, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // no number is too large to be located
	l := jsonLocator{Decoder: d, data: data, place: Place{origin, 1}}
	n, err := l.value()
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object; a file holds one")
	}
	return n, nil
}

type jsonLocator struct {
	*json.Decoder
	data  []byte
	place Place // of the last token
	until int   // what of data its line counts
}

func (l *jsonLocator) next() (json.Token, error) {
	t, err := l.Token()
	now := int(l.InputOffset())
	l.place.Line += bytes.Count(l.data[l.until:now], []byte("\n"))
	l.until = now
	return t, err
}

func (l *jsonLocator) value() (*node, error) {
	t, err := l.next()
	if err != nil {
		return nil, err
	}
	n := &node{kind: nodeScalar, place: l.place}
	switch t {
	case nil:
		n.kind = nodeNull
	case json.Delim('['):
		n.kind = nodeList
		for l.More() {
			item, err := l.value()
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
		_, err = l.next()
	case json.Delim('{'):
		n.kind = nodeObject
		for l.More() {
			key, err := l.next()
			if err != nil {
				return nil, err
			}
			place := l.place
			inner, err := l.value()
			if err != nil {
				return nil, err
			}
			text, _ := key.(string)
			n.members = append(n.members, member{text, place, inner})
		}
		_, err = l.next()
	}
	return n, err
}
