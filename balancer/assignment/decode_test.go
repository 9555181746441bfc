package assignment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/slicewire/slicewire/internal/wire"
)

// slicesOf reads back what an assembler gathered, in order of arrival.
func slicesOf(a *assembler) []part {
	a.closeRun()
	a.sortRuns()
	ends := sliceEnds{a: a, runOf: make([]uint32, a.slices())}
	for i, r := range a.runs {
		ends.runOf[r.last] = uint32(i + 1)
	}
	var parts []part
	for s := range uint32(a.slices()) {
		p := part{start: string(a.start(s)), end: noEnd}
		if end := ends.of(s); !end.infinite {
			p.end = string(end.key)
		}
		for _, o := range a.ownersOf(s) {
			p.owners = append(p.owners, int32(o))
		}
		parts = append(parts, p)
	}
	return parts
}

func namesOf(a *assembler) []string {
	var names []string
	from := uint32(0)
	for _, to := range a.nameEnds {
		names = append(names, string(a.names[from:to]))
		from = to
	}
	return names
}

// FuzzAssemble holds the assembler against proto.Unmarshal, frame by frame.
func FuzzAssemble(f *testing.F) {
	whole := part{"", noEnd, []int32{0, 1, 2}}
	chunk := marshal(f, chunkOf([]string{"a", "b", "c"}, part{"", "m", []int32{0}}, part{"m", "t", []int32{1, 2}}, part{"t", noEnd, nil}))
	meta := marshal(f, metadataOf(7))
	config := marshal(f, loadConfigOf())
	f.Add(chunk, meta)
	f.Add(chunk, chunk)
	f.Add(slices.Concat(chunk, chunk), meta)                      // one member twice: merged
	f.Add(slices.Concat(chunk, meta), chunk)                      // the last member stays
	f.Add(slices.Concat(chunk, config, chunk), config)            // only the second chunk
	f.Add(slices.Concat(meta, config, []byte{0x1a, 0}), []byte{}) // generation starts again at 0
	f.Add(marshal(f, chunkOf([]string{"é"}, part{"m", "", nil}, part{"t", noEnd, []int32{-1}})), chunk)
	f.Add(marshal(f, chunkOf(nil, part{strings.Repeat("k", 600), noEnd, nil}, whole)), chunk)
	f.Add([]byte("\x12\x04\x12\x02\x0a\x00"), []byte("\x12\x05\x12\x03\x0a\x01\xff"))
	f.Add([]byte("\x12\x02\x0a\x00"), []byte("\x12\x06\x0a\x04\x0a\x00\x0a\x00")) // no slice; two slice fields
	f.Add([]byte("\x7b\x7c\x12\x00"), []byte("\x7b"))                             // groups, closed and open
	f.Add([]byte("\x10\x05\x12\x00"), []byte("\x12\x80\x00"))                     // wrong wire type; long varint
	f.Add([]byte("\x0a\x02\x1a\x00"), []byte("\x0a\x03\x1a\x01\x08"))             // load settings, good and bad inside

	f.Fuzz(func(t *testing.T, first, second []byte) {
		a := &assembler{maxBytes: 1 << 30}
		var wantNames []string
		var wantParts []part
		for _, frame := range [][]byte{first, second} {
			kind, generation, err := a.frame(frame)
			want := &wire.WatchShardingAssignmentResponse{}
			wantErr := proto.Unmarshal(frame, want)
			if (err != nil) != (wantErr != nil) {
				t.Fatalf("frame() = %v, proto.Unmarshal = %v", err, wantErr)
			}
			if err != nil {
				return
			}
			switch r := want.Response.(type) {
			case *wire.WatchShardingAssignmentResponse_Chunk:
				if kind != messageChunk {
					t.Fatalf("kind = %v, want a chunk", kind)
				}
				for _, e := range r.Chunk.GetEndpoints() {
					wantNames = append(wantNames, e.GetEndpoint())
				}
				for _, s := range r.Chunk.GetSliceAssignments() {
					wantParts = append(wantParts, partOf(s))
				}
			case *wire.WatchShardingAssignmentResponse_Metadata:
				if kind != messageMetadata || generation != r.Metadata.GetGeneration() {
					t.Fatalf("kind = %v, generation %d, want metadata, %d", kind, generation, r.Metadata.GetGeneration())
				}
			default:
				if kind != messageIgnored {
					t.Fatalf("kind = %v, want ignored", kind)
				}
			}
		}
		if diff := cmp.Diff(wantNames, namesOf(a)); diff != "" {
			t.Fatalf("endpoint names (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(wantParts, slicesOf(a), cmp.AllowUnexported(part{})); diff != "" {
			t.Fatalf("slices (-want +got):\n%s", diff)
		}
	})
}

// partOf is a slice as the assembler holds it: it forgets keys that are too long.
func partOf(s *wire.SliceAssignment) part {
	p := part{start: string(s.GetSlice().GetStartKey()), end: noEnd}
	if s.GetSlice() != nil && s.GetSlice().EndKey != nil {
		p.end = string(s.GetSlice().EndKey)
	}
	if len(p.start) > maxKeyBytes || (p.end != noEnd && len(p.end) > maxKeyBytes) {
		p.start, p.end = "", noEnd
	}
	for _, e := range s.GetEndpoints() {
		p.owners = append(p.owners, e.GetEndpointIndex())
	}
	return p
}

func TestFrameRefusesWhatIsNotProtobuf(t *testing.T) {
	name := func(s string) []byte {
		e := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), s)
		c := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), e)
		return protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), c)
	}
	tests := []struct {
		name  string
		frame []byte
		want  error
	}{
		{"truncated", []byte{0x12, 5, 0}, errWire},
		{"field number 0", []byte{0x02, 0}, errWire},
		{"name is not UTF-8", name("a\xffb"), errUTF8},
		{"name is UTF-8", name("aéb"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := &assembler{maxBytes: 1 << 20}
			if _, _, err := a.frame(tt.frame); !errors.Is(err, tt.want) {
				t.Errorf("frame() = %v, want %v", err, tt.want)
			}
		})
	}
}

