package assignment_test

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/slicewire/slicewire/balancer/assignment"
	"github.com/slicewire/slicewire/internal/wire"
)

// A chunk says which slices there are and who serves them. Of this one, revision
// 2026-10 makes two slices and a gap; 2026-08 refuses it.
func ExampleDecode() {
	chunk, err := proto.Marshal(&wire.WatchShardingAssignmentResponse{
		Response: &wire.WatchShardingAssignmentResponse_Chunk{Chunk: &wire.AssignmentChunk{
			Endpoints: []*wire.EndpointState{{Endpoint: "a.example.com"}, {Endpoint: "b.example.com"}},
			SliceAssignments: []*wire.SliceAssignment{
				{Slice: &wire.Slice{EndKey: []byte("m")}, Endpoints: []*wire.PerSliceEndpointState{{EndpointIndex: 0}}},
				{Slice: &wire.Slice{StartKey: []byte("t")}, Endpoints: []*wire.PerSliceEndpointState{{EndpointIndex: 1}, {EndpointIndex: 0}}},
			},
		}},
	})
	if err != nil {
		panic(err)
	}
	a, message, err := assignment.Decode(7, assignment.Revision202610, chunk)
	if err != nil {
		panic(err)
	}
	fmt.Println(message)
	for _, key := range []string{"apple", "orange", "zebra"} {
		slice := a.Index.Find(key)
		fmt.Print(key, ": ", a.Kind(slice))
		for _, owner := range a.Owners(slice) {
			fmt.Print(" ", a.Endpoints[owner])
		}
		fmt.Println()
	}
	_, message, _ = assignment.Decode(7, assignment.Revision202608, chunk)
	fmt.Println("refused:", message)
	// Output:
	// 1 gap(s) in the keyspace (after slice 0)
	// apple: owned a.example.com
	// orange: gap
	// zebra: owned b.example.com a.example.com
	// refused: 1 gap(s) in the keyspace (after slice 0)
}
