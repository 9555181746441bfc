package sdk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
	"github.com/slicewire/slicewire/telemetry/debug"
)

var debugPages = []string{"", "endpoints", "selectors", "slices", "key", "stream", "config", "events"}

// page asks for a debug page; with a form, by POST.
func page(t testing.TB, client *sdk.Client, at string, form ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/debug/slicewire/"+at, nil)
	if form != nil {
		values := url.Values{}
		for i := 0; i < len(form); i += 2 {
			values.Set(form[i], form[i+1])
		}
		r = httptest.NewRequest(http.MethodPost, "/debug/slicewire/"+at, strings.NewReader(values.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	client.DebugHandler().ServeHTTP(w, r)
	return w
}

// facts reads the data of a page's JSON into into.
func facts(t testing.TB, w *httptest.ResponseRecorder, into any) {
	t.Helper()
	var all struct {
		Error *struct{ Text string }
		Data  json.RawMessage
	}
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
	}
	if err := json.Unmarshal(all.Data, into); err != nil {
		t.Fatal(err)
	}
}

// whereTo asks where key goes.
func whereTo(t testing.TB, client *sdk.Client, form ...string) debug.Explanation {
	t.Helper()
	var a struct {
		Answer struct {
			debug.Explanation
			// Written as seconds, and of no interest here.
			Slice      *struct{ Number int }
			Candidates []struct{ Name string }
		}
	}
	facts(t, page(t, client, "key?format=json", form...), &a)
	e := a.Answer.Explanation
	if a.Answer.Slice != nil {
		e.Slice = &debug.Slice{Number: a.Answer.Slice.Number}
	}
	for _, c := range a.Answer.Candidates {
		e.Candidates = append(e.Candidates, debug.Endpoint{Name: c.Name})
	}
	return e
}

// TestDebugKey: the page sends a key where RPCs with it really go, in every way in
// which it may be typed, and says so of an owner that has failed.
func TestDebugKey(t *testing.T) {
	f := startQuick(t, testSharding(withFallback), []string{"a", "b"})
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
	for _, tt := range []struct{ key, typed, encoding, owner string }{
		{"alice", "alice", "text", "a"},
		{"zoe", "7a 6f 65", "hex", "b"},
		{"zoe", "em9l", "base64", "b"},
	} {
		eventually(t, "RPCs at the owner", func() bool { return f.who(t, tt.key) == tt.owner })
		e := whereTo(t, f.client, "key", tt.typed, "encoding", tt.encoding)
		if e.Outcome != "picked" || e.Endpoint != tt.owner || e.Slice == nil || e.Fallback != "" || !strings.Contains(e.Why, "READY owner") {
			t.Errorf("%q typed as %s: %+v, want owner %s", tt.typed, tt.encoding, e, tt.owner)
		}
	}
	before := f.Counts()
	f.Backend("b").Kill()
	eventually(t, "the failure of b", func() bool {
		_, _ = f.echo.Who(interceptors.WithKeyString(within(t, 10*time.Second), "zoe"), "") // may break with b's connection
		return whereTo(t, f.client, "key", "zoe").Fallback == "all_failing"
	})
	if got := f.who(t, "zoe"); got != "a" {
		t.Errorf("RPCs go to %q", got)
	}
	if e := whereTo(t, f.client, "key", "zoe"); e.Endpoint != "a" || !strings.Contains(e.Why, "every owner of the key's slice is failing") {
		t.Errorf("explained as %+v", e)
	}
	if n := f.Counts()["b"]; n != before["b"] {
		t.Errorf("asking sent %d RPCs", n-before["b"])
	}
	if w := page(t, f.client, "key", "key", "zoe"); !strings.Contains(w.Body.String(), "It goes to &#34;a&#34;") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	for _, form := range [][]string{{"group", "none"}, {"target", "none"}, {"selector", "none"}} {
		if w := page(t, f.client, "key", append(form, "key", marker)...); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), marker) {
			t.Errorf("%v: %d: %s", form, w.Code, w.Body)
		}
	}
}

