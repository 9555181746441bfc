package balancer

import (
	"github.com/slicewire/slicewire/balancer/assignment"
)

// SliceTable is an assignment, with the endpoints that it leads to now. It costs
// nothing to have, whatever the number of slices, and keeps the assignment in memory
// for as long as it is kept. Its methods may be called concurrently.
//
// The bounds of slices are keys, and so personal data: show them to who may see
// keys, and never log them.
type SliceTable struct {
	held  *assignment.Assignment
	route *route
	pub   *published // nil while no pick uses held
}

// Slice is one slice of an assignment.
type Slice struct {
	// Number is its place in the order of keys, from 0.
	Number int
	// Start is its first key, and End the first key behind it. Last says that there
	// is no such key. They must not be changed.
	Start, End []byte
	Last       bool
	Kind       assignment.Kind
	// Owners are at most as many as were asked for, of AllOwners.
	Owners    []Owner
	AllOwners int
}

// Owner is an endpoint that serves a slice. The zero EndpointStatus but for the name
// is that of one which the name resolver does not know, or of an idle channel.
type Owner struct {
	EndpointStatus
	// Known says that the name resolver knows it.
	Known bool
}

// Slices returns the assignment that picks use, else the one that is held for when
// there are picks again; nil where none is held.
func (r *Router) Slices() *SliceTable {
	rt := r.main.Load()
	if pub := rt.current.Load(); pub != nil && pub.slices != nil {
		return &SliceTable{pub.slices, rt, pub}
	}
	if a := rt.watcher.State().Assignment; a != nil {
		return &SliceTable{a, rt, nil}
	}
	return nil
}

// Generation is the sharding service's number for the assignment.
func (t *SliceTable) Generation() int64 { return t.held.Generation }

// InUse says that picks use it: not while the channel is idle or the assignment is
// about to be put in force.
func (t *SliceTable) InUse() bool { return t.pub != nil }

// Len is how many slices there are.
func (t *SliceTable) Len() int { return t.held.Slices() }

// Find is the number of the slice that holds key.
func (t *SliceTable) Find(key string) int { return t.held.Index.Find(key) }

// Slice describes a slice, from 0 to Len()-1, with at most limit of its owners; 0 or
// less stands for all.
func (t *SliceTable) Slice(number, limit int) Slice {
	a := t.held
	owners := a.Owners(number)
	s := Slice{
		Number: number, Start: a.Index.Start(number), Last: number == a.Slices()-1, Kind: a.Kind(number), AllOwners: len(owners),
	}
	if !s.Last {
		s.End = a.Index.Start(number + 1)
	}
	if limit > 0 && limit < len(owners) {
		owners = owners[:limit]
	}
	s.Owners = make([]Owner, len(owners))
	for i, o := range owners {
		s.Owners[i].Name = a.Endpoints[o]
		if t.pub == nil {
			continue
		}
		if ep := t.pub.owners[o]; ep != nil {
			s.Owners[i] = Owner{t.route.endpointStatus(ep), true}
		}
	}
	return s
}
