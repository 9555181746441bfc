package debug_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slicewire/slicewire/telemetry/debug"
)

// evil is a name that must stay text.
const evil = `<script>alert("x")</script>&amp;'` + "`"

// fixed is a Source that says the same each time. Everything with a name has tag in
// it.
type fixed struct {
	tag    string
	slices int

	mu    sync.Mutex // guards asked
	asked []debug.Question
}

var (
	then  = time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.UTC)
	later = time.Date(2126, 3, 4, 5, 6, 7, 0, time.UTC)
)

func (s *fixed) name(n string) string { return n + s.tag }

func (s *fixed) Names() debug.Names {
	return debug.Names{
		Groups: []string{s.name("default"), s.name("read")}, Selectors: []string{s.name("by-slice"), s.name("pool")},
		Targets: []string{s.name("main"), s.name("spare")}, Target: s.name("main"),
	}
}

func (s *fixed) summary() debug.Summary {
	return debug.Summary{
		Name: s.name("main"), URI: s.name("dns:///main"), Profile: s.name("tls"), Authority: s.name("authority"), State: "READY",
		Readiness: "assigned and connected", Leaving: true, InFlight: 12, Disabled: s.name("for repair"),
		Ratio:     &debug.Ratio{Ratio: "12.5%", Failed: 125, Total: 1001, Exceeded: true},
		Endpoints: []debug.Count{{Name: "READY", Count: 2}, {Name: "TRANSIENT_FAILURE", Count: 17}}, Generation: 4711,
		Picks: []debug.Count{{Name: "ready", Count: 90001}},
	}
}

func (s *fixed) Overview() debug.Overview {
	return debug.Overview{
		Closed: true, UnknownGroups: 77, Targets: []debug.Summary{s.summary()},
		Groups: []debug.Group{{
			Name: s.name("default"), Current: s.name("main"), Since: then, Reason: "connectivity", PinnedUntil: later, Selector: s.name("by-slice"),
			Targets: []debug.GroupTarget{{
				Name: s.name("main"), Current: true, State: "ready", Since: then, Reason: s.name("because"), Until: later, Bad: []string{s.name("monitor")},
				Downtime: debug.Duration(90 * time.Second),
			}},
			Switches: []debug.Count{{Name: s.name("pin"), Count: 3}},
		}},
	}
}

func (s *fixed) endpoint(i int) debug.Endpoint {
	return debug.Endpoint{
		Name: s.name(fmt.Sprint("e", i)), Address: s.name("10.0.0.1:1"), State: []string{"READY", "IDLE", "TRANSIENT_FAILURE"}[i%3], Since: then,
		Picks: 1_000_000 + uint64(i), Pending: i, Health: "unhealthy", Disabled: s.name("by hand"), DisabledAt: then, Draining: true,
		RetryAfter: debug.Duration(1500 * time.Millisecond), Connections: []debug.Count{{Name: "draining", Count: 5}},
	}
}

func (s *fixed) Target(name string) *debug.Target {
	if name != s.name("main") {
		return nil // spare has left meanwhile
	}
	t := &debug.Target{
		Summary: s.summary(), Membership: 31337, AllUnhealthy: true, UnknownOwners: 9, Faults: []debug.Count{{Name: s.name("errors"), Count: 8}},
		Connections:       []debug.Count{{Name: s.name("closed: lost"), Count: 606}},
		LastResolverError: s.name("no such host"), LastConfigError: s.name("no such policy"),
		Selectors: []debug.Selector{{
			Name: s.name("by-slice"), Policy: s.name("sliced"), Generation: 42, InForce: 41, Source: "code", Membership: 31336,
			Picks: []debug.Count{{Name: "ready", Count: 5005}}, BadResults: []debug.Count{{Name: "panic", Count: 6}},
			Builds:         &debug.Builds{Builds: 11, Failed: 2, Coalesced: 3, Queue: debug.Duration(time.Millisecond), Build: debug.Duration(123456)},
			LastBuildError: s.name("out of memory"),
			History:        []debug.Publication{{Generation: 42, Policy: s.name("p2c"), Source: "config", At: then}},
		}},
		Stream: &debug.Stream{
			Phase: "assigned", ChannelKey: s.name("main"), Target: s.name("users"), ClientUUID: s.name("uuid"), Generation: 4711, Slices: 12345,
			Endpoints: 678, Bytes: 91011, ReceivedAt: then, Age: debug.Duration(time.Hour), Connected: true, Since: then, MessageAt: then,
			StaleFor: debug.Duration(7 * time.Second), Counts: []debug.Count{{Name: "accepted", Count: 55}},
			LastAck:     &debug.Ack{At: then, Generation: 4711, Accepted: true, Message: s.name("gap")},
			LastRefusal: &debug.Ack{At: then, Generation: 4710, Message: s.name("overlap")}, LastError: s.name("broken"),
		},
	}
	for i := range 7 {
		t.Endpoints = append(t.Endpoints, s.endpoint(i))
	}
	return t
}

