package selection

// View is the candidates of one attempt: the members that were READY, of which
// some may be excluded (a retry excludes what the call has tried, admission what
// it refused). It is passed by value and valid until Select returns; what a
// policy wants longer it has to copy.
type View struct {
	table    *Table
	excluded exclusions
}

// NewView makes a view, for tests of policies.
func NewView(ms ...*Member) View { return View{table: NewTable(ms)} }

// ViewOf makes a view of all members of t, which may be nil. It allocates
// nothing.
func ViewOf(t *Table) View { return View{table: t} }

// Len is the number of members, excluded ones included.
func (v View) Len() int { return v.table.Len() }

// Member returns member i, 0 <= i < Len.
func (v View) Member(i int) *Member { return v.table.At(i) }

// Excluded says whether member i must not be chosen.
func (v View) Excluded(i int) bool { return v.excluded.has(i) }

// Available is the number of members that are not excluded.
func (v View) Available() int { return v.table.Len() - int(v.excluded.n) }

// Excluding returns a view in which member i is excluded as well. v stays as it
// is.
func (v View) Excluding(i int) View {
	v.excluded.own()
	v.Exclude(i)
	return v
}

// Exclude excludes member i as well; one that is excluded already or that is
// not in the view changes nothing. It is Excluding for the owner of a view: it
// allocates nothing for the first few members and once for all others, and
// copies of v made before may see the change or not.
func (v *View) Exclude(i int) {
	if n := v.table.Len(); uint(i) < uint(n) {
		v.excluded.add(i, n)
	}
}
