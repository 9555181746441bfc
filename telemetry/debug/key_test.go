package debug_test

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/slicewire/slicewire/telemetry/debug"
)

func TestParseKey(t *testing.T) {
	for _, tt := range []struct{ typed, encoding, want string }{
		{"", "text", ""},
		{" a b ", "text", " a b "},
		{"", "hex", ""},
		{"0x", "hex", ""},
		{"0xC0ffee", "hex", "\xc0\xff\xee"},
		{" c0 ff\tee\n", "hex", "\xc0\xff\xee"},
		{"", "base64", ""},
		{"+/+/", "base64", "\xfb\xff\xbf"},
		{"-_-_", "base64", "\xfb\xff\xbf"},
		{"YQ==", "base64", "a"},
		{"YQ", "base64", "a"},
	} {
		if got, err := debug.ParseKey(tt.typed, tt.encoding); err != nil || got != tt.want {
			t.Errorf("ParseKey(%q, %s) = %q, %v; want %q", tt.typed, tt.encoding, got, err, tt.want)
		}
	}
	for _, tt := range []struct{ typed, encoding string }{
		{"zq", "hex"},
		{"zq0", "hex"},
		{"zq!", "base64"},
		{"zq", "rot13"},
		{"zq", ""},
	} {
		if got, err := debug.ParseKey(tt.typed, tt.encoding); err == nil || strings.Contains(err.Error(), "zq") {
			t.Errorf("ParseKey(%q, %q) = %q, %v", tt.typed, tt.encoding, got, err)
		}
	}
}

func TestShowKey(t *testing.T) {
	if k := debug.ShowKey([]byte("plain")); k.Text != `"plain"` || k.Hex != "706c61696e" || k.Bytes != 5 || k.Clipped() || !k.Plain() {
		t.Errorf("%+v", k)
	}
	if k := debug.ShowKey([]byte("\x00\xff\u202e")); k.Plain() || strings.ContainsRune(k.Text, '\u202e') || k.Hex != "00ffe280ae" {
		t.Errorf("%+v", k)
	}
	if k := debug.ShowKey([]byte(strings.Repeat("é", 5000))); !k.Clipped() || k.Bytes != 10000 || len(k.Text) > 200 || len(k.Hex) != 256 {
		t.Errorf("%d bytes, %s", k.Bytes, k.Text)
	}
}

// TestKeyForm: what is typed reaches the source as the key it stands for.
func TestKeyForm(t *testing.T) {
	s := &fixed{slices: 10}
	h := debug.NewHandler(s)
	for _, tt := range []struct{ typed, encoding, want string }{
		{"naïve & <b>", "text", "naïve & <b>"},
		{"", "text", ""},
		{"no encoding", "", "no encoding"},
		{"00ff", "hex", "\x00\xff"},
		{"AP8=", "base64", "\x00\xff"},
	} {
		w := post(t, h, "key", url.Values{"key": {tt.typed}, "encoding": {tt.encoding}, "group": {"read"}, "target": {"spare"}, "selector": {"pool"}})
		if got, want := s.asked[len(s.asked)-1], (debug.Question{Group: "read", Target: "spare", Selector: "pool", Key: tt.want}); w.Code != http.StatusOK || got != want {
			t.Errorf("%d, asked %+v, want %+v", w.Code, got, want)
		}
		if body := w.Body.String(); !strings.Contains(body, "<option selected>read</option>") || !strings.Contains(body, `<option value="pool" selected>pool</option>`) {
			t.Error("the form forgets what was chosen")
		}
	}
	if w := post(t, h, "key", url.Values{"key": {"k"}, "selector": {"none"}}); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "no such selector") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// TestKeyIsNotSaid: the key that a person types is in no answer: not where it is
