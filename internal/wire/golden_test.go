package wire

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// golden holds one value of every message and the bytes that the published
// field numbers and types give it. The bytes are written out by hand, so that a
// changed number or type in the .proto cannot change both sides of the check.
// Maps have one entry: with more, the order of the bytes is free.
var golden = []struct {
	name string
	msg  proto.Message
	hex  string
}{
	{
		name: "request with the first message",
		msg: &WatchShardingAssignmentRequest{Request: &WatchShardingAssignmentRequest_InitialClientConfig{
			InitialClientConfig: &InitialClientConfig{Target: "t", ClientUuid: "u", LatestGeneration: 300},
		}},
		hex: "0a 09 0a0174 120175 18ac02",
	},
	{
		name: "request with a load report",
		msg: &WatchShardingAssignmentRequest{Request: &WatchShardingAssignmentRequest_LoadReport{
			LoadReport: &LoadReport{},
		}},
		hex: "12 00",
	},
	{
		name: "request with an ack",
		msg: &WatchShardingAssignmentRequest{Request: &WatchShardingAssignmentRequest_AssignmentAck{
			AssignmentAck: &AssignmentAck{Generation: 7, Accepted: true},
		}},
		hex: "1a 04 0807 1001",
	},
	{
		name: "response with a load reporting config",
		msg: &WatchShardingAssignmentResponse{Response: &WatchShardingAssignmentResponse_Config{
			Config: &LoadReportingConfig{},
		}},
		hex: "0a 00",
	},
	{
		name: "response with a chunk",
		msg: &WatchShardingAssignmentResponse{Response: &WatchShardingAssignmentResponse_Chunk{
			Chunk: &AssignmentChunk{Endpoints: []*EndpointState{{Endpoint: "e0"}}},
		}},
		hex: "12 06 12 04 0a026530",
	},
	{
		name: "response with metadata",
		msg: &WatchShardingAssignmentResponse{Response: &WatchShardingAssignmentResponse_Metadata{
			Metadata: &AssignmentMetadata{Generation: 1},
		}},
		hex: "1a 02 0801",
	},
	{
		name: "InitialClientConfig",
		msg:  &InitialClientConfig{Target: "svc", ClientUuid: "id", LatestGeneration: 1},
		hex:  "0a03737663 12026964 1801",
	},
	{
		name: "LoadReportingConfig",
		msg: &LoadReportingConfig{
			LoadQuantumFraction:             0.5,
			MaxLoadBalancingResolutionBytes: 16,
			LoadReportingInterval:           durationpb.New(10 * time.Second),
			LoadReportStartThreshold:        durationpb.New(500 * time.Millisecond),
		},
		hex: "09 000000000000e03f 1010 1a02080a 2206 1080cab5ee01",
	},
	{
		name: "LoadReport",
		msg: &LoadReport{
			MetricLoads: map[string]*Load{"m": {}},
			StartTime:   &timestamppb.Timestamp{Seconds: 1},
			EndTime:     &timestamppb.Timestamp{Seconds: 2},
		},
		hex: "0a05 0a016d 1200 1202 0801 1a02 0802",
	},
	{
		name: "Load",
		msg:  &Load{RangeLoads: []*RangeLoad{{StartKey: []byte{0xff}, Load: 1}, {}}},
		hex:  "0a0c 0a01ff 11000000000000f03f 0a00",
	},
	{
		name: "RangeLoad",
		msg:  &RangeLoad{StartKey: []byte("k"), Load: 2},
		hex:  "0a016b 110000000000000040",
	},
	{
		name: "AssignmentAck that refuses",
		msg:  &AssignmentAck{Generation: 5, ErrorMessage: "no"},
		hex:  "0805 1a026e6f",
	},
	{
		name: "AssignmentMetadata with a negative generation",
		msg:  &AssignmentMetadata{Generation: -1},
		hex:  "08ffffffffffffffffff01",
	},
	{
		name: "AssignmentChunk",
		msg: &AssignmentChunk{
			SliceAssignments: []*SliceAssignment{{Slice: &Slice{StartKey: []byte("a")}}},
			Endpoints:        []*EndpointState{{Endpoint: "x"}, {Endpoint: "y"}},
		},
		hex: "0a05 0a03 0a0161 1203 0a0178 1203 0a0179",
	},
	{name: "EndpointState", msg: &EndpointState{Endpoint: "host"}, hex: "0a04686f7374"},
	{
		name: "SliceAssignment",
		msg: &SliceAssignment{
			Slice:     &Slice{},
			Endpoints: []*PerSliceEndpointState{{}, {EndpointIndex: 3}},
		},
		hex: "0a00 1200 1202 0803",
	},
	// Field case AP-06: absent and empty end keys are different bytes.
	{name: "AP-06 Slice without an end key", msg: &Slice{StartKey: []byte("t")}, hex: "0a0174"},
	{name: "AP-06 Slice with an empty end key", msg: &Slice{StartKey: []byte("m"), EndKey: []byte{}}, hex: "0a016d 1200"},
	{name: "PerSliceEndpointState", msg: &PerSliceEndpointState{EndpointIndex: 3}, hex: "0803"},
	{
		name: "PerSliceEndpointState with a negative index",
		msg:  &PerSliceEndpointState{EndpointIndex: -1},
		hex:  "08ffffffffffffffffff01",
	},
}

func goldenBytes(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatalf("bad golden hex %q: %v", s, err)
	}
	return b
}

func TestGoldenBytes(t *testing.T) {
	for _, tt := range golden {
		t.Run(tt.name, func(t *testing.T) {
			want := goldenBytes(t, tt.hex)
			got, err := proto.MarshalOptions{Deterministic: true}.Marshal(tt.msg)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("marshalled to %x, the protocol says %x", got, want)
			}
			back := tt.msg.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(want, back); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(back, tt.msg) {
				t.Errorf("unmarshalled to %v, want %v", back, tt.msg)
			}
			if unknown := back.ProtoReflect().GetUnknown(); len(unknown) > 0 {
				t.Errorf("bytes %x were not understood", unknown)
			}
		})
	}
}

// TestGoldenCoversEveryMessage fails when the protocol grows a message that has
// no golden bytes.
func TestGoldenCoversEveryMessage(t *testing.T) {
	covered := map[string]bool{}
	for _, tt := range golden {
		covered[string(tt.msg.ProtoReflect().Descriptor().Name())] = true
	}
	messages := File_internal_wire_autosharding_proto.Messages()
	for i := range messages.Len() {
		if name := string(messages.Get(i).Name()); !covered[name] {
			t.Errorf("message %s has no golden bytes; add a row", name)
		}
	}
}

// TestAbsentEndKeyStaysAbsent is the presence half of field case AP-06: nil and
// empty survive a round trip as what they are.
func TestAbsentEndKeyStaysAbsent(t *testing.T) {
	for _, tt := range []struct {
		name    string
		in      *Slice
		present bool
	}{
		{"AP-06 absent", &Slice{}, false},
		{"AP-06 empty", &Slice{EndKey: []byte{}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := proto.Marshal(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			var out Slice
			if err := proto.Unmarshal(b, &out); err != nil {
				t.Fatal(err)
			}
			if got := out.EndKey != nil; got != tt.present {
				t.Errorf("end key present = %v, want %v", got, tt.present)
			}
		})
	}
}
