package main

import (
	"fmt"
	"iter"
	"slices"

	"google.golang.org/grpc/experimental/balancer/hostname"
	"google.golang.org/grpc/resolver"
	"google.golang.org/protobuf/encoding/protowire"
)

// world is an assignment of slices to endpoints, and the endpoints.
type world struct {
	slices, endpoints, replicas int
	seed                        uint64
}

const (
	keyBytes       = 16
	slicesPerChunk = 1000
)

// keyspace has a key for every slice but the first, which starts at "".
func (w world) keyspace() keyspace {
	return keyspace{length: keyBytes, keys: w.slices - 1, seed: w.seed}
}

// owner is the endpoint of one replica of a slice. The first one of slice i is
// endpoint i, going round.
func (w world) owner(slice, replica int) int {
	step := 1
	if w.replicas > 1 {
		step += slice / w.endpoints % max(1, (w.endpoints-1)/w.replicas)
	}
	return (slice + replica*step) % w.endpoints
}

func (w world) name(endpoint int) string { return fmt.Sprintf("endpoint-%05d.bench", endpoint) }

func (w world) names() []string {
	all := make([]string, w.endpoints)
	for i := range all {
		all[i] = w.name(i)
	}
	return all
}

// address is made up; nothing is dialled.
func (w world) address(endpoint int) string {
	return fmt.Sprintf("10.%d.%d.%d:443", endpoint>>16&0xff, endpoint>>8&0xff, endpoint&0xff)
}

func (w world) resolved() []resolver.Endpoint {
	all := make([]resolver.Endpoint, w.endpoints)
	for i := range all {
		all[i] = hostname.Set(resolver.Endpoint{Addresses: []resolver.Address{{Addr: w.address(i)}}}, w.name(i))
	}
	return all
}

// ownKeys is one key of each endpoint: one that its first slice holds.
func (w world) ownKeys() []string {
	keys := make([]string, 0, w.endpoints)
	keys = append(keys, "")
	for k := range w.keyspace().all() {
		if len(keys) == w.endpoints {
			break
		}
		keys = append(keys, string(k))
	}
	return keys
}

// frames yields the assignment as responses of the sharding service, in chunks,
// without the metadata that ends it. A frame is valid until the next one.
func (w world) frames() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var frame, chunk, slice, item []byte
		for _, n := range w.names() {
			item = protowire.AppendString(protowire.AppendTag(item[:0], 1, protowire.BytesType), n)
			chunk = protowire.AppendBytes(protowire.AppendTag(chunk, 2, protowire.BytesType), item)
		}
		number := 0
		start := make([]byte, 0, keyBytes) // of the slice that is being written
		add := func(end []byte) {
			slice = slice[:0]
			if len(start) > 0 {
				slice = protowire.AppendBytes(protowire.AppendTag(slice, 1, protowire.BytesType), start)
			}
			if end != nil {
				slice = protowire.AppendBytes(protowire.AppendTag(slice, 2, protowire.BytesType), end)
			}
			item = protowire.AppendBytes(protowire.AppendTag(item[:0], 1, protowire.BytesType), slice)
			for r := range w.replicas {
				slice = slice[:0]
				if o := w.owner(number, r); o > 0 {
					slice = protowire.AppendVarint(protowire.AppendTag(slice, 1, protowire.VarintType), uint64(o))
				}
				item = protowire.AppendBytes(protowire.AppendTag(item, 2, protowire.BytesType), slice)
			}
			chunk = protowire.AppendBytes(protowire.AppendTag(chunk, 1, protowire.BytesType), item)
			number++
			start = append(start[:0], end...)
		}
		for end := range w.keyspace().all() {
			add(end)
			if number%slicesPerChunk == 0 {
				if frame = response(frame, 2, chunk); !yield(frame) {
					return
				}
				chunk = chunk[:0]
			}
		}
		add(nil)
		yield(response(frame, 2, chunk))
	}
}

// keptFrames are all frames, for taking more than once.
func (w world) keptFrames() [][]byte {
	var all [][]byte
	for f := range w.frames() {
		all = append(all, slices.Clone(f))
	}
	return all
}

// metadataFrame ends an assignment.
func metadataFrame(generation int64) []byte {
	return response(nil, 3, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(generation)))
}

// response wraps one member of WatchShardingAssignmentResponse, in the room of
// an old frame.
func response(old []byte, member protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(old[:0], member, protowire.BytesType), body)
}
