package debug

import (
	"fmt"
	"net/http"
	"strconv"
)

// This file is the two pages that show keys: the bounds of slices. What a person
// types comes in the body of a POST, and is not shown again.

const (
	ownersInTable  = 8
	ownersOfOne    = 1000
	encodingByName = "encoding"
)

type slicesPage struct {
	targeted
	window
	Generation int64 `json:"generation"`
	InUse      bool  `json:"in_use"`
	// Assigned says that there is an assignment.
	Assigned bool    `json:"assigned"`
	Slices   []Slice `json:"slices"`
	// Found is the slice of the key that was looked for.
	Found *int `json:"found,omitempty"`

	Encodings []string `json:"-"`
	Encoding  string   `json:"-"`
}

// Holds says that the key that was looked for is in a slice.
func (p slicesPage) Holds(slice int) bool { return p.Found != nil && *p.Found == slice }

func (h *Handler) slices(r *request) (any, error) { return h.slicePage(r, nil) }

// findSlice shows the part of the table that begins with the slice of a key.
func (h *Handler) findSlice(r *request) (any, error) {
	key, err := r.key("start")
	if err != nil {
		return nil, err
	}
	return h.slicePage(r, &key)
}

func (h *Handler) slicePage(r *request, key *string) (any, error) {
	name, names, err := h.target(r)
	if err != nil {
		return nil, err
	}
	p := slicesPage{targeted: targeted{name, names.Targets}, Encodings: Encodings, Encoding: r.text(encodingByName)}
	all := h.source.Slices(name)
	if all == nil {
		p.window, err = r.window(0, slicesOnPage, "target")
		return p, err
	}
	if key != nil {
		found := all.Find(*key)
		p.Found = &found
		r.query.Set("from", strconv.Itoa(found))
	}
	p.Assigned, p.Generation, p.InUse = true, all.Generation(), all.InUse()
	if p.window, err = r.window(all.Len(), slicesOnPage, "target"); err != nil {
		return nil, err
	}
	p.Slices = make([]Slice, 0, p.End()-p.From)
	for i := p.From; i < p.End(); i++ {
		p.Slices = append(p.Slices, all.Slice(i, ownersInTable))
	}
	return p, nil
}

// key reads the key in a field of the form.
func (r *request) key(field string) (string, error) {
	if !r.form.Has(field) {
		return "", wrong(http.StatusBadRequest, "the form has no field %q; it may be empty, since the empty key is a key", field)
	}
	encoding := r.form.Get(encodingByName)
	if encoding == "" {
		encoding = Encodings[0]
	}
	key, err := ParseKey(r.form.Get(field), encoding)
	if err != nil {
		return "", wrong(http.StatusBadRequest, "%v", err)
	}
	return key, nil
}

type keyPage struct {
	Names     `json:"-"`
	Encodings []string `json:"-"`
	// What the form was filled in with, but for the key.
	Asked struct{ Group, Target, Selector, Encoding string } `json:"-"`

	// Bytes is how long the key is.
	Bytes  int          `json:"key_bytes"`
	Answer *Explanation `json:"answer"`
}

func (h *Handler) keyForm(r *request) (any, error) {
	p := &keyPage{Names: h.source.Names(), Encodings: Encodings}
	p.Asked.Group, p.Asked.Target, p.Asked.Selector = r.text("group"), r.text("target"), r.text("selector")
	p.Asked.Encoding = r.form.Get(encodingByName)
	return p, nil
}

func (h *Handler) explain(r *request) (any, error) {
	key, err := r.key("key")
	if err != nil {
		return nil, err
	}
	form, err := h.keyForm(r)
	if err != nil {
		return nil, err
	}
	p := form.(*keyPage)
	p.Bytes = len(key)
	p.Answer, err = h.source.Explain(Question{Group: p.Asked.Group, Target: p.Asked.Target, Selector: p.Asked.Selector, Key: key})
	if err != nil {
		return nil, wrong(http.StatusNotFound, "%v", err)
	}
	return p, nil
}

// Verdict is the answer in a few words.
func (e *Explanation) Verdict() string {
	switch e.Outcome {
	case "picked":
		return fmt.Sprintf("It goes to %q", e.Endpoint)
	case "queued":
		return "It waits"
	}
	return "It fails"
}
