package assignment

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/slicewire/slicewire/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// part is one range of an assignment under test.
type part struct {
	start  string
	end    string // noEnd: absent
	owners []int32
}

// noEnd stands for an absent end key; no key of a test has it.
const noEnd = "\xff(no end)"

func (p part) proto() *wire.SliceAssignment {
	s := &wire.SliceAssignment{Slice: &wire.Slice{StartKey: []byte(p.start)}}
	if p.end != noEnd {
		s.Slice.EndKey = []byte(p.end) // empty is present and empty
	}
	for _, o := range p.owners {
		s.Endpoints = append(s.Endpoints, &wire.PerSliceEndpointState{EndpointIndex: o})
	}
	return s
}

func chunkOf(endpoints []string, parts ...part) *wire.WatchShardingAssignmentResponse {
	c := &wire.AssignmentChunk{}
	for _, name := range endpoints {
		c.Endpoints = append(c.Endpoints, &wire.EndpointState{Endpoint: name})
	}
	for _, p := range parts {
		c.SliceAssignments = append(c.SliceAssignments, p.proto())
	}
	return &wire.WatchShardingAssignmentResponse{Response: &wire.WatchShardingAssignmentResponse_Chunk{Chunk: c}}
}

func metadataOf(generation int64) *wire.WatchShardingAssignmentResponse {
	return &wire.WatchShardingAssignmentResponse{Response: &wire.WatchShardingAssignmentResponse_Metadata{
		Metadata: &wire.AssignmentMetadata{Generation: generation},
	}}
}

func loadConfigOf() *wire.WatchShardingAssignmentResponse {
	return &wire.WatchShardingAssignmentResponse{Response: &wire.WatchShardingAssignmentResponse_Config{
		Config: &wire.LoadReportingConfig{LoadQuantumFraction: 0.5},
	}}
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// even makes frames of n sorted, contiguous slices with three owners each of
// 1,000 endpoints, perFrame slices in a frame, and keys of keyBytes.
func even(t testing.TB, n, perFrame, keyBytes int) [][]byte {
	t.Helper()
	const endpoints, replicas = 1000, 3
	key := func(i int) string { return fmt.Sprintf("%0*x", keyBytes, i) }
	field := func(b []byte, num protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), value)
	}
	var frames [][]byte
	var owner, rng, slice []byte
	for first := 0; first < n; first += perFrame {
		var chunk []byte
		for i := range endpoints {
			if first == 0 {
				chunk = field(chunk, 2, field(nil, 1, fmt.Appendf(nil, "backend-%d.example.com", i)))
			}
		}
		for i := first; i < min(first+perFrame, n); i++ {
			rng, slice = rng[:0], slice[:0]
			if i > 0 {
				rng = field(rng, 1, []byte(key(i)))
			}
			if i < n-1 {
				rng = field(rng, 2, []byte(key(i+1)))
			}
			slice = field(slice, 1, rng)
			for r := range replicas {
				owner = protowire.AppendVarint(append(owner[:0], 8), uint64((i*7+r*331)%endpoints))
				slice = field(slice, 2, owner)
			}
			chunk = field(chunk, 1, slice)
		}
		frames = append(frames, field(nil, 2, chunk))
	}
	return frames
}
