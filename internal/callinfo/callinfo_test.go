package callinfo_test

import (
	"context"
	"strings"
	"testing"

	"github.com/slicewire/slicewire/internal/callinfo"
)

// Field case IM-04: header names.
func TestIM04ParseHeader(t *testing.T) {
	for name, want := range map[string]string{
		"x-shard-key":   "x-shard-key",
		"X-Shard-Key":   "x-shard-key",
		"SHARD-KEY-BIN": "shard-key-bin",
		"a.b_c-1":       "a.b_c-1",
		"te2":           "te2",
		"grpcx":         "grpcx",
	} {
		if got, err := callinfo.ParseHeader(name); got != want || err != nil {
			t.Errorf("ParseHeader(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
	for name, says := range map[string]string{
		"":                    "empty",
		"grpc-shard":          "reserved",
		"Grpc-Shard-Bin":      "reserved",
		"content-type":        "reserved",
		"User-Agent":          "reserved",
		"te":                  "reserved",
		"Host":                "reserved",
		"Authorization":       "carries credentials",
		"proxy-authorization": "carries credentials",
		"cookie":              "carries credentials",
		"Set-Cookie":          "carries credentials",
		"-bin":                "nothing before",
		"-BIN":                "nothing before",
		"connection":          "reserved",
		"transfer-encoding":   "reserved",
		":authority":          "byte 1 of its 10",
		"shard key":           "byte 6",
		"shard\n":             "byte 6",
		"shard\x7f":           "byte 6",
		"\u212aey":            "byte 1", // the Kelvin sign, whose lower case is k
		"schlüssel":           "byte 5",
	} {
		if got, err := callinfo.ParseHeader(name); err == nil || !strings.Contains(err.Error(), says) || got != "" {
			t.Errorf("ParseHeader(%q) = %q, %v; want an error that says %q", name, got, err, says)
		}
	}
}

func TestBinaryHeader(t *testing.T) {
	for header, want := range map[string]bool{"k-bin": true, "-bin": true, "bin": false, "k-bin-x": false} {
		if got := callinfo.BinaryHeader(header); got != want {
			t.Errorf("BinaryHeader(%q) = %v", header, got)
		}
	}
}

func TestFrom(t *testing.T) {
	if c := callinfo.From(context.Background()); c != nil {
		t.Errorf("a bare context has the record %+v", c)
	}
	ctx := callinfo.WithKey(context.Background(), "")
	if c := callinfo.From(ctx); c == nil || !c.HasKey || c.Key != "" || c.Header != "" { // PF-10: empty is a key
		t.Errorf("record %+v, want the empty key for no header yet", c)
	}
	want := &callinfo.Call{}
	if got := callinfo.From(callinfo.NewContext(ctx, want)); got != want {
		t.Errorf("From gave another record than the newest")
	}
	if n := testing.AllocsPerRun(100, func() { callinfo.From(ctx) }); n != 0 {
		t.Errorf("From allocates %v times; the picker calls it for each pick", n)
	}
}

func FuzzParseHeader(f *testing.F) {
	for _, name := range []string{"", "x-shard-key", "X-Shard-Key-BIN", "grpc-x", "te", ":path", "\u212a", "a b", "\xff"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := callinfo.ParseHeader(name)
		if err != nil {
			if got != "" {
				t.Errorf("%q beside an error", got)
			}
			return
		}
		if got == "" || len(got) != len(name) || !strings.EqualFold(got, name) {
			t.Errorf("ParseHeader(%q) = %q, another name", name, got)
		}
		if strings.Trim(got, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || strings.HasPrefix(got, "grpc-") {
			t.Errorf("ParseHeader(%q) = %q, which gRPC refuses", name, got)
		}
		if again, err := callinfo.ParseHeader(got); again != got || err != nil {
			t.Errorf("ParseHeader(%q) = %q, %v; not stable", got, again, err)
		}
	})
}
