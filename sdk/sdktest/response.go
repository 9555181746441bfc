package sdktest

import (
	"fmt"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slicewire/slicewire/internal/wire"
)

// Response is one message of the sharding service as it goes on the wire: a
// [Chunk], [Metadata], [LoadReporting] or [Raw].
type Response interface {
	encode() []byte
}

// Chunk is a part of a logical assignment.
type Chunk struct {
	Endpoints []string
	Slices    []ChunkSlice
}

// ChunkSlice is a slice as the protocol writes it.
type ChunkSlice struct {
	Start    string
	End      string  // empty: the field is absent, which means the end of the keyspace
	EmptyEnd bool    // send an end key that is present and empty
	Owners   []int32 // indices into the endpoints of all chunks; not checked
}

// Metadata ends the chunks of one logical assignment and is its generation.
type Metadata int64

// LoadReporting asks the client for load reports.
type LoadReporting struct {
	QuantumFraction float64       // in [0,1]: the most that one multi-key range may hold
	ResolutionBytes int32         // keys are cut to this length
	Interval        time.Duration // between reports
	StartThreshold  time.Duration // load older than this is dropped
}

// Raw is sent as it is. An empty Raw decodes to a message with no field set.
type Raw []byte

func (c Chunk) encode() []byte {
	chunk := &wire.AssignmentChunk{}
	for _, name := range c.Endpoints {
		chunk.Endpoints = append(chunk.Endpoints, &wire.EndpointState{Endpoint: name})
	}
	for _, s := range c.Slices {
		slice := &wire.Slice{StartKey: []byte(s.Start)}
		if s.End != "" || s.EmptyEnd {
			slice.EndKey = append([]byte{}, s.End...)
		}
		a := &wire.SliceAssignment{Slice: slice}
		for _, i := range s.Owners {
			a.Endpoints = append(a.Endpoints, &wire.PerSliceEndpointState{EndpointIndex: i})
		}
		chunk.SliceAssignments = append(chunk.SliceAssignments, a)
	}
	return encode(&wire.WatchShardingAssignmentResponse{
		Response: &wire.WatchShardingAssignmentResponse_Chunk{Chunk: chunk},
	})
}

func (m Metadata) encode() []byte {
	return encode(&wire.WatchShardingAssignmentResponse{
		Response: &wire.WatchShardingAssignmentResponse_Metadata{
			Metadata: &wire.AssignmentMetadata{Generation: int64(m)},
		},
	})
}

func (l LoadReporting) encode() []byte {
	return encode(&wire.WatchShardingAssignmentResponse{
		Response: &wire.WatchShardingAssignmentResponse_Config{Config: &wire.LoadReportingConfig{
			LoadQuantumFraction:             l.QuantumFraction,
			MaxLoadBalancingResolutionBytes: l.ResolutionBytes,
			LoadReportingInterval:           durationpb.New(l.Interval),
			LoadReportStartThreshold:        durationpb.New(l.StartThreshold),
		}},
	})
}

func (r Raw) encode() []byte { return append([]byte{}, r...) }

// encode marshals a message of ours. That fails only for an endpoint name that
// is not UTF-8, which no client could decode either.
func encode(m *wire.WatchShardingAssignmentResponse) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		return undecodable()
	}
	return b
}

// frames encodes an assignment in chunks of at most perChunk slices. The
// endpoint list is in the first one. The receiver is resolved.
func (a Assignment) frames(generation int64, perChunk int) [][]byte {
	chunk := Chunk{}
	index := make(map[string]int32)
	for _, s := range a.Slices {
		for _, e := range s.Endpoints {
			if _, ok := index[e]; !ok {
				index[e] = int32(len(chunk.Endpoints))
				chunk.Endpoints = append(chunk.Endpoints, e)
			}
		}
	}
	var frames [][]byte
	for _, s := range a.Slices {
		if len(chunk.Slices) == perChunk {
			frames = append(frames, chunk.encode())
			chunk = Chunk{}
		}
		cs := ChunkSlice{Start: s.Start, End: s.End}
		for _, e := range s.Endpoints {
			cs.Owners = append(cs.Owners, index[e])
		}
		chunk.Slices = append(chunk.Slices, cs)
	}
	return append(frames, chunk.encode(), Metadata(generation).encode())
}

// frameCodec sends a response of the service, which is bytes already, as it is,
// and everything else as protobuf.
type frameCodec struct{}

func (frameCodec) Name() string { return "proto" }

func (frameCodec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case []byte:
		return mem.BufferSlice{mem.SliceBuffer(v)}, nil
	case proto.Message:
		b, err := proto.Marshal(v)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	default:
		return nil, fmt.Errorf("sdktest: cannot send a %T, want bytes or a protobuf message", v)
	}
}

func (frameCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("sdktest: cannot receive a %T, want a protobuf message", v)
	}
	return proto.Unmarshal(data.Materialize(), m)
}
