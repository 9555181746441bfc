package callinfo_test

import (
	"context"
	"testing"
	"unique"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// What of a record goes into the records made of it, and whether they share what
// was tried.
func TestRecordsOfRecords(t *testing.T) {
	const method = "/p.S/M"
	channel, other := new(int), new(int)
	reads := callinfo.Selector("reads")
	asked := func(derived bool) *callinfo.Call {
		return &callinfo.Call{Key: "k", HasKey: true, Header: "x-key", Derived: true, Selector: reads, HasSelector: true, SelectorDerived: derived}
	}
	begun := func(derived bool) *callinfo.Call {
		c := asked(derived)
		c.Begin(channel, method)
		c.Tried.Add(1)
		return c
	}
	in := func(c *callinfo.Call) context.Context { return callinfo.NewContext(context.Background(), c) }
	type does = func(*callinfo.Call) *callinfo.Call
	again := func(c *callinfo.Call) *callinfo.Call { return c.Again() }
	withinCall := func(c *callinfo.Call) *callinfo.Call { return c.Within() }
	withKey := func(c *callinfo.Call) *callinfo.Call {
		return callinfo.From(callinfo.WithKey(in(c), "k2"))
	}
	withSelector := func(c *callinfo.Call) *callinfo.Call {
		return callinfo.From(callinfo.WithSelector(in(c), callinfo.Selector("writes")))
	}
	begin := func(channel *int, method string) does {
		return func(c *callinfo.Call) *callinfo.Call {
			return callinfo.From(callinfo.Begin(in(c), channel, method))
		}
	}
	const (
		none  = iota // only asked: nothing can be tried
		fresh        // begun, nothing tried
		shares
		same // the very record
	)
	for _, tt := range []struct {
		name     string
		from     *callinfo.Call
		do       does
		key      string
		header   string
		selector string
		tried    int
	}{
		{"again of nothing", nil, again, "", "", "", none},
		{"again of an asked one", asked(false), again, "k", "x-key", "reads", none},
		{"again of an asked one, chosen for the call about to be made", asked(true), again, "k", "x-key", "reads", none},
		{"again of a begun one", begun(false), again, "k", "x-key", "reads", none},
		{"again of a begun one, chosen for that call", begun(true), again, "k", "x-key", "", none},
		{"within", begun(false), withinCall, "k", "x-key", "reads", shares},
		{"within, chosen for this call", begun(true), withinCall, "k", "x-key", "reads", shares},
		{"key asked, before a call", asked(false), withKey, "k2", "", "reads", none},
		{"key asked, nothing before", nil, withKey, "k2", "", "", none},
		{"key asked in the middle of a call", begun(true), withKey, "k2", "", "reads", fresh},
		{"selector asked, before a call", asked(true), withSelector, "k", "x-key", "writes", none},
		{"selector asked, nothing before", nil, withSelector, "", "", "writes", none},
		{"selector asked in the middle of a call", begun(true), withSelector, "k", "x-key", "writes", fresh},
		{"begins, nothing asked", nil, begin(channel, method), "", "", "", fresh},
		{"begins", asked(true), begin(channel, method), "k", "x-key", "reads", fresh},
		{"has begun", begun(true), begin(channel, method), "k", "x-key", "reads", same},
		{"begins on another channel", begun(true), begin(other, method), "k", "x-key", "", fresh},
		{"begins on another channel, selector asked", begun(false), begin(other, method), "k", "x-key", "reads", fresh},
		{"begins, another method", begun(true), begin(channel, "/p.S/N"), "k", "x-key", "", fresh},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.do(tt.from)
			if got.Key != tt.key || got.Header != tt.header || got.HasKey != (tt.key != "") {
				t.Errorf("key %q for header %q, want %q for %q", got.Key, got.Header, tt.key, tt.header)
			}
			if got.Selector != callinfo.Selector(tt.selector) || got.HasSelector != (tt.selector != "") {
				t.Errorf("selector %v, asked %v; want %q", got.Selector, got.HasSelector, tt.selector)
			}
			if got == tt.from != (tt.tried == same) {
				t.Fatalf("the very record: %v", got == tt.from)
			}
			switch tt.tried {
			case none:
				if got.Tried != nil {
					t.Errorf("a record that several calls may have remembers endpoints")
				}
			case fresh:
				if got.Tried == nil || got.Tried.Any() || tt.from != nil && got.Tried == tt.from.Tried {
					t.Errorf("tried %v, want an empty set of its own", got.Tried)
				}
			case shares:
				if got.Tried != tt.from.Tried || !got.Is(channel, method) {
					t.Errorf("tried %v, want the set of the call", got.Tried)
				}
			}
		})
	}
}

func TestIs(t *testing.T) {
	channel, other := new(int), new(int)
	c := &callinfo.Call{}
	c.Begin(channel, "/p.S/M")
	for name, tt := range map[string]struct {
		got  bool
		want bool
	}{
		"this call":       {c.Is(channel, "/p.S/M"), true},
		"another method":  {c.Is(channel, "/p.S/N"), false},
		"another channel": {c.Is(other, "/p.S/M"), false},
		"no channel":      {c.Is(nil, "/p.S/M"), false},
		"only asked":      {(&callinfo.Call{}).Is(nil, ""), false},
		"no record":       {(*callinfo.Call)(nil).Is(nil, ""), false},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: Is says %v", name, tt.got)
		}
	}
}

func TestSelector(t *testing.T) {
	for _, name := range []string{"", callinfo.DefaultSelector} {
		if h := callinfo.Selector(name); h != (unique.Handle[string]{}) {
			t.Errorf("%q has the handle %v, want the zero one", name, h)
		}
	}
	h := callinfo.Selector("reads")
	if h != callinfo.Selector("re"+string([]byte("ads"))) || h == callinfo.Selector("Reads") || h.Value() != "reads" {
		t.Errorf("handles of names do not compare as the names do")
	}
	if n := testing.AllocsPerRun(100, func() { callinfo.Selector("reads") }); n != 0 {
		t.Errorf("a name that is held costs %v allocations", n)
	}
}
