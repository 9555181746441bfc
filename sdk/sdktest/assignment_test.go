package sdktest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// show writes an assignment as "[start,end)=owners".
func show(a Assignment) []string {
	var out []string
	for _, s := range a.Slices {
		out = append(out, fmt.Sprintf("[%s,%s)=%s", s.Start, s.End, strings.Join(s.Endpoints, "+")))
	}
	return out
}

func TestAssignmentChanges(t *testing.T) {
	three := Ranges(From("", "a"), From("h", "b"), From("p", "c", "d")).resolved()
	gap := Assignment{Slices: []Slice{{End: "c", Endpoints: []string{"a"}}, From("m", "b")}}.resolved()
	tests := []struct {
		name   string
		change func() (Assignment, error)
		want   []string // nil: an error
	}{
		{
			"ends follow the next start", func() (Assignment, error) { return three, nil },
			[]string{"[,h)=a", "[h,p)=b", "[p,)=c+d"},
		},
		{"ends follow the next start whatever the order", func() (Assignment, error) {
			return Ranges(From("m", "b"), From("", "a")).resolved(), nil
		}, []string{"[m,)=b", "[,m)=a"}},
		{"an explicit end leaves a gap", func() (Assignment, error) { return gap, nil }, []string{"[,c)=a", "[m,)=b"}},
		{
			"move a key", func() (Assignment, error) { return three.moveKey("kay", []string{"x"}) },
			[]string{"[,h)=a", "[h,p)=x", "[p,)=c+d"},
		},
		{
			"move the empty key", func() (Assignment, error) { return three.moveKey("", []string{"x"}) },
			[]string{"[,h)=x", "[h,p)=b", "[p,)=c+d"},
		},
		{"move a key of a gap", func() (Assignment, error) { return gap.moveKey("d", []string{"x"}) }, nil},
		{
			"move a range inside a slice", func() (Assignment, error) { return three.assignRange("j", "k", []string{"x"}, false), nil },
			[]string{"[,h)=a", "[h,j)=b", "[j,k)=x", "[k,p)=b", "[p,)=c+d"},
		},
		{
			"move a range over borders", func() (Assignment, error) { return three.assignRange("c", "z", []string{"x"}, false), nil },
			[]string{"[,c)=a", "[c,z)=x", "[z,)=c+d"},
		},
		{
			"move everything", func() (Assignment, error) { return three.assignRange("", "", []string{"x"}, false), nil },
			[]string{"[,)=x"},
		},
		{
			"move what is one slice", func() (Assignment, error) { return three.assignRange("h", "p", []string{"x"}, false), nil },
			[]string{"[,h)=a", "[h,p)=x", "[p,)=c+d"},
		},
		{
			"move into a gap", func() (Assignment, error) { return gap.assignRange("d", "e", []string{"x"}, false), nil },
			[]string{"[,c)=a", "[d,e)=x", "[m,)=b"},
		},
		{
			"drop a range", func() (Assignment, error) { return three.assignRange("q", "r", nil, true), nil },
			[]string{"[,h)=a", "[h,p)=b", "[p,q)=c+d", "[r,)=c+d"},
		},
		{
			"split", func() (Assignment, error) { return three.split("q") },
			[]string{"[,h)=a", "[h,p)=b", "[p,q)=c+d", "[q,)=c+d"},
		},
		{"split at a start", func() (Assignment, error) { return three.split("h") }, nil},
		{"merge", func() (Assignment, error) { return three.merge("h") }, []string{"[,p)=a", "[p,)=c+d"}},
		{"merge the last", func() (Assignment, error) { return three.merge("p") }, []string{"[,h)=a", "[h,)=b"}},
		{"merge at no border", func() (Assignment, error) { return three.merge("q") }, nil},
		{"merge at the start", func() (Assignment, error) { return three.merge("") }, nil},
		{"merge over a gap", func() (Assignment, error) { return gap.merge("m") }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.change()
			if (err != nil) != (tt.want == nil) {
				t.Fatalf("error %v", err)
			}
			if err == nil {
				if diff := cmp.Diff(tt.want, show(got)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	if diff := cmp.Diff([]string{"[,h)=a", "[h,p)=b", "[p,)=c+d"}, show(three)); diff != "" {
		t.Errorf("a change changed its origin: %s", diff)
	}
}

func TestEven(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 300} {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprint(i))
		}
		a := Even(names...).resolved()
		owned := make(map[string]int)
		for v := range 1 << 16 {
			i := a.find(string([]byte{byte(v >> 8), byte(v)}))
			if i < 0 {
				t.Fatalf("%d endpoints: nobody owns %x", n, v)
			}
			owned[a.Slices[i].Endpoints[0]]++
		}
		for name, got := range owned {
			if want := 1 << 16 / n; got < want-1 || got > want+1 {
				t.Errorf("%d endpoints: %s owns %d, want about %d", n, name, got, want)
			}
		}
	}
	if a := Even(); len(a.Slices) != 0 {
		t.Errorf("nobody owns %v", a.Slices)
	}
}