// the bound on what is buffered holds for bytes on the wire and for
// memory, and within one frame as well as over many.
func TestMaxAssignmentBytes(t *testing.T) {
	chunkBytes := func(body []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), body)
	}
	tests := []struct {
		name  string
		frame []byte
	}{
		{"many slices of two bytes", chunkBytes([]byte(strings.Repeat("\x0a\x00", 100_000)))},
		{"many endpoints of two bytes", chunkBytes([]byte(strings.Repeat("\x12\x00", 100_000)))},
		{"one slice with many owners", chunkBytes(protowire.AppendBytes([]byte{0x0a}, []byte(strings.Repeat("\x12\x00", 300_000))))},
		{"unknown fields", chunkBytes([]byte(strings.Repeat("\x7a\x00", 500_000)))},
		{"overruled chunk", append(chunkBytes([]byte(strings.Repeat("\x0a\x00", 100_000))), 0x1a, 0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const bound = 1_000_000
			a := &assembler{maxBytes: bound}
			_, _, err := a.frame(tt.frame)
			if !errors.Is(err, errTooLarge) {
				t.Fatalf("frame() = %v, want %v", err, errTooLarge)
			}
			for _, want := range []string{"1000000", "MaxAssignmentBytes"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not name %q", err, want)
				}
			}
			if held := cap(a.keyEnds)*8 + cap(a.runs)*20 + cap(a.nameEnds)*4 + cap(a.owners)*4; held > 3*bound {
				t.Errorf("%d bytes are held, the bound is %d", held, bound)
			}
		})
	}
	t.Run("over many frames", func(t *testing.T) {
		a := &assembler{maxBytes: 10_000}
		frame := chunkBytes([]byte(strings.Repeat("\x0a\x00", 10)))
		for i := range 10_000 {
			if _, _, err := a.frame(frame); err != nil {
				if i == 0 {
					t.Fatal("the first frame was refused")
				}
				return
			}
		}
		t.Error("the bound never held")
	})
}

