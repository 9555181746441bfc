package debug_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/slicewire/slicewire/telemetry/debug"
)

// TestNamesAreText: whatever names, errors and keys hold, it is text on each page.
func TestNamesAreText(t *testing.T) {
	h := debug.NewHandler(&fixed{tag: evil, slices: 10})
	tags := regexp.MustCompile(`(?i)<[/!]?([a-z]+)`)
	handlers := regexp.MustCompile(`(?i)\son[a-z]+\s*=|javascript:|style=|src=`)
	for name, w := range everyPage(t, h, "html") {
		body := w.Body.String()
		if w.Code != http.StatusOK {
			t.Errorf("page %q: %d: %s", name, w.Code, body)
		}
		if !strings.Contains(body, "alert(") {
			t.Errorf("page %q does not show the names", name)
		}
		for _, m := range tags.FindAllStringSubmatch(body, -1) {
			switch tag := strings.ToLower(m[1]); tag {
			case "script", "iframe", "object", "embed", "img", "style", "base":
				t.Errorf("page %q has an element %s", name, tag)
			}
		}
		if m := handlers.FindString(body); m != "" {
			t.Errorf("page %q has %q", name, m)
		}
	}
}

// TestTwins: all that is in the JSON of a page is on the page.
func TestTwins(t *testing.T) {
	h := debug.NewHandler(&fixed{tag: evil, slices: 10})
	pages, twins := everyPage(t, h, "html"), everyPage(t, h, "json")
	for name, w := range twins {
		var all map[string]any
		d := json.NewDecoder(w.Body)
		d.UseNumber()
		if err := d.Decode(&all); err != nil || w.Header().Get("Content-Type") != "application/json" {
			t.Fatalf("page %q: %v, %v", name, err, w.Header())
		}
		delete(all, "at")
		delete(all, "page")
		body := html.UnescapeString(pages[name].Body.String())
		facts := 0
		var look func(path string, v any)
		look = func(path string, v any) {
			switch v := v.(type) {
			case map[string]any:
				for k, v := range v {
					look(path+"."+k, v)
				}
			case []any:
				for i, v := range v {
					look(fmt.Sprintf("%s[%d]", path, i), v)
				}
			case string, json.Number:
				if facts++; strings.HasSuffix(path, ".hex") || strings.HasSuffix(path, ".start.bytes") || strings.HasSuffix(path, ".end.bytes") || strings.HasSuffix(path, ".size") {
					break // of what is easily read, and is not said twice
				}
				if !strings.Contains(body, fmt.Sprint(v)) {
					t.Errorf("page %q does not have %s, %v", name, path, v)
				}
			}
		}
		look("", all["data"])
		if facts == 0 && name != "key" {
			t.Errorf("page %q: no facts", name)
		}
	}
}

// TestHeaders: nothing is stored, run, framed or sent elsewhere; errors too.
func TestHeaders(t *testing.T) {
	h := debug.NewHandler(&fixed{slices: 10})
	answers := everyPage(t, h, "html")
	answers["no such page"] = get(t, h, "nothing")
	answers["stylesheet"] = get(t, h, "style.css")
	for name, w := range answers {
		for header, want := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
		} {
			if got := w.Header().Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", name, header, got, want)
			}
		}
		csp := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "script-src") {
			t.Errorf("%s: Content-Security-Policy is %q", name, csp)
		}
	}
	if w := answers["stylesheet"]; !strings.HasPrefix(w.Header().Get("Content-Type"), "text/css") || w.Body.Len() == 0 {
		t.Errorf("stylesheet: %v, %d bytes", w.Header(), w.Body.Len())
	}
}

// TestAnyPrefix: the pages work wherever they are mounted, since all links are
// relative.
func TestAnyPrefix(t *testing.T) {
	h := debug.NewHandler(&fixed{tag: evil, slices: 500})
	mux := http.NewServeMux()
	mux.Handle("/debug/slicewire/", h)
	mux.Handle("/", h)
	mux.Handle("/stripped/", http.StripPrefix("/stripped/", h))
	mux.Handle("/bare/", http.StripPrefix("/bare", h))
	server := httptest.NewServer(mux)
	defer server.Close()
	links := regexp.MustCompile(`(?:href|action)="([^"]*)"`)
	for _, prefix := range []string{"/debug/slicewire/", "/", "/bare/"} {
		seen := map[string]bool{}
		var visit func(at *url.URL)
		visit = func(at *url.URL) {
			if seen[at.String()] || len(seen) > 60 {
				return
			}
			seen[at.String()] = true
			res, err := http.Get(at.String())
			if err != nil {
				t.Fatal(err)
			}
			var body bytes.Buffer
			_, _ = body.ReadFrom(res.Body)
			_ = res.Body.Close()
			if res.StatusCode != http.StatusOK && !strings.Contains(at.RawQuery, "spare") { // which has left
				t.Errorf("%s: %s", at, res.Status)
			}
			for _, m := range links.FindAllStringSubmatch(body.String(), -1) {
				link, err := at.Parse(html.UnescapeString(m[1]))
				if err != nil || !strings.HasPrefix(link.Path, prefix) || link.Host != at.Host {
					t.Errorf("%s links to %q, %v", at, m[1], err)
					continue
				}
				visit(link)
			}
		}
		root, _ := url.Parse(server.URL + prefix)
		visit(root)
		if len(seen) < 20 {
			t.Errorf("prefix %s: visited only %d pages", prefix, len(seen))
		}
	}
	t.Run("without a slash", func(t *testing.T) {
		w := httptest.NewRecorder()
		http.StripPrefix("/debug/slicewire", h).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/slicewire", nil))
		if w.Code != http.StatusFound || w.Header().Get("Location") != "slicewire/" {
			t.Errorf("%d to %q", w.Code, w.Header().Get("Location"))
		}
	})
}