// TestDebugPages: each page has what it is for, before an RPC, in use, and after
// Close.
func TestDebugPages(t *testing.T) {
	f := startQuick(t, testSharding(), []string{"a", "b"})
	for _, p := range debugPages { // the channel sleeps
		if w := page(t, f.client, p); w.Code != http.StatusOK {
			t.Errorf("page %q of an idle client: %d: %s", p, w.Code, w.Body)
		}
	}
	if s := f.client.Status().State; s != connectivity.Idle {
		t.Errorf("the pages woke the channel: %v", s)
	}
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
	f.who(t, "alice")
	if _, err := f.client.AddSelector("spread", selection.RoundRobin()); err != nil {
		t.Fatal(err)
	}
	f.client.SetEnabled("b", false, "for repair")
	check := func(when string) {
		t.Helper()
		for p, want := range map[string][]string{
			"":          {"default", "generation", f.Target()},
			"endpoints": {"for repair", f.Backend("a").Addr(), `<b>1</b> opened`, "connections:"},
			"selectors": {"spread", "round_robin", "from code"},
			"slices":    {"<b>2</b> slices", `<code>&#34;m&#34;</code>`, "the end"},
			"key":       {`name="key"`, `method="post"`},
			"stream":    {testTarget, "accepted", "main"},
			"config":    {"no source of configuration"},
			"events":    {"a selection policy was published", "an endpoint was enabled or disabled by hand", "for repair"},
		} {
			w := page(t, f.client, p)
			for _, s := range want {
				if !strings.Contains(w.Body.String(), s) {
					t.Errorf("%s, page %q lacks %q: %s", when, p, s, w.Body)
				}
			}
		}
	}
	check("in use")
	if err := f.client.Close(); err != nil {
		t.Fatal(err)
	}
	for _, p := range debugPages {
		if w := page(t, f.client, p); w.Code != http.StatusOK {
			t.Errorf("page %q of a closed client: %d: %s", p, w.Code, w.Body)
		}
	}
	if w := page(t, f.client, ""); !strings.Contains(w.Body.String(), "The client is closed") {
		t.Errorf("overview of a closed client: %s", w.Body)
	}
	if w := page(t, f.client, "events"); !strings.Contains(w.Body.String(), "for repair") {
		t.Errorf("events of a closed client: %s", w.Body)
	}
	if w := page(t, f.client, "key", "key", "alice"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "It waits") {
		t.Errorf("a key of a closed client: %d: %s", w.Code, w.Body)
	}
}

// TestDebugReadsOnly: the pages do not change what the client says of itself.
func TestDebugReadsOnly(t *testing.T) {
	f := startQuick(t, testSharding(), []string{"a", "b"})
	f.Sharding().AssignEven(testTarget, "a", "b")
	f.who(t, "alice")
	before := f.client.Status()
	for range 3 {
		for _, p := range debugPages {
			page(t, f.client, p)
		}
		page(t, f.client, "key", "key", "zoe")
		page(t, f.client, "slices", "start", "zoe")
	}
	after := f.client.Status()
	if b, a := fmt.Sprint(before.Picks, before.Connections), fmt.Sprint(after.Picks, after.Connections); a != b {
		t.Errorf("after looking: %s, before %s", a, b)
	}
	if n := f.Backend("a").Count() + f.Backend("b").Count(); n != 1 {
		t.Errorf("%d RPCs reached servers, want 1", n)
	}
}