func (s *fixed) Slices(target string) debug.Slices {
	if s.slices == 0 || target != s.name("main") {
		return nil
	}
	return table{s}
}

// table is slices of which number n begins with n as six digits.
type table struct{ *fixed }

func (t table) Generation() int64 { return 4711 }
func (t table) InUse() bool       { return false }
func (t table) Len() int          { return t.slices }

func (t table) Find(key string) int {
	n := 0
	_, _ = fmt.Sscanf(key, "%d", &n)
	return min(n, t.slices-1)
}

func (t table) start(i int) []byte { return []byte(fmt.Sprintf("%06d%s", i, t.tag)) }

func (t table) Slice(i, owners int) debug.Slice {
	s := debug.Slice{Number: i, Start: debug.ShowKey(t.start(i)), Kind: "owned", AllOwners: owners + 3}
	if i+1 < t.slices {
		end := debug.ShowKey(t.start(i + 1))
		s.End = &end
	}
	s.Owners = []debug.Owner{{Endpoint: debug.Endpoint{Name: t.name("e0"), State: "READY"}, Known: true}, {Endpoint: debug.Endpoint{Name: t.name("stranger")}}}
	return s
}

func (s *fixed) Explain(q debug.Question) (*debug.Explanation, error) {
	s.mu.Lock()
	s.asked = append(s.asked, q)
	s.mu.Unlock()
	if q.Selector == "none" {
		return nil, errors.New("there is no such selector")
	}
	slice := table{s}.Slice(5, 2)
	slice.Owners[0].Endpoint = s.endpoint(0)
	return &debug.Explanation{
		Group: s.name("default"), Target: s.name("main"), Selector: s.name("by-slice"), Policy: s.name("sliced"), PolicyGeneration: 42, Generation: 4711,
		Slice: &slice, Candidates: []debug.Endpoint{s.endpoint(1)}, More: 88, Outcome: "picked", Endpoint: s.name("e0"), Connects: s.name("e1"),
		Fallback: "all_failing", Why: s.name("it is the only one"),
	}, nil
}

func (s *fixed) Config() *debug.Config {
	return &debug.Config{
		Source: s.name("client.yaml"), Revision: s.name("0123abcd"), AppliedAt: then, Age: debug.Duration(time.Minute), Applied: 20, Refused: 21,
		Trouble: s.name("no such group"), Values: s.name("keyHeader: x # client.yaml:3\n"),
		LastRefused: &debug.RefusedConfig{At: then, Problems: []string{s.name("line 7: no such group")}},
	}
}

func (s *fixed) Events() []debug.Event {
	return []debug.Event{{At: then, Kind: s.name("policy published"), Trouble: true, Again: 4321, Latest: later, Details: []debug.Attribute{{Name: s.name("selector"), Value: s.name("pool")}}}}
}

// pageNames are all pages.
var pageNames = []string{"", "endpoints", "selectors", "slices", "key", "stream", "config", "events"}

// get asks h for a page, mounted somewhere.
func get(t testing.TB, h http.Handler, page string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/slicewire/"+page, nil))
	return w
}

// post sends a form.
func post(t testing.TB, h http.Handler, page string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/debug/slicewire/"+page, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// everyPage are answers of all pages, GET and POST, in a format.
func everyPage(t testing.TB, h http.Handler, format string) map[string]*httptest.ResponseRecorder {
	t.Helper()
	all := make(map[string]*httptest.ResponseRecorder)
	for _, p := range pageNames {
		all[p] = get(t, h, p+"?format="+format)
	}
	all["POST key"] = post(t, h, "key?format="+format, url.Values{"key": {"some key"}})
	all["POST slices"] = post(t, h, "slices?format="+format, url.Values{"start": {"3"}})
	return all
}