// good, nor in an error, whatever is wrong with the form.
func TestKeyIsNotSaid(t *testing.T) {
	const marker = "zq-marker-zq"
	s := &fixed{slices: 10}
	h := debug.NewHandler(s)
	form := func(values string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/key", strings.NewReader(values))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return r
	}
	typed := func(kind string) *http.Request {
		r := form("key=" + marker)
		r.Header.Set("Content-Type", kind)
		return r
	}
	search := form("start=" + marker)
	search.URL.Path = "/slices"
	other := form("key=" + marker)
	other.URL.Path = "/events"
	for _, tt := range []struct {
		name string
		r    *http.Request
		code int
	}{
		{"good", form("key=" + marker), 200},
		{"slice search", search, 200},
		{"not hex", form("encoding=hex&key=" + marker), 400},
		{"not base64", form("encoding=base64&key=!" + marker), 400},
		{"no such encoding", form("encoding=zip&key=" + marker), 400},
		{"another field", form("keys=" + marker), 400},
		{"a bad escape", form("key=" + marker + "%zz"), 400},
		{"a semicolon", form("key=" + marker + ";x=1"), 400},
		{"too long", form("key=" + strings.Repeat(marker, 30_000)), 413},
		{"in the URL", httptest.NewRequest(http.MethodGet, "/key?key="+marker, nil), 400},
		{"in the URL of a POST", httptest.NewRequest(http.MethodPost, "/key?key="+marker, nil), 400},
		{"start in the URL", httptest.NewRequest(http.MethodGet, "/slices?start="+marker, nil), 400},
		{"a page without a form", other, 405},
		{"JSON", typed("application/json"), 415},
		{"multipart", typed("multipart/form-data; boundary=x"), 415},
		{"no type", typed(""), 415},
		{"a type that is none", typed(marker), 415},
	} {
		for _, format := range []string{"", "json"} {
			t.Run(tt.name+format, func(t *testing.T) {
				r := tt.r.Clone(t.Context())
				if tt.r.GetBody == nil && tt.r.Body != nil && format == "" {
					// The body can be read once: keep it for the other format.
					var b strings.Builder
					buf := make([]byte, 1<<20)
					for {
						n, err := tt.r.Body.Read(buf)
						b.Write(buf[:n])
						if err != nil {
							break
						}
					}
					body := b.String()
					tt.r.GetBody = nil
					r.Body = http.NoBody
					if body != "" {
						r = httptest.NewRequest(tt.r.Method, tt.r.URL.String(), strings.NewReader(body))
						r.Header = tt.r.Header
						bodies[tt.name] = body
					}
				} else if body := bodies[tt.name]; body != "" {
					u := *tt.r.URL
					q := u.Query()
					q.Set("format", "json")
					u.RawQuery = q.Encode()
					r = httptest.NewRequest(tt.r.Method, u.String(), strings.NewReader(body))
					r.Header = tt.r.Header
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != tt.code {
					t.Errorf("%d, want %d: %s", w.Code, tt.code, w.Body)
				}
				if strings.Contains(w.Body.String(), "zq-mark") {
					t.Errorf("the answer has the key: %s", w.Body)
				}
				for name, values := range w.Header() {
					if strings.Contains(strings.Join(values, " "), "zq-mark") {
						t.Errorf("header %s has the key", name)
					}
				}
				if r.Form != nil || r.PostForm != nil {
					t.Error("the form is in the request, where others may log it")
				}
			})
		}
	}
	for name, w := range everyPage(t, h, "html") {
		if strings.Contains(w.Body.String(), "zq-mark") {
			t.Errorf("page %q has a key that was asked for", name)
		}
	}
}

var bodies = map[string]string{}

// FuzzParseKey: every key can be typed in hex and base64, as text if it is UTF-8,
// and nothing that is typed is quoted by an error.
func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"", "a", "00", "0x00ff", "_-8=", "\xff", " a b "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for encoding, typed := range map[string]string{
			"text": s, "hex": hex.EncodeToString([]byte(s)), "base64": base64.StdEncoding.EncodeToString([]byte(s)),
		} {
			if got, err := debug.ParseKey(typed, encoding); err != nil || got != s {
				t.Errorf("%q typed as %s is %q, %v", s, encoding, got, err)
			}
		}
		for _, encoding := range debug.Encodings {
			if _, err := debug.ParseKey(s, encoding); err != nil && len(s) > 12 && strings.Contains(err.Error(), s) {
				t.Errorf("the error quotes the key: %v", err)
			}
		}
		if k := debug.ShowKey([]byte(s)); !utf8.ValidString(k.Text) || k.Bytes != len(s) {
			t.Errorf("%q is shown as %+v", s, k)
		}
	})
}

// FuzzRequest: whatever is asked is answered, and a mistake is the asker's.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "slices", "from=10&n=5", "")
	f.Add("POST", "key", "format=json", "key=a&encoding=hex")
	f.Add("POST", "slices", "target=main", "start=5")
	f.Add("PATCH", "", "format=", "%")
	f.Add("GET", "endpoints", "state=READY&target=spare&from=-0", "")
	h := debug.NewHandler(&fixed{slices: 100})
	f.Fuzz(func(t *testing.T, method, page, query, body string) {
		r, err := http.NewRequest(method, "/x/", strings.NewReader(body))
		if err != nil {
			t.Skip()
		}
		r.URL.Path, r.URL.RawQuery = "/x/"+page, query
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 && (w.Code < 400 || w.Code > 499) {
			t.Errorf("%s %q?%q with %q: %d", method, page, query, body, w.Code)
		}
		if w.Header().Get("Cache-Control") != "no-store" {
			t.Error("the answer may be stored")
		}
	})
}