// TestDebugKeepsSecret: a key that is looked for is in the answer to nobody, in no
// log and no event; nor is one that RPCs have.
func TestDebugKeepsSecret(t *testing.T) {
	var log bytes.Buffer
	f := startQuick(t, testSharding(), []string{"a"}, sdk.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	f.Sharding().AssignEven(testTarget, "a")
	f.who(t, marker)
	f.Backend("a").Kill()
	for _, format := range []string{"html", "json"} {
		for _, w := range []*httptest.ResponseRecorder{
			page(t, f.client, "key?format="+format, "key", marker),
			page(t, f.client, "slices?format="+format, "start", marker),
			page(t, f.client, "key?format="+format, "key", marker, "encoding", "hex"),
		} {
			if strings.Contains(w.Body.String(), marker[:11]) {
				t.Errorf("the answer repeats the key: %s", w.Body)
			}
		}
		for _, p := range debugPages {
			at := p + "?format=" + format
			if w := page(t, f.client, at); strings.Contains(w.Body.String(), marker[:11]) {
				t.Errorf("page %q has the key: %s", p, w.Body)
			}
		}
	}
	_ = f.client.Close() // after it nobody logs
	if strings.Contains(log.String(), marker[:11]) {
		t.Errorf("the log has the key: %s", log.String())
	}
	if log.Len() == 0 {
		t.Error("nothing was logged, although a logger was given")
	}
}

// TestDebugFailover: the pages follow a group to another target, and remember why.
func TestDebugFailover(t *testing.T) {
	p := startPlaces(t, "near", "far")
	client, err := sdk.Dial("", sdk.WithTransportCredentials(insecure.NewCredentials()), quickReconnect, sdk.WithTopology(p.topology(
		sdk.GroupConfig{Name: "read", Targets: []string{"near", "far"}},
	)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	current := func() string {
		var o struct{ Groups []struct{ Current string } }
		facts(t, page(t, client, "?format=json"), &o)
		return o.Groups[0].Current
	}
	served(t, client, "read", "near")
	if c := current(); c != "near" {
		t.Errorf("current target %q", c)
	}
	p["near"].Kill()
	served(t, client, "read", "far")
	eventually(t, "the switch on the pages", func() bool {
		return current() == "far" && strings.Contains(page(t, client, "events").Body.String(), "a group of targets switched")
	})
	if e := whereTo(t, client, "key", "k", "group", "read"); e.Target != "far" {
		t.Errorf("a key goes to target %q", e.Target)
	}
}

// TestDebugHostileNames: names that come from outside are text.
func TestDebugHostileNames(t *testing.T) {
	const evil = `<script>alert("x")</script>`
	p := startPlaces(t, "one")
	top := p.topology(sdk.GroupConfig{Name: "g" + evil, Targets: []string{"t" + evil}})
	top.Targets[0].Name = "t" + evil
	client, err := sdk.Dial("", sdk.WithTransportCredentials(insecure.NewCredentials()), sdk.WithTopology(top), sdk.WithSelector("s"+evil, selection.P2C()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	shown := 0
	for _, at := range debugPages {
		for _, format := range []string{"html", "json"} {
			w := page(t, client, at+"?format="+format)
			if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "<script") {
				t.Errorf("page %q as %s: %d: %s", at, format, w.Code, w.Body)
			}
			if strings.Contains(w.Body.String(), "alert(") {
				shown++
			}
		}
	}
	if shown < 8 {
		t.Errorf("only %d pages show the names", shown)
	}
}

// TestDebugMillionSlices: a page of a table of a million slices costs what the page
// shows, and not the table.
func TestDebugMillionSlices(t *testing.T) {
	n := 1_000_000
	if raceDetector {
		n = 100_000 // the fixture takes long
	}
	f := startQuick(t, testSharding(), []string{"a"})
	a := sdktest.Assignment{Slices: make([]sdktest.Slice, n)}
	owners := []string{"a"}
	for i := range a.Slices {
		a.Slices[i] = sdktest.Slice{Start: fmt.Sprintf("%07d", i)[:7*min(i, 1)], Endpoints: owners}
	}
	f.Sharding().Assign(testTarget, a)
	if _, err := f.client.WaitReady(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	f.who(t, "0012345")
	for _, ask := range []func() *httptest.ResponseRecorder{
		func() *httptest.ResponseRecorder { return page(t, f.client, "slices") },
		func() *httptest.ResponseRecorder {
			return page(t, f.client, fmt.Sprintf("slices?from=%d&format=json", n-50))
		},
		func() *httptest.ResponseRecorder { return page(t, f.client, "slices", "start", "0077777") },
		func() *httptest.ResponseRecorder { return page(t, f.client, "key", "key", "0077777") },
	} {
		ask() // what is made once
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w := ask()
		runtime.ReadMemStats(&after)
		// A copy of the table would be 8 MB if each slice were one pointer.
		if got := after.TotalAlloc - before.TotalAlloc; w.Code != http.StatusOK || got > 2<<20 && !raceDetector {
			t.Errorf("%d, %d bytes were allocated", w.Code, got)
		}
	}
	if w := page(t, f.client, "slices", "start", "0077777"); !strings.Contains(w.Body.String(), "The key is in slice <strong>77777</strong>") {
		t.Errorf("slice 77777 was not found: %s", w.Body)
	}
}
