package debug

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxForm bounds the body of a form, in bytes: a key of 64 KiB, with every byte
// written as three.
const maxForm = 256 << 10

// request is what was asked. Only a form can hold a key: it is read here and not put
// into the http.Request, where others may log it.
type request struct {
	method string
	query  url.Values
	form   url.Values // of a POST
	json   bool
}

func newRequest(w http.ResponseWriter, r *http.Request) (*request, error) {
	req := &request{method: r.Method}
	var err error
	if req.query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		return nil, wrong(http.StatusBadRequest, "the query of the URL cannot be read")
	}
	switch req.query.Get("format") {
	case "", "html":
	case "json":
		req.json = true
	default:
		return nil, wrong(http.StatusBadRequest, "there is no such format; allowed are html and json")
	}
	for _, name := range []string{"key", "start"} {
		if req.query.Has(name) {
			return req, wrong(http.StatusBadRequest, "a key belongs in the body of a POST, never in a URL, where logs keep it")
		}
	}
	if r.Method == http.MethodPost {
		return req, req.readForm(w, r)
	}
	return req, nil
}

// readForm reads the body. Its errors are not passed on: they quote it.
func (r *request) readForm(w http.ResponseWriter, in *http.Request) error {
	const wanted = "application/x-www-form-urlencoded"
	if kind, _, err := mime.ParseMediaType(in.Header.Get("Content-Type")); err != nil || kind != wanted {
		return wrong(http.StatusUnsupportedMediaType, "a form has to be sent as %s", wanted)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, in.Body, maxForm))
	if err != nil {
		if _, tooLarge := err.(*http.MaxBytesError); tooLarge { //nolint:errorlint // ReadAll does not wrap
			return wrong(http.StatusRequestEntityTooLarge, "the form has more than %d bytes", maxForm)
		}
		return wrong(http.StatusBadRequest, "the form did not come whole")
	}
	if r.form, err = url.ParseQuery(string(body)); err != nil {
		return wrong(http.StatusBadRequest, "the form cannot be read")
	}
	return nil
}

// text is a value of the form, else of the query.
func (r *request) text(name string) string {
	if r.form.Has(name) {
		return r.form.Get(name)
	}
	return r.query.Get(name)
}

// number reads a count from the query; fallback if it is not there.
func (r *request) number(name string, least, most, fallback int) (int, error) {
	text := r.query.Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most || strings.HasPrefix(text, "+") {
		return 0, wrong(http.StatusBadRequest, "the parameter %q is not a number from %d to %d", name, least, most)
	}
	return n, nil
}

// window is a part of a list.
type window struct {
	From int `json:"from"`
	Size int `json:"size"` // how many a page has
	All  int `json:"all"`
	// What links keep: the target, and others.
	query url.Values
}

// Most that a page shows.
const (
	mostRows     = 1000
	slicesOnPage = 50
)

// window reads which part of a list of so many is asked for.
func (r *request) window(all, size int, kept ...string) (w window, err error) {
	w.All, w.query = all, url.Values{}
	if w.From, err = r.number("from", 0, 1<<31-1, 0); err != nil {
		return w, err
	}
	if w.Size, err = r.number("n", 1, mostRows, size); err != nil {
		return w, err
	}
	if w.From >= all && w.From > 0 {
		return w, wrong(http.StatusNotFound, "number %d is not there: there are %d, from 0", w.From, all)
	}
	if r.query.Has("n") {
		kept = append(kept, "n")
	}
	for _, name := range kept {
		if v := r.text(name); v != "" {
			w.query.Set(name, v)
		}
	}
	return w, nil
}

// End is the number behind the last one shown.
func (w window) End() int { return min(w.From+w.Size, w.All) }

// link is a link to another part, "" if there is none.
func (w window) link(from int) string {
	if from == w.From || from < 0 || from >= w.All {
		return ""
	}
	w.query.Set("from", strconv.Itoa(from))
	return "?" + w.query.Encode()
}

// First, Previous, Next and End are links to other parts, "" where there is none.
func (w window) First() string { return w.link(0) }

// Previous is the part before.
func (w window) Previous() string {
	if w.From == 0 {
		return ""
	}
	return w.link(max(0, w.From-w.Size))
}

// Next is the part behind.
func (w window) Next() string { return w.link(w.From + w.Size) }

// Final is the last part.
func (w window) Final() string {
	return w.link(max(0, w.All-1) / w.Size * w.Size)
}

// target is the target asked for, else the default group's current one.
func (h *Handler) target(r *request) (string, Names, error) {
	names := h.source.Names()
	name := r.text("target")
	if name == "" {
		name = names.Target
	}
	if !slices.Contains(names.Targets, name) {
		return "", names, wrong(http.StatusNotFound, "there is no such target; there are %q", names.Targets)
	}
	return name, names, nil
}
