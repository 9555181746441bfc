package assignment

import (
	"fmt"

	"github.com/slicewire/slicewire/balancer/keyrange"
)

// Kind says why a slice has the owners it has.
type Kind uint8

const (
	// Owned is a slice with at least one owner.
	Owned Kind = iota
	// Gap is a range that no usable slice covers (revision 2026-10 only).
	Gap
	// Unassigned is a slice to which the sharding service gave no endpoints.
	Unassigned
)

// String gives the kind's name in lower case.
func (k Kind) String() string {
	switch k {
	case Owned:
		return "owned"
	case Gap:
		return "gap"
	case Unassigned:
		return "unassigned"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Assignment says which endpoints serve which slices. It is immutable, covers
// the whole keyspace, and may be shared by any number of goroutines.
type Assignment struct {
	// Generation is the sharding service's number for it.
	Generation int64
	// Endpoints are the names of the owners; Owners gives positions in it. It
	// must not be changed.
	Endpoints []string
	// Index finds the slice of a key.
	Index *keyrange.Index

	owners    []uint32 // of all slices, one after the other
	ownerEnds []uint32 // where each slice's owners end in owners
	gaps      []uint64 // bit per slice; nil without gaps
	nameBytes int
	uncovered int // slices without owners
}

// Owners returns the positions in Endpoints of those that serve slice. It is
// shared and must not be changed.
func (a *Assignment) Owners(slice int) []uint32 {
	start := uint32(0)
	if slice > 0 {
		start = a.ownerEnds[slice-1]
	}
	end := a.ownerEnds[slice]
	return a.owners[start:end:end]
}

// Kind says whether slice has owners, and if not, why.
func (a *Assignment) Kind(slice int) Kind {
	switch {
	case a.gaps != nil && a.gaps[slice/64]&(1<<(slice%64)) != 0:
		return Gap
	case len(a.Owners(slice)) == 0:
		return Unassigned
	}
	return Owned
}

// Slices is how many slices there are, gaps included.
func (a *Assignment) Slices() int { return len(a.ownerEnds) }

// Uncovered is how many slices have no owner: gaps, and what the service gave to no
// endpoint.
func (a *Assignment) Uncovered() int { return a.uncovered }

// Bytes is how much heap the assignment retains.
func (a *Assignment) Bytes() int {
	const stringHeader = 16
	return a.Index.Bytes() + 4*cap(a.owners) + 4*cap(a.ownerEnds) + 8*cap(a.gaps) +
		stringHeader*cap(a.Endpoints) + a.nameBytes
}
