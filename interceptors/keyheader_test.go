package interceptors_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/interceptors"
)

// Field case IM-04: header names and binary keys.
func TestIM04BinaryKeyArrivesIntact(t *testing.T) {
	s := newServer(t, nil)
	c := dial(t, s.addr, interceptors.Chain(newKey(t, "Shard-Key-Bin").Pair())...)
	var keys [][]byte
	for b := range 256 {
		keys = append(keys, []byte{byte(b)}, []byte{byte(b), 'x', byte(b)})
	}
	all := make([]byte, 256)
	for b := range all {
		all[b] = byte(b)
	}
	keys = append(keys, all, nil, bytes.Repeat([]byte{0xff}, 10<<10))
	for _, key := range keys {
		if _, err := c.UnaryCall(interceptors.WithKey(testContext(t), key), &pb.SimpleRequest{}); err != nil {
			t.Fatalf("key %x: %v", key, err)
		}
	}
	for i, md := range s.seen() {
		if got := md["shard-key-bin"]; len(got) != 1 || got[0] != string(keys[i]) {
			t.Errorf("server saw %q, want %q alone", got, keys[i])
		}
	}
}

func TestIM04PlainHeaderTakesPrintableASCII(t *testing.T) {
	s := newServer(t, nil)
	c := dial(t, s.addr, interceptors.Chain(newKey(t, header).Pair())...)
	for b := range 256 {
		key := "secret-" + string([]byte{byte(b)}) + "-suffix"
		_, err := c.UnaryCall(interceptors.WithKeyString(testContext(t), key), &pb.SimpleRequest{})
		if printable := b >= 0x20 && b <= 0x7e; printable != (err == nil) {
			t.Errorf("byte %#x: error %v", b, err)
		}
		if err != nil {
			assertRefused(t, err, key)
		}
	}
	for _, key := range []string{" secret", "secret ", " ", "\xe2\x82\xac secret"} {
		_, err := c.UnaryCall(interceptors.WithKeyString(testContext(t), key), &pb.SimpleRequest{})
		assertRefused(t, err, "secret")
	}
	_, err := c.UnaryCall(metadata.AppendToOutgoingContext(testContext(t), header, "secret\n"), &pb.SimpleRequest{})
	assertRefused(t, err, "secret")
	if !strings.Contains(err.Error(), "byte 7 of its 7") { // counted from 1
		t.Errorf("error %q does not say where", err)
	}
	for _, md := range s.seen() {
		if got := md[header]; len(got) != 1 || !strings.HasPrefix(got[0], "secret-") || !strings.HasSuffix(got[0], "-suffix") {
			t.Errorf("server saw %q", got)
		}
	}
}

func assertRefused(t *testing.T, err error, secret string) {
	t.Helper()
	if status.Code(err) != codes.InvalidArgument {
		t.Fatalf("error %v, want INVALID_ARGUMENT", err)
	}
	for _, want := range []string{header, unaryMethod, "-bin"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("error %q holds the key", err)
	}
}

// What grpc-go does on the wire with spaces at the ends: it keeps them. They are
// refused all the same because the gRPC protocol lets others strip them.
func TestIM04SpacesOnTheWire(t *testing.T) {
	s := newServer(t, nil)
	c := dial(t, s.addr)
	ctx := metadata.AppendToOutgoingContext(testContext(t), header, " k ")
	if _, err := c.UnaryCall(ctx, &pb.SimpleRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := s.seen()[0][header]; !cmp.Equal(got, []string{" k "}) {
		t.Errorf("grpc-go delivered %q", got)
	}
}

func TestIM04NamesRefusedByNewKey(t *testing.T) {
	for _, name := range []string{"", "grpc-key", "GRPC-Key-bin", "content-type", "TE", "user-agent", "host", ":path", "a b", "k\x00", "schlüssel", "\u212aey", "x-retry-attempt", "-bin", "Authorization", "cookie"} {
		k, err := interceptors.NewKey(name)
		if err == nil {
			t.Errorf("NewKey(%q) made a key for %q", name, k.Header())
			continue
		}
		if !strings.Contains(err.Error(), "header name") {
			t.Errorf("NewKey(%q): %q does not say what is wrong", name, err)
		}
	}
	for name, want := range map[string]string{"X-Shard-Key": "x-shard-key", "K.1_2-bin": "k.1_2-bin"} {
		if k := newKey(t, name); k.Header() != want {
			t.Errorf("NewKey(%q).Header() = %q, want %q", name, k.Header(), want)
		}
	}
	_, err := interceptors.NewKey("grpc-x", interceptors.KeyFrom(nil, interceptors.FieldKey("a..b"), interceptors.FuncKey(nil)), interceptors.KeyOptionalFor("Svc"))
	for _, want := range []string{"grpc-x", "source 1", "source 2", `"a..b"`, "source 3", `"Svc"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewKey: %v does not say %q", err, want)
		}
	}
}
