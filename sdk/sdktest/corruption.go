package sdktest

import (
	"bytes"
	"fmt"
	"strings"
)

// Corruption is a way in which a sharding service can talk nonsense.
type Corruption uint8

// What the service sends instead of an assignment.
const (
	CorruptBytes      Corruption = iota + 1 // a message that is no protobuf
	CorruptNoChunks                         // metadata alone
	CorruptNoSlices                         // a chunk with endpoints and no slices
	CorruptIndex                            // endpoint indices out of range, above and below
	CorruptGap                              // the present assignment without the keys from 0x80 to 0x81
	CorruptOverlap                          // two slices claim every key
	CorruptRange                            // slices that start at or after their end
	CorruptEmptyEnd                         // a slice whose end key is present and empty
	CorruptLongKey                          // boundaries of more than 512 bytes
	CorruptStale                            // valid, under a generation that is not newer
	CorruptGeneration                       // valid, under generations 0 and -1
	CorruptHuge                             // one message of 17 MiB
)

// CorruptEndpoint is the endpoint that made-up assignments name. A client that
// looks for it has believed one of them.
const CorruptEndpoint = "corrupt.invalid"

var corruptionNames = map[Corruption]string{
	CorruptBytes:      "undecodable bytes",
	CorruptNoChunks:   "metadata without chunks",
	CorruptNoSlices:   "no slices",
	CorruptIndex:      "index out of range",
	CorruptGap:        "gap",
	CorruptOverlap:    "overlap",
	CorruptRange:      "start not before end",
	CorruptEmptyEnd:   "empty end key",
	CorruptLongKey:    "oversized key",
	CorruptStale:      "stale generation",
	CorruptGeneration: "generation not positive",
	CorruptHuge:       "huge message",
}

// Corruptions lists every kind, for tables.
func Corruptions() []Corruption {
	all := make([]Corruption, 0, len(corruptionNames))
	for c := CorruptBytes; c <= CorruptHuge; c++ {
		all = append(all, c)
	}
	return all
}

// String names the kind.
func (c Corruption) String() string {
	if name, ok := corruptionNames[c]; ok {
		return name
	}
	return fmt.Sprintf("Corruption(%d)", uint8(c))
}

// frames are the nonsense itself. fresh is a generation nobody has used,
// current the one in force with its assignment (0 and empty if none).
func (c Corruption) frames(fresh, current int64, present Assignment) [][]byte {
	whole := func(generation int64, s ...ChunkSlice) [][]byte {
		chunk := Chunk{Endpoints: []string{CorruptEndpoint}, Slices: s}
		return [][]byte{chunk.encode(), Metadata(generation).encode()}
	}
	first := []int32{0}
	valid := ChunkSlice{Owners: first}
	switch c {
	case CorruptBytes:
		return [][]byte{undecodable()}
	case CorruptNoChunks:
		return [][]byte{Metadata(fresh).encode()}
	case CorruptNoSlices:
		return whole(fresh)
	case CorruptIndex:
		return whole(fresh, ChunkSlice{End: "m", Owners: []int32{7}}, ChunkSlice{Start: "m", Owners: []int32{-1}})
	case CorruptGap:
		if len(present.Slices) == 0 {
			present = Ranges(From("", CorruptEndpoint))
		}
		return present.assignRange("\x80", "\x81", nil, true).frames(fresh, defaultChunkSize)
	case CorruptOverlap:
		return whole(fresh, valid, valid)
	case CorruptRange:
		return whole(fresh, ChunkSlice{Start: "m", End: "a", Owners: first}, ChunkSlice{Start: "x", End: "x", Owners: first})
	case CorruptEmptyEnd:
		return whole(fresh, ChunkSlice{EmptyEnd: true, Owners: first})
	case CorruptLongKey:
		long := strings.Repeat("k", 513)
		return whole(fresh, ChunkSlice{End: long, Owners: first}, ChunkSlice{Start: long, Owners: first})
	case CorruptStale:
		return whole(max(current, 1), valid)
	case CorruptGeneration:
		return append(whole(0, valid), whole(-1, valid)...)
	case CorruptHuge:
		const size = 17 << 20
		return [][]byte{Chunk{Endpoints: []string{strings.Repeat("h", size)}}.encode(), Metadata(fresh).encode()}
	default:
		return nil
	}
}

// undecodable ends inside a varint.
func undecodable() []byte { return bytes.Repeat([]byte{0xff}, 12) }