// TestRefused: what cannot be answered is the asker's mistake, and says what is
// allowed.
func TestRefused(t *testing.T) {
	h := debug.NewHandler(&fixed{slices: 100})
	for _, tt := range []struct {
		method, page string
		code         int
		says         string
	}{
		{"GET", "nothing", 404, "there are the overview, endpoints"},
		{"GET", "endpoints?format=xml", 400, "html and json"},
		{"GET", "slices?from=x", 400, "number from 0"},
		{"GET", "slices?from=-1", 400, "number from 0"},
		{"GET", "slices?from=%2B1", 400, "number from 0"},
		{"GET", "slices?from=99999999999999999999", 400, "number from 0"},
		{"GET", "slices?from=100", 404, "there are 100"},
		{"GET", "slices?n=0", 400, "number from 1"},
		{"GET", "slices?n=1001", 400, "number from 1"},
		{"GET", "endpoints?from=7", 404, "there are 7"},
		{"GET", "endpoints?state=SLEEPY", 400, "READY"},
		{"GET", "endpoints?target=elsewhere", 404, "there is no such target"},
		{"GET", "endpoints?target=spare", 404, "left"},
		{"GET", "slices?from=%zz", 400, "cannot be read"},
		{"GET", "slices?from=1;n=2", 400, "cannot be read"},
		{"POST", "endpoints", 405, "GET, HEAD"},
		{"PUT", "key", 405, "GET, HEAD, POST"},
		{"DELETE", "", 405, "GET, HEAD"},
		{"POST", "style.css", 404, "no such page"},
	} {
		for _, format := range []string{"html", "json"} {
			page := tt.page
			if !strings.Contains(page, "format") {
				page += map[bool]string{true: "&", false: "?"}[strings.Contains(page, "?")] + "format=" + format
			}
			r := httptest.NewRequest(tt.method, "/"+page, strings.NewReader(""))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tt.code || !strings.Contains(html.UnescapeString(w.Body.String()), tt.says) {
				t.Errorf("%s %s: %d, %s", tt.method, page, w.Code, w.Body)
			}
			if tt.code == 405 && !strings.Contains(w.Header().Get("Allow"), "GET") {
				t.Errorf("%s %s: Allow is %q", tt.method, page, w.Header().Get("Allow"))
			}
		}
	}
}

func TestHead(t *testing.T) {
	h := debug.NewHandler(&fixed{})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/endpoints", nil))
	if w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "0" {
		t.Errorf("%d, %d bytes, %v", w.Code, w.Body.Len(), w.Header())
	}
}

// TestWindows: parts of lists, and the links between them.
func TestWindows(t *testing.T) {
	h := debug.NewHandler(&fixed{slices: 1_000_000})
	w := get(t, h, "slices?from=999990&n=20")
	body := w.Body.String()
	for _, want := range []string{"999990 to 1000000 (not included) of 1000000", `"999999"`, "the end", "from=999970"} {
		if !strings.Contains(html.UnescapeString(body), want) {
			t.Errorf("the last page lacks %q", want)
		}
	}
	if strings.Contains(body, `rel="next"`) {
		t.Error("the last page has a next one")
	}
	if n := testing.AllocsPerRun(3, func() { get(t, h, "slices?from=500000") }); n > 20_000 {
		t.Errorf("a page of 50 slices of 1,000,000 costs %v allocations", n)
	}
	w = post(t, h, "slices?target=main", url.Values{"start": {"777777"}})
	if body := w.Body.String(); !strings.Contains(body, "The key is in slice <strong>777777</strong>") || !strings.Contains(body, "777777 to 777827") {
		t.Errorf("slice 777777 was not found: %d", w.Code)
	}
	w = get(t, h, "endpoints?state=IDLE&n=1")
	if body := w.Body.String(); !strings.Contains(body, "0 to 1 (not included) of 2") || !strings.Contains(html.UnescapeString(body), "?from=1&n=1&state=IDLE") {
		t.Errorf("endpoints that are idle: %s", body)
	}
	if body := get(t, debug.NewHandler(&fixed{}), "slices").Body.String(); !strings.Contains(body, "has no assignment") {
		t.Errorf("without slices: %s", body)
	}
}

func TestEvents(t *testing.T) {
	var e debug.Events
	if len(e.Newest()) != 0 {
		t.Error("events before the first")
	}
	for i := range 3*debug.KeptEvents + 7 {
		e.Add(debug.Event{Kind: fmt.Sprint(i), Details: []debug.Attribute{{Name: "error", Value: strings.Repeat("é", 2000)}}})
		all := e.Newest()
		if len(all) != min(i+1, debug.KeptEvents) || all[0].Kind != fmt.Sprint(i) || all[len(all)-1].Kind != fmt.Sprint(i+1-len(all)) {
			t.Fatalf("after event %d there are %d, %s to %s", i, len(all), all[0].Kind, all[len(all)-1].Kind)
		}
	}
	if v := e.Newest()[0].Details[0].Value; len(v) > 1100 || !strings.HasSuffix(v, "é…") || e.Newest()[0].At.IsZero() {
		t.Errorf("an event of %d bytes at %v", len(v), e.Newest()[0].At)
	}
	n := len(e.Newest())
	for _, kind := range []string{"down", "down", "down", "up", "down"} {
		e.Add(debug.Event{At: later, Kind: kind})
	}
	all := e.Newest()
	if all[0].Kind != "down" || all[0].Again != 0 || all[1].Kind != "up" || all[2].Kind != "down" || all[2].Again != 2 || !all[2].Latest.Equal(later) || len(all) != n {
		t.Errorf("what came three times, was over and came again is %+v", all[:4])
	}
}
