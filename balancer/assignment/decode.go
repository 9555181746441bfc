package assignment

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/slicewire/slicewire/internal/wire"
)

// Field numbers of the protocol.
const (
	responseConfig   protowire.Number = 1
	responseChunk    protowire.Number = 2
	responseMetadata protowire.Number = 3

	metadataGeneration protowire.Number = 1

	chunkSlices    protowire.Number = 1
	chunkEndpoints protowire.Number = 2

	endpointName protowire.Number = 1

	assignmentSlice     protowire.Number = 1
	assignmentEndpoints protowire.Number = 2

	sliceStart protowire.Number = 1
	sliceEnd   protowire.Number = 2

	ownerIndex protowire.Number = 1
)

// message is what a frame turned out to be.
type message uint8

const (
	messageIgnored message = iota // unset, unknown or load report settings
	messageChunk
	messageMetadata
)

var (
	errWire = errors.New("the sharding service sent a message that is not valid protobuf of WatchShardingAssignmentResponse")
	errUTF8 = errors.New("the sharding service sent an endpoint name that is not valid UTF-8")
)

// frame decodes one response, with the outcome that proto.Unmarshal of a
// WatchShardingAssignmentResponse would have. A chunk goes straight into the
// arrays. After an error the assembler must be reset.
func (a *assembler) frame(b []byte) (kind message, generation int64, err error) {
	member, from, err := lastMember(b)
	if err != nil {
		return 0, 0, err
	}
	if member == responseChunk {
		a.chunks++
		if err := a.charge(len(b)); err != nil {
			return 0, 0, err
		}
	}
	for at := 0; at < len(b); {
		num, value, n, err := field(b[at:])
		if err != nil {
			return 0, 0, err
		}
		switch {
		case num == responseChunk && at >= from:
			err = a.chunk(value)
		case num == responseChunk:
			// Overruled later in the frame; it must decode all the same.
			err = (&assembler{maxBytes: a.maxBytes}).chunk(value)
		case num == responseMetadata:
			if at == from {
				generation = 0
			}
			generation, err = metadata(value, generation)
		case num == responseConfig:
			if proto.Unmarshal(value, &wire.LoadReportingConfig{}) != nil {
				err = errWire
			}
		}
		if err != nil {
			return 0, 0, err
		}
		at += n
	}
	switch member {
	case responseChunk:
		a.keepEnd()
		return messageChunk, 0, nil
	case responseMetadata:
		return messageMetadata, generation, nil
	}
	return messageIgnored, 0, nil
}

// lastMember finds which member of the oneof a frame sets and where its last
// unbroken sequence begins: of several members the last one stays, and several
// of the same are merged.
func lastMember(b []byte) (member protowire.Number, from int, err error) {
	for at := 0; at < len(b); {
		num, _, n, err := field(b[at:])
		if err != nil {
			return 0, 0, err
		}
		if num >= responseConfig && num <= responseMetadata && num != member {
			member, from = num, at
		}
		at += n
	}
	return member, from, nil
}

// field reads the next field. Its number is 0 if the field is to be skipped:
// unknown, or of a wire type that its number does not have. No message of
// this protocol has a known field past number 3, and all but generation and
// endpoint_index are length-delimited; see varintField.
func field(b []byte) (num protowire.Number, value []byte, n int, err error) {
	if len(b) > 1 && b[0]&7 == byte(protowire.BytesType) && b[0] < 0x80 && b[0] >= 8 && b[1] < 0x80 {
		// One byte of tag, one of length: nearly every field of a chunk.
		end := 2 + int(b[1])
		if end > len(b) {
			return 0, nil, 0, errWire
		}
		return protowire.Number(b[0] >> 3), b[2:end:end], end, nil
	}
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 || num > protowire.MaxValidNumber {
		return 0, nil, 0, errWire
	}
	if typ == protowire.BytesType {
		v, m := protowire.ConsumeBytes(b[n:])
		if m < 0 {
			return 0, nil, 0, errWire
		}
		return num, v, n + m, nil
	}
	m := protowire.ConsumeFieldValue(num, typ, b[n:])
	if m < 0 {
		return 0, nil, 0, errWire
	}
	return 0, nil, n + m, nil
}

// varintField is field for the two messages whose only field, number 1, is a varint.
func varintField(b []byte) (num protowire.Number, value uint64, n int, err error) {
	if len(b) > 1 && b[0] == 8 && b[1] < 0x80 {
		return 1, uint64(b[1]), 2, nil
	}
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 || num > protowire.MaxValidNumber {
		return 0, 0, 0, errWire
	}
	if typ == protowire.VarintType {
		v, m := protowire.ConsumeVarint(b[n:])
		if m < 0 {
			return 0, 0, 0, errWire
		}
		return num, v, n + m, nil
	}
	m := protowire.ConsumeFieldValue(num, typ, b[n:])
	if m < 0 {
		return 0, 0, 0, errWire
	}
	return 0, 0, n + m, nil
}

// metadata decodes an AssignmentMetadata into one that has generation already.
func metadata(b []byte, generation int64) (int64, error) {
	for len(b) > 0 {
		num, v, n, err := varintField(b)
		if err != nil {
			return 0, err
		}
		if num == metadataGeneration {
			generation = int64(v)
		}
		b = b[n:]
	}
	return generation, nil
}

// chunk decodes an AssignmentChunk.
func (a *assembler) chunk(b []byte) error {
	for len(b) > 0 {
		num, value, n, err := field(b)
		if err != nil {
			return err
		}
		switch num {
		case chunkSlices:
			err = a.slice(value)
		case chunkEndpoints:
			err = a.endpoint(value)
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return a.checkBound()
}

// endpoint decodes an EndpointState.
func (a *assembler) endpoint(b []byte) error {
	var name []byte
	for len(b) > 0 {
		num, value, n, err := field(b)
		if err != nil {
			return err
		}
		if num == endpointName {
			if !utf8.Valid(value) {
				return errUTF8
			}
			name = value
		}
		b = b[n:]
	}
	a.addName(name)
	if len(a.nameEnds)%boundEvery == 0 {
		return a.checkBound()
	}
	return nil
}

// boundEvery is how many slices or endpoints of one frame may pass between two
// looks at the bound: a frame of the smallest ones is a frame of millions.
const boundEvery = 1024

// slice decodes a SliceAssignment.
func (a *assembler) slice(b []byte) error {
	// As with proto.Unmarshal, several slice fields are merged into one, and
	// none is the empty one: the whole keyspace.
	var start, end []byte
	hasEnd := false
	for len(b) > 0 {
		num, value, n, err := field(b)
		if err != nil {
			return err
		}
		switch num {
		case assignmentSlice:
			for r := value; len(r) > 0; {
				num, key, n, err := field(r)
				if err != nil {
					return err
				}
				switch num {
				case sliceStart:
					start = key
				case sliceEnd:
					end, hasEnd = key, true
				}
				r = r[n:]
			}
		case assignmentEndpoints:
			if err := a.owner(value); err != nil {
				return err
			}
		}
		b = b[n:]
	}
	a.addSlice(start, end, hasEnd)
	if len(a.keyEnds)%boundEvery == 0 {
		return a.checkBound()
	}
	return nil
}

// owner decodes a PerSliceEndpointState.
func (a *assembler) owner(b []byte) error {
	index := int32(0)
	for len(b) > 0 {
		num, v, n, err := varintField(b)
		if err != nil {
			return err
		}
		if num == ownerIndex {
			index = int32(v)
		}
		b = b[n:]
	}
	a.addOwner(index)
	return nil
}
