package selection

import "slices"

// chunk is how many members one part of a Table holds.
const chunk = 64

// Table is an immutable list of members. Adding or removing one copies one part
// of it, so that its cost hardly grows with the list.
type Table struct {
	chunks [][]*Member // all full but the last, none empty
	n      int
}

// NewTable makes a table of ms, in their order. It keeps no reference to ms.
func NewTable(ms []*Member) *Table {
	t := &Table{n: len(ms), chunks: make([][]*Member, 0, (len(ms)+chunk-1)/chunk)}
	for part := range slices.Chunk(slices.Clone(ms), chunk) {
		t.chunks = append(t.chunks, part)
	}
	return t
}

// Len is the number of members. A nil Table has none.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	return t.n
}

// At returns member i, which must be below Len.
func (t *Table) At(i int) *Member { return t.chunks[uint(i)/chunk][uint(i)%chunk] }

// With returns a table that has m at its end. t, which may be nil, stays as it
// is.
func (t *Table) With(m *Member) *Table {
	if t.Len()%chunk == 0 {
		return &Table{chunks: appended(t.parts(), []*Member{m}), n: t.Len() + 1}
	}
	chunks := slices.Clone(t.chunks)
	last := len(chunks) - 1
	chunks[last] = appended(chunks[last], m)
	return &Table{chunks: chunks, n: t.n + 1}
}

// Without returns a table in which the last member takes the place of member i,
// and that member, nil if i was the last one itself. t stays as it is.
func (t *Table) Without(i int) (_ *Table, moved *Member) {
	chunks := slices.Clone(t.chunks)
	end := len(chunks) - 1
	tail := chunks[end]
	last := tail[len(tail)-1]
	if len(tail) == 1 {
		chunks = chunks[:end:end]
	} else {
		chunks[end] = slices.Clone(tail[:len(tail)-1])
	}
	if i == t.n-1 {
		return &Table{chunks: chunks, n: t.n - 1}, nil
	}
	c := uint(i) / chunk
	if int(c) != end {
		chunks[c] = slices.Clone(chunks[c])
	}
	chunks[c][uint(i)%chunk] = last
	return &Table{chunks: chunks, n: t.n - 1}, last
}

func (t *Table) parts() [][]*Member {
	if t == nil {
		return nil
	}
	return t.chunks
}

// appended is append that never writes into what old tables read.
func appended[T any](s []T, v T) []T {
	return append(append(make([]T, 0, len(s)+1), s...), v)
}
