package sdktest

import (
	"errors"
	"slices"
	"sort"
	"strings"
)

// Assignment says which endpoints own which keys. It is sent as it is written:
// a gap, an overlap or an unknown endpoint is for the client to judge.
type Assignment struct {
	// Generation is used if it is above the target's last one. Otherwise, and
	// by default, the assignment gets the next generation.
	Generation int64
	Slices     []Slice
}

// Slice is a range of keys. Keys are bytes; the string need not be UTF-8.
type Slice struct {
	Start string // inclusive
	// End is exclusive. Empty: to the next start key of the assignment, or to
	// the end of the keyspace if there is none.
	End       string
	Endpoints []string // names, as the resolver's hostname attribute has them
}

// From is the slice that starts at start and ends where the next one starts.
func From(start string, endpoints ...string) Slice {
	return Slice{Start: start, Endpoints: endpoints}
}

// Ranges is the assignment of the slices given.
func Ranges(ranges ...Slice) Assignment { return Assignment{Slices: ranges} }

// Even gives each endpoint one slice of equal width, counted over the first two
// bytes of the key. It suits keys that are hashes; keys with a common prefix
// all fall to one endpoint.
func Even(endpoints ...string) Assignment {
	const width = 1 << 16
	var a Assignment
	for i, e := range endpoints {
		start := ""
		if i > 0 {
			at := i * width / len(endpoints)
			start = string([]byte{byte(at >> 8), byte(at)})
		}
		a.Slices = append(a.Slices, From(start, e))
	}
	return a
}

// resolved is a deep copy with every End written out; it is empty only where a
// slice runs to the end of the keyspace.
func (a Assignment) resolved() Assignment {
	starts := make([]string, 0, len(a.Slices))
	for _, s := range a.Slices {
		starts = append(starts, s.Start)
	}
	sort.Strings(starts)
	out := Assignment{Generation: a.Generation, Slices: make([]Slice, 0, len(a.Slices))}
	for _, s := range a.Slices {
		if s.End == "" {
			next := sort.Search(len(starts), func(i int) bool { return starts[i] > s.Start })
			if next < len(starts) {
				s.End = starts[next]
			}
		}
		s.Endpoints = slices.Clone(s.Endpoints)
		out.Slices = append(out.Slices, s)
	}
	return out
}

// below reports whether key lies before the exclusive end, "" being the end of
// the keyspace.
func below(key, end string) bool { return end == "" || key < end }

func (s Slice) holds(key string) bool { return s.Start <= key && below(key, s.End) }

// find is the position of the first slice that holds key, or -1. The receiver
// is resolved, here and below.
func (a Assignment) find(key string) int {
	return slices.IndexFunc(a.Slices, func(s Slice) bool { return s.holds(key) })
}

// assignRange gives [start, end) to the endpoints, cutting slices as needed.
// With drop the range is left without a slice.
func (a Assignment) assignRange(start, end string, endpoints []string, drop bool) Assignment {
	out := Assignment{Slices: make([]Slice, 0, len(a.Slices)+2)}
	for _, s := range a.Slices {
		if s.Start < start && below(start, s.End) {
			left := s
			left.End = start
			out.Slices = append(out.Slices, left)
			s.Start = start
		}
		if s.Start < start || !below(s.Start, end) {
			out.Slices = append(out.Slices, s)
			continue
		}
		if end != "" && below(end, s.End) { // what is right of the range stays
			s.Start = end
			out.Slices = append(out.Slices, s)
		}
	}
	if !drop {
		out.Slices = append(out.Slices, Slice{Start: start, End: end, Endpoints: slices.Clone(endpoints)})
	}
	slices.SortStableFunc(out.Slices, func(x, y Slice) int { return strings.Compare(x.Start, y.Start) })
	return out
}

// moveKey gives the whole slice that holds key to the endpoints.
func (a Assignment) moveKey(key string, endpoints []string) (Assignment, error) {
	i := a.find(key)
	if i < 0 {
		return a, errors.New("sdktest: no slice of the assignment covers this key, only keys of a slice can move")
	}
	out := Assignment{Slices: slices.Clone(a.Slices)}
	out.Slices[i].Endpoints = slices.Clone(endpoints)
	return out, nil
}

func (a Assignment) split(at string) (Assignment, error) {
	i := a.find(at)
	if i < 0 || a.Slices[i].Start == at {
		return a, errors.New("sdktest: cannot split here, want a key inside a slice and not its start")
	}
	out := Assignment{Slices: slices.Clone(a.Slices)}
	right := out.Slices[i]
	right.Start = at
	out.Slices[i].End = at
	out.Slices = slices.Insert(out.Slices, i+1, right)
	return out, nil
}

// merge joins the slice that ends at a key with the one that starts there; the
// left one's endpoints own both.
func (a Assignment) merge(at string) (Assignment, error) {
	left := slices.IndexFunc(a.Slices, func(s Slice) bool { return at != "" && s.End == at })
	right := slices.IndexFunc(a.Slices, func(s Slice) bool { return s.Start == at })
	if left < 0 || right < 0 {
		return a, errors.New("sdktest: cannot merge here, want the border of two slices")
	}
	out := Assignment{Slices: slices.Clone(a.Slices)}
	out.Slices[left].End = out.Slices[right].End
	out.Slices = slices.Delete(out.Slices, right, right+1)
	return out, nil
}