// A 1,000-slice chunk costs a handful of allocations, not some per slice.
func TestChunkAllocations(t *testing.T) {
	frames := even(t, 100_000, 1000, 16)
	a := &assembler{maxBytes: 1 << 30}
	build := func() {
		for _, f := range frames {
			if _, _, err := a.frame(f); err != nil {
				t.Fatal(err)
			}
		}
		if got, message := a.complete().build(context.Background(), 1, Revision202608); got == nil {
			t.Fatal(message)
		}
	}
	build()
	perChunk := testing.AllocsPerRun(2, build) / float64(len(frames))
	if perChunk > 5 {
		t.Errorf("%.1f allocations a chunk, want at most 5", perChunk)
	}
}

func BenchmarkAssemble(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"1k", 1000}, {"100k", 100_000}, {"1M", 1_000_000}} {
		frames := even(b, size.n, 10_000, 16)
		perSlice := func(b *testing.B) {
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(size.n), "ns/slice")
		}
		b.Run(size.name+"/assemble+validate+index", func(b *testing.B) {
			b.ReportAllocs()
			a := &assembler{maxBytes: 1 << 30}
			for b.Loop() {
				for _, f := range frames {
					if _, _, err := a.frame(f); err != nil {
						b.Fatal(err)
					}
				}
				if got, message := a.complete().build(context.Background(), 1, Revision202608); got == nil {
					b.Fatal(message)
				}
			}
			perSlice(b)
		})
		b.Run(size.name+"/shuffled", func(b *testing.B) {
			b.ReportAllocs()
			shuffled := shuffle(b, frames)
			a := &assembler{maxBytes: 1 << 30}
			for b.Loop() {
				for _, f := range shuffled {
					if _, _, err := a.frame(f); err != nil {
						b.Fatal(err)
					}
				}
				if got, message := a.complete().build(context.Background(), 1, Revision202608); got == nil {
					b.Fatal(message)
				}
			}
			perSlice(b)
		})
		b.Run(size.name+"/proto.Unmarshal", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, f := range frames {
					if err := proto.Unmarshal(f, &wire.WatchShardingAssignmentResponse{}); err != nil {
						b.Fatal(err)
					}
				}
			}
			perSlice(b)
		})
	}
}

// shuffle puts the slices of frames in random order, all in one frame.
func shuffle(t testing.TB, frames [][]byte) [][]byte {
	t.Helper()
	all := &wire.AssignmentChunk{}
	for _, f := range frames {
		m := &wire.WatchShardingAssignmentResponse{}
		if err := proto.Unmarshal(f, m); err != nil {
			t.Fatal(err)
		}
		all.SliceAssignments = append(all.SliceAssignments, m.GetChunk().GetSliceAssignments()...)
		all.Endpoints = append(all.Endpoints, m.GetChunk().GetEndpoints()...)
	}
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(all.SliceAssignments), func(i, j int) {
		all.SliceAssignments[i], all.SliceAssignments[j] = all.SliceAssignments[j], all.SliceAssignments[i]
	})
	return [][]byte{marshal(t, &wire.WatchShardingAssignmentResponse{Response: &wire.WatchShardingAssignmentResponse_Chunk{Chunk: all}})}
}

// 100,000 slices that arrive out of order route as sorted ones do.
func TestOutOfOrder(t *testing.T) {
	const n = 100_000
	frames := even(t, n, 10_000, 12) // which share many bytes of their keys
	want, _, err := Decode(1, Revision202608, frames...)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := Decode(1, Revision202608, shuffle(t, frames)...)
	if err != nil {
		t.Fatal(err)
	}
	if got.Slices() != n || want.Slices() != n {
		t.Fatalf("%d and %d slices, want %d", got.Slices(), want.Slices(), n)
	}
	for s := range n {
		if string(got.Index.Start(s)) != string(want.Index.Start(s)) || !slices.Equal(got.Owners(s), want.Owners(s)) {
			t.Fatalf("slice %d differs", s)
		}
		key := fmt.Sprintf("%012x~", s)
		if slice := got.Index.Find(key); slice != s {
			t.Fatalf("key of slice %d is found in %d", s, slice)
		}
	}
}
