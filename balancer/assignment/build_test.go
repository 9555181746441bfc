package assignment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// render writes an assignment as "start:owner,owner" in order, with * for a gap.
func render(a *Assignment) string {
	var parts []string
	for s := range a.Slices() {
		text := string(a.Index.Start(s)) + ":"
		switch a.Kind(s) {
		case Gap:
			text += "*"
		case Unassigned:
			text += "-"
		}
		for i, o := range a.Owners(s) {
			if i > 0 {
				text += ","
			}
			text += a.Endpoints[o]
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

// what each revision makes of an assignment. Endpoints are x, y, z.
func TestBuild(t *testing.T) {
	own := func(o ...int32) []int32 { return o }
	key512, key513 := strings.Repeat("k", 512), strings.Repeat("k", 513)
	tests := []struct {
		name  string
		parts []part
		// want08 and want10 are the rendered assignments, "" if it is refused.
		want08, want10 string
		message        string // part of the ack's text, "" for none
	}{
		{"whole keyspace", []part{{"", noEnd, own(0)}}, ":x", ":x", ""},
		{"two slices", []part{{"", "m", own(0)}, {"m", noEnd, own(1, 2)}}, ":x m:y,z", ":x m:y,z", ""},
		{"out of order", []part{{"m", noEnd, own(1)}, {"", "m", own(0)}}, ":x m:y", ":x m:y", ""},
		{"runs out of order", []part{{"m", "p", own(1)}, {"p", noEnd, own(2)}, {"", "c", own(0)}, {"c", "m", own(1)}}, ":x c:y m:y p:z", ":x c:y m:y p:z", ""},
		{"backwards", []part{{"p", noEnd, own(2)}, {"m", "p", own(1)}, {"c", "m", own(1)}, {"", "c", own(0)}}, ":x c:y m:y p:z", ":x c:y m:y p:z", ""},
		{"no endpoints in a slice", []part{{"", "m", nil}, {"m", noEnd, own(1)}}, ":- m:y", ":- m:y", ""},
		{"no endpoints in any slice", []part{{"", noEnd, nil}}, ":-", ":-", ""},
		{"an endpoint twice", []part{{"", noEnd, own(1, 1)}}, ":y,y", ":y,y", ""},
		{"more owners than endpoints", []part{{"", "m", own(0)}, {"m", noEnd, slices.Repeat(own(0, 1), 520)}}, "", ":x m:*", "over 1024 more owners"},
		{"key of 512 bytes", []part{{"", key512, own(0)}, {key512, noEnd, own(1)}}, ":x " + key512 + ":y", ":x " + key512 + ":y", ""},
		{"key that is a prefix", []part{{"", "a", own(0)}, {"a", "a\x00", own(1)}, {"a\x00", noEnd, own(2)}}, ":x a:y a\x00:z", ":x a:y a\x00:z", ""},
		{"bytes above 0x7f", []part{{"", "\x7f", own(0)}, {"\x7f", "\x80", own(1)}, {"\x80", noEnd, own(2)}}, ":x \x7f:y \x80:z", ":x \x7f:y \x80:z", ""},

		{"no slices", nil, "", "", "no slices"},
		{"gap at the start", []part{{"b", noEnd, own(0)}}, "", ":* b:x", "at the start"},
		{"gap in the middle", []part{{"", "b", own(0)}, {"c", noEnd, own(1)}}, "", ":x b:* c:y", "after slice 0"},
		{"gap in the middle, backwards", []part{{"c", noEnd, own(1)}, {"", "b", own(0)}}, "", ":x b:* c:y", "after slice 1"},
		{"gap at the end", []part{{"", "b", own(0)}}, "", ":x b:*", "after slice 0"},
		{"gaps everywhere", []part{{"d", "e", own(1)}, {"b", "c", own(0)}}, "", ":* b:x c:* d:y e:*", "3 gap(s)"},

		{"start equals end", []part{{"", "m", own(0)}, {"m", "m", own(1)}, {"m", noEnd, own(2)}}, "", ":x m:z", "slice 1"},
		{"start after end", []part{{"", "m", own(0)}, {"m", "c", own(1)}, {"m", noEnd, own(2)}}, "", ":x m:z", "not before the end key"},
		{"the next one starts where a bad one ends", []part{{"", "c", own(0)}, {"m", "c", own(1)}, {"c", noEnd, own(2)}}, "", ":x c:z", "(slice 1)"},
		{"AP-06 end key present but empty", []part{{"", "m", own(0)}, {"m", "", own(1)}, {"t", noEnd, own(2)}}, "", ":x m:* t:z", "not before the end key"},
		{"AP-06 whole keyspace with an empty end", []part{{"", "", own(0)}}, "", "", "not before the end key"},
		{"start of 513 bytes", []part{{"", key512, own(0)}, {key512, noEnd, own(1)}, {key513, noEnd, own(2)}}, "", ":x " + key512 + ":y", "start key over 512 bytes"},
		{"end of 513 bytes", []part{{"", "k", own(0)}, {"k", key513, own(1)}}, "", ":x k:*", "end key over 512 bytes"},

		{"index = endpoints", []part{{"", "m", own(3)}, {"m", noEnd, own(2)}}, "", ":* m:z", "endpoint index"},
		{"index below 0", []part{{"", "m", own(-1)}, {"m", noEnd, own(2)}}, "", ":* m:z", "endpoint index"},
		{"largest index", []part{{"", "m", own(1<<31 - 1)}, {"m", noEnd, own(2)}}, "", ":* m:z", "endpoint index"},
		{"one of several indices", []part{{"", "m", own(0, 9, 1)}, {"m", noEnd, own(2)}}, "", ":* m:z", "(slice 0)"},
		{"every index bad", []part{{"", "m", own(3)}, {"m", noEnd, own(4)}}, "", "", "2 of 2"},

		{"overlap drops both", []part{{"", "n", own(0)}, {"m", noEnd, own(1)}}, "", "", "2 overlapping"},
		{"overlap drops both, neighbours stay", []part{{"", "c", own(0)}, {"c", "n", own(1)}, {"m", "t", own(1)}, {"t", noEnd, own(2)}}, "", ":x c:* t:z", "(slice 1, slice 2)"},
		{"same range twice", []part{{"", "m", own(0)}, {"m", noEnd, own(1)}, {"m", noEnd, own(2)}}, "", ":x m:*", "(slice 1, slice 2)"},
		{"same start, different ends", []part{{"", "m", own(0)}, {"m", "p", own(1)}, {"m", noEnd, own(2)}}, "", ":x m:*", "overlapping"},
		{"one inside another", []part{{"", noEnd, own(0)}, {"c", "d", own(1)}}, "", "", "overlapping"},
		{"several inside another", []part{{"b", "t", own(0)}, {"c", "d", own(1)}, {"e", "f", own(1)}, {"t", noEnd, own(2)}}, "", ":* t:z", "3 overlapping"},
		{"chain of overlaps", []part{{"", "d", own(0)}, {"c", "g", own(1)}, {"f", "k", own(1)}, {"k", noEnd, own(2)}}, "", ":* k:z", "3 overlapping"},
		{"overlap after a long reach", []part{{"", "p", own(0)}, {"b", "c", own(1)}, {"m", "r", own(1)}, {"r", noEnd, own(2)}}, "", ":* r:z", "3 overlapping"},
		{"two without an end", []part{{"", noEnd, own(0)}, {"x", noEnd, own(1)}}, "", "", "overlapping"},
		{"touching is no overlap", []part{{"", "b", own(0)}, {"c", noEnd, own(2)}, {"b", "c", own(1)}}, ":x b:y c:z", ":x b:y c:z", ""},
		{"a bad slice claims nothing", []part{{"", "m", own(0)}, {"c", noEnd, own(9)}, {"m", noEnd, own(1)}}, "", ":x m:y", "(slice 1)"},
		{"several faults", []part{{"", "m", own(0)}, {"m", "c", own(1)}, {"m", noEnd, own(9)}, {"p", "q", own(1)}}, "", ":x m:* p:y q:*", "2 of 4"},
	}
	for _, tt := range tests {
		for revision, want := range map[Revision]string{Revision202608: tt.want08, Revision202610: tt.want10} {
			t.Run(fmt.Sprint(tt.name, "/", revision), func(t *testing.T) {
				a, message, err := Decode(7, revision, marshal(t, chunkOf([]string{"x", "y", "z"}, tt.parts...)))
				got := ""
				if a != nil {
					got = render(a)
				}
				if got != want {
					t.Errorf("got %q, want %q; %v", got, want, err)
				}
				if (a == nil) != (err != nil) {
					t.Errorf("assignment %v with error %v", a, err)
				}
				if tt.message == "" && message != "" || !strings.Contains(message, tt.message) {
					t.Errorf("message %q, want it to contain %q", message, tt.message)
				}
				if a != nil && a.Generation != 7 {
					t.Errorf("generation %d, want 7", a.Generation)
				}
			})
		}
	}
}

// AP-03: indices run over all chunks, and slices may come before the endpoints
// they name.
func TestBuildChunks(t *testing.T) {
	first := marshal(t, chunkOf([]string{"e0"}, part{"m", noEnd, []int32{1}}))
	second := marshal(t, chunkOf([]string{"e1"}, part{"", "m", []int32{0}}))
	for _, revision := range []Revision{Revision202608, Revision202610} {
		a, message, err := Decode(1, revision, first, second)
		if err != nil || message != "" {
			t.Fatalf("%v, message %q", err, message)
		}
		if got := render(a); got != ":e0 m:e1" {
			t.Errorf("got %q", got)
		}
	}
}

// AP-11, A-34: what is not a chunk does not disturb chunks; a run that goes on
// over a frame boundary stays one.
func TestBuildChunksBetweenIgnoredMessages(t *testing.T) {
	frames := [][]byte{
		marshal(t, chunkOf([]string{"e0"}, part{"", "m", []int32{0}})),
		marshal(t, loadConfigOf()),
		{},
		{0x7a, 0},
		marshal(t, chunkOf(nil, part{"m", "p", []int32{0}})),
		{},
		marshal(t, chunkOf([]string{"e1"}, part{"p", noEnd, []int32{1}})),
	}
	asm := &assembler{maxBytes: 1 << 20}
	for _, f := range frames {
		if _, _, err := asm.frame(f); err != nil {
			t.Fatal(err)
		}
		clear(f) // the assembler keeps nothing of a frame
	}
	if len(asm.runs) != 1 {
		t.Errorf("%d runs, want 1", len(asm.runs))
	}
	a, message := asm.complete().build(context.Background(), 1, Revision202608)
	if a == nil {
		t.Fatal(message)
	}
	if got := render(a); got != ":e0 m:e0 p:e1" {
		t.Errorf("got %q", got)
	}
}

// A metadata message without chunks is invalid; one with an empty chunk too.
func TestBuildWithoutChunk(t *testing.T) {
	for _, revision := range []Revision{Revision202608, Revision202610} {
		asm := &assembler{maxBytes: 1 << 20}
		if a, message := asm.complete().build(context.Background(), 1, revision); a != nil || !strings.Contains(message, "without any chunk") {
			t.Errorf("%v: %v, %q", revision, a, message)
		}
		if a, message, _ := Decode(1, revision, []byte{0x12, 0}); a != nil || message == "" {
			t.Errorf("%v: %v, %q", revision, a, message)
		}
	}
}

// AP-13: the ack stays small however bad the input, and holds no key.
func TestBuildManyFaults(t *testing.T) {
	const n = 10_000
	parts := []part{{"good", "goods", []int32{0}}}
	for i := range n {
		key := fmt.Sprintf("secret-é世-%05d", i)
		switch i % 4 {
		case 0:
			parts = append(parts, part{key, key, nil})
		case 1:
			parts = append(parts, part{key, key + "x", []int32{77}})
		case 2:
			parts = append(parts, part{key + strings.Repeat("世", 200), noEnd, nil})
		case 3:
			parts = append(parts, part{"s", key, nil})
		}
	}
	frame := marshal(t, chunkOf([]string{"世é-backend"}, parts...))
	began := time.Now()
	a, message, err := Decode(1, Revision202610, frame)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if got, want := a.Endpoints[a.Owners(a.Index.Find("good1"))[0]], "世é-backend"; got != want {
		t.Errorf("the good slice goes to %q", got)
	}
	checkMessage(t, message)
	if !strings.Contains(message, "10000 of 10001") {
		t.Errorf("message %q does not count the bad slices", message)
	}
}

func checkMessage(t testing.TB, message string) {
	t.Helper()
	if n := utf8.RuneCountInString(message); n > maxMessageRunes || !utf8.ValidString(message) {
		t.Errorf("message of %d code points, valid UTF-8: %v", n, utf8.ValidString(message))
	}
	if strings.Contains(message, "secret") {
		t.Errorf("message %q holds a key", message)
	}
}

func TestClipText(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", ""},
		{"abcde", "abcde"},
		{"abcdef", "abcd…"},
		{"世世世世世", "世世世世世"},
		{"世世世世世世", "世世世世…"},
		{"a\xffb", "a�b"},
		{"ab\xff\xfe\xfdcde", "ab�c…"},
	}
	for _, tt := range tests {
		if got := clipText(tt.in, 5); got != tt.want {
			t.Errorf("clipText(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// program makes an assignment out of arbitrary bytes: keys from a small set, so
// that ranges touch and overlap often, sometimes continuing the slice before.
func program(data []byte) (endpoints int, chunks [][]part) {
	key := func(b byte) string {
		switch b %= 16; {
		case b == 0:
			return ""
		case b == 14:
			return "secret" + strings.Repeat("k", 506)
		case b == 15:
			return "secret" + strings.Repeat("k", 507)
		}
		return fmt.Sprintf("secret%c", 'a'+b)
	}
	if len(data) == 0 {
		return 0, nil
	}
	endpoints = int(data[0] % 4)
	data = data[1:]
	chunks = [][]part{nil}
	previous := ""
	for len(data) >= 4 {
		p := part{start: key(data[0]), end: key(data[1])}
		if data[0]&0x80 != 0 {
			p.start = previous
		}
		if data[1]&0xe0 == 0x20 {
			p.end = noEnd
		}
		for i := range data[2] % 4 {
			p.owners = append(p.owners, int32((data[3]+i)%8)/2) // 0 to 3
		}
		if data[2]&0xf0 == 0x10 {
			chunks = append(chunks, nil)
		}
		chunks[len(chunks)-1] = append(chunks[len(chunks)-1], p)
		previous = p.end
		if p.end == noEnd {
			previous = ""
		}
		data = data[4:]
	}
	return endpoints, chunks
}

// judge is the oracle: the rules of A119 read literally, slow, with no index.
func judge(endpoints int, parts []part) (usable []part, faulty bool) {
	contains := func(p part, key string) bool { return p.start <= key && (p.end == noEnd || key < p.end) }
	var good []part
	for _, p := range parts {
		bad := len(p.start) > 512 || p.end != noEnd && (len(p.end) > 512 || p.start >= p.end)
		for _, o := range p.owners {
			bad = bad || o < 0 || int(o) >= endpoints
		}
		if bad {
			faulty = true
			continue
		}
		good = append(good, p)
	}
	for i, p := range good {
		alone := true
		for j, q := range good {
			// Two ranges that overlap share the start of one of them.
			if i != j && (contains(p, q.start) || contains(q, p.start)) {
				alone = false
			}
		}
		if alone {
			usable = append(usable, p)
		}
		faulty = faulty || !alone
	}
	return usable, faulty
}

// checkValidation holds build against judge for one program.
func checkValidation(t testing.TB, data []byte) {
	endpoints, chunks := program(data)
	if len(chunks) == 0 {
		return
	}
	names := []string{"e0", "e1", "e2"}[:endpoints]
	var frames [][]byte
	var parts []part
	keys := []string{"", "a", "secret", "~", "\xff"}
	for i, c := range chunks {
		var here []string
		if i == len(chunks)-1 {
			here = names // after the slices that name them
		}
		frames = append(frames, marshal(t, chunkOf(here, c...)))
		for _, p := range c {
			parts = append(parts, p)
			keys = append(keys, p.start, p.start+"\x00", p.end, p.end+"\x00")
			if len(p.start) > 0 {
				keys = append(keys, p.start[:len(p.start)-1])
			}
		}
	}
	usable, faulty := judge(endpoints, parts)
	find := func(key string) (part, bool) {
		for _, p := range usable {
			if p.start <= key && (p.end == noEnd || key < p.end) {
				return p, true
			}
		}
		return part{}, false
	}
	// A gap, if there is one, begins where the keyspace or a usable slice does end.
	for _, key := range keys {
		if _, ok := find(key); !ok {
			faulty = true
		}
	}
	for _, revision := range []Revision{Revision202608, Revision202610} {
		a, message, _ := Decode(3, revision, frames...)
		checkMessage(t, message)
		if want := len(usable) > 0 && (revision == Revision202610 || !faulty); (a != nil) != want {
			t.Fatalf("%v: accepted: %v, want %v; %q\n%q", revision, a != nil, want, message, parts)
		}
		if faulty != (message != "") {
			t.Fatalf("%v: message %q, faulty: %v\n%q", revision, message, faulty, parts)
		}
		if a == nil {
			continue
		}
		for _, key := range keys {
			slice := a.Index.Find(key)
			if slice < 0 {
				t.Fatalf("%v: a key is in no slice\n%q", revision, parts)
			}
			p, ok := find(key)
			if gap := a.Kind(slice) == Gap; gap == ok {
				t.Fatalf("%v: key %q in a gap: %v\n%q", revision, key, gap, parts)
			}
			var owners []int32
			for _, o := range a.Owners(slice) {
				owners = append(owners, int32(o))
			}
			if !slices.Equal(owners, p.owners) {
				t.Fatalf("%v: key %q has owners %v, want %v\n%q", revision, key, owners, p.owners, parts)
			}
			if (a.Kind(slice) == Unassigned) != (ok && len(owners) == 0) {
				t.Fatalf("%v: key %q is %v\n%q", revision, key, a.Kind(slice), parts)
			}
		}
	}
}

// FuzzValidate holds both revisions against the rules read literally.
func FuzzValidate(f *testing.F) {
	f.Add([]byte{3, 0, 0x20, 1, 0})
	f.Add([]byte{3, 0, 5, 1, 0, 0x80, 0x20, 2, 0})
	f.Add([]byte{2, 5, 0x20, 1, 0, 0, 5, 1, 1})
	f.Add([]byte{2, 0, 5, 1, 0, 5, 5, 0, 0, 0x80, 7, 0x11, 0, 9, 0x20, 1, 0})
	f.Add([]byte{3, 0, 14, 1, 0, 0x80, 15, 0, 0, 0x80, 0x20, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) { checkValidation(t, data) })
}

// TestValidateRandomly is FuzzValidate for every test run: half of the programs
// are partitions of the keyspace, in any order, with at most one fault.
func TestValidateRandomly(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		data := []byte{byte(1 + random.IntN(3))}
		if random.IntN(2) == 0 {
			for range 4 * random.IntN(8) {
				data = append(data, byte(random.IntN(256)))
			}
		} else {
			var cuts []byte
			for c := byte(1); c < 15; c++ {
				if random.IntN(3) == 0 {
					cuts = append(cuts, c)
				}
			}
			var parts [][]byte
			from := byte(0)
			for _, c := range cuts {
				parts = append(parts, []byte{from, c, byte(random.IntN(2)), 0})
				from = c
			}
			parts = append(parts, []byte{from, 0x20, byte(random.IntN(2)), 0})
			if random.IntN(3) > 0 {
				random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
			}
			data = append(data, slices.Concat(parts...)...)
			if random.IntN(2) == 0 {
				data[1+random.IntN(len(data)-1)] = byte(random.IntN(256))
			}
		}
		checkValidation(t, data)
	}
}
