package selection

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// list is the members of t, by name.
func list(t *Table) []string {
	var names []string
	for i := range t.Len() {
		names = append(names, t.At(i).Name())
	}
	return names
}

// change does one step on t and on a slice, as bytes tell it, and returns both.
func change(t *Table, model []string, step byte, next int) (*Table, []string, error) {
	if step%2 == 0 || len(model) == 0 {
		m := NewMember(fmt.Sprint(next), Info{}, nil)
		return t.With(m), append(slices.Clone(model), m.Name()), nil
	}
	i := int(step/2) * len(model) / 128
	t, moved := t.Without(i)
	model = slices.Clone(model)
	last := model[len(model)-1]
	model[i] = last
	model = model[:len(model)-1]
	if i == len(model) {
		last = ""
	}
	if got := nameOf(moved); got != last {
		return t, model, fmt.Errorf("%q moved to %d, want %q", got, i, last)
	}
	return t, model, nil
}

func nameOf(m *Member) string {
	if m == nil {
		return ""
	}
	return m.Name()
}

// FuzzTable: a table is what a slice would be, and old tables stay as they were.
func FuzzTable(f *testing.F) {
	f.Add(uint8(0), []byte{0, 0, 1, 255, 1, 1})
	f.Add(uint8(64), []byte{255, 1, 0, 0, 0, 1, 99})
	f.Add(uint8(130), []byte{1, 255, 255, 255, 0, 2, 129})
	f.Fuzz(func(t *testing.T, size uint8, steps []byte) {
		var ms []*Member
		var model []string
		for i := range int(size) {
			ms = append(ms, NewMember(fmt.Sprint("m", i), Info{}, nil))
			model = append(model, ms[i].Name())
		}
		table := NewTable(ms)
		clear(ms) // the table has its own
		type version struct {
			table *Table
			model []string
		}
		versions := []version{{table, model}}
		for n, step := range steps[:min(len(steps), 200)] {
			var err error
			table, model, err = change(table, model, step, n)
			if err != nil {
				t.Fatalf("step %d: %v", n, err)
			}
			versions = append(versions, version{table, model})
			// Two tables from one must not write into each other.
			table.With(NewMember("beside", Info{}, nil))
		}
		for n, v := range versions {
			if diff := cmp.Diff(v.model, list(v.table), cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
				t.Fatalf("after %d steps (-want +got):\n%s", n, diff)
			}
		}
	})
}

// TestNilTable: what has no member needs no table.
func TestNilTable(t *testing.T) {
	var none *Table
	if none.Len() != 0 || ViewOf(none).Len() != 0 || ViewOf(none).Available() != 0 {
		t.Error("a nil table has members")
	}
	if got := list(none.With(NewMember("a", Info{}, nil))); !slices.Equal(got, []string{"a"}) {
		t.Errorf("a nil table with a has %v", got)
	}
}
