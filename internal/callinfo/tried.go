package callinfo

import "sync/atomic"

// Tried is a set of the first few endpoints a call was sent to, and the newest
// after those, by their ids, which are not 0. It holds more than gRPC's own
// retries make attempts (5). All methods may be called concurrently and do not
// allocate; on nil they do nothing and find nothing.
type Tried struct {
	ids [8]atomic.Uint32
	n   atomic.Uint32 // endpoints added, those since overwritten included
}

// Add notes one endpoint.
func (t *Tried) Add(id uint32) {
	// An endpoint that is tried over and over must not push the others out.
	if t == nil || t.Has(id) {
		return
	}
	t.ids[(t.n.Add(1)-1)%uint32(len(t.ids))].Store(id)
}

// Any says whether an endpoint was noted, that is, whether this is not the first
// attempt. It is one load.
func (t *Tried) Any() bool { return t != nil && t.n.Load() > 0 }

// Has says whether an endpoint was noted.
func (t *Tried) Has(id uint32) bool {
	if !t.Any() {
		return false
	}
	for i := range t.ids {
		if t.ids[i].Load() == id {
			return true
		}
	}
	return false
}
