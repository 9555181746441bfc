package debug

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed pages
var files embed.FS

// Handler serves the pages of a Source below whatever path it is mounted at, which
// has to end in a slash: all links are relative. It changes nothing.
//
//	mux.Handle("/debug/slicewire/", handler)
//
// Pages show names, addresses and errors, and two of them keys. Mount it where only
// operators come.
type Handler struct{ source Source }

// NewHandler makes a Handler.
func NewHandler(s Source) *Handler { return &Handler{s} }

// page is one page.
type page struct {
	// name is the last part of its path, "" for the first one.
	name, title string
	// show answers a GET, post a POST; nil where there is none.
	show, post func(*Handler, *request) (any, error)
	body       *template.Template
}

var pages = []*page{
	{name: "", title: "Overview", show: (*Handler).overview},
	{name: "endpoints", title: "Endpoints", show: (*Handler).endpoints},
	{name: "selectors", title: "Selectors", show: (*Handler).selectors},
	{name: "slices", title: "Slices", show: (*Handler).slices, post: (*Handler).findSlice},
	{name: "key", title: "Where does a key go?", show: (*Handler).keyForm, post: (*Handler).explain},
	{name: "stream", title: "Sharding stream", show: (*Handler).stream},
	{name: "config", title: "Configuration", show: (*Handler).config},
	{name: "events", title: "Events", show: (*Handler).events},
}

const stylesheet = "style.css"

var (
	failure *template.Template
	style   []byte
)

func init() {
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(files, "pages/layout.html", "pages/parts.html"))
	parse := func(name string) *template.Template {
		return template.Must(template.Must(layout.Clone()).ParseFS(files, "pages/"+name+".html"))
	}
	for _, p := range pages {
		p.body = parse(p.file())
	}
	failure = parse("failure")
	style, _ = files.ReadFile("pages/" + stylesheet)
}

func (p *page) file() string {
	if p.name == "" {
		return "overview"
	}
	return p.name
}

// Link is a link to the page, from any other.
func (p *page) Link() string {
	if p.name == "" {
		return "./"
	}
	return p.name
}

// Title is what the page is called.
func (p *page) Title() string { return p.title }

// shown is what templates are given, and, but for the first two, what JSON has.
type shown struct {
	Page  *page   `json:"-"`
	Pages []*page `json:"-"`

	Name  string    `json:"page"`
	At    time.Time `json:"at"`
	Error *fault    `json:"error,omitempty"`
	Data  any       `json:"data,omitempty"`
}

// fault is an error of whoever asks.
type fault struct {
	Status int    `json:"status"`
	Text   string `json:"text"`
}

func (f *fault) Error() string { return f.Text }

func wrong(status int, format string, args ...any) error {
	return &fault{status, fmt.Sprintf(format, args...)}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if r.URL.Path == "" {
		// Mounted without a slash, as by StripPrefix: relative links would lead astray.
		at, _, _ := strings.Cut(r.RequestURI, "?")
		w.Header().Set("Location", path.Base(at)+"/")
		w.WriteHeader(http.StatusFound)
		return
	}
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if name == stylesheet && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		write(w, r, http.StatusOK, "text/css; charset=utf-8", style)
		return
	}
	out := &shown{Pages: pages, At: time.Now().UTC()}
	status := http.StatusOK
	req, err := newRequest(w, r)
	asJSON := req != nil && req.json
	if err == nil {
		out.Data, err = h.answer(name, req, out, w.Header())
	}
	if err != nil {
		f, ok := err.(*fault) //nolint:errorlint // faults are made here and not wrapped
		if !ok {
			f = &fault{http.StatusBadRequest, err.Error()}
		}
		out.Error, out.Data, status = f, nil, f.Status
	}
	var body bytes.Buffer
	kind := "text/html; charset=utf-8"
	switch {
	case asJSON:
		kind = "application/json"
		e := json.NewEncoder(&body)
		e.SetIndent("", "  ")
		err = e.Encode(out)
	case out.Error != nil:
		err = failure.Execute(&body, out)
	default:
		err = out.Page.body.Execute(&body, out)
	}
	if err != nil {
		// What is wrong with a template is in its tests; the data may hold a key.
		status, kind = http.StatusInternalServerError, "text/plain; charset=utf-8"
		body.Reset()
		body.WriteString("the page could not be made\n")
	}
	write(w, r, status, kind, body.Bytes())
}

// answer finds the page and has it answer.
func (h *Handler) answer(name string, r *request, out *shown, header http.Header) (any, error) {
	i := slices.IndexFunc(pages, func(p *page) bool { return p.name == name })
	if i < 0 {
		var known []string
		for _, p := range pages[1:] {
			known = append(known, p.name)
		}
		return nil, wrong(http.StatusNotFound, "there is no such page; there are the overview, %s", strings.Join(known, ", "))
	}
	p := pages[i]
	out.Page, out.Name = p, p.file()
	show := p.show
	switch r.method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		show = p.post
	default:
		show = nil
	}
	if show == nil {
		allowed := "GET, HEAD"
		if p.post != nil {
			allowed += ", POST"
		}
		header.Set("Allow", allowed)
		return nil, wrong(http.StatusMethodNotAllowed, "the method is not allowed here; allowed are %s", allowed)
	}
	return show(h, r)
}

// secure sets what every answer has: it is not stored, and a browser runs, frames
// and sends nothing of it elsewhere.
func secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

func write(w http.ResponseWriter, r *http.Request, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // whoever asked has gone
	}
}
