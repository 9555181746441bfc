package arch

import (
	"slices"
	"strings"
	"testing"
)

func loadPages(t *testing.T, root string) []Page {
	t.Helper()
	pages, err := LoadPages(root)
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func findPage(t *testing.T, pages []Page, path string) Page {
	t.Helper()
	i := slices.IndexFunc(pages, func(p Page) bool { return p.Path == path })
	if i < 0 {
		t.Fatalf("no page %s", path)
	}
	return pages[i]
}

// TestDocsNameTestsThatExist: docs/a119.md says which test holds each rule.
func TestDocsNameTestsThatExist(t *testing.T) {
	root, packages := tree(t)
	pages := loadPages(t, root)
	if n := len(testRef.FindAllString(findPage(t, pages, "docs/a119.md").Text, -1)); n < 50 {
		t.Errorf("docs/a119.md names %d tests; the pattern no longer reads the page", n)
	}
	report(t, CheckTestRefs(pages, packages))
	report(t, CheckHeldBy(pages))
}

// TestEveryCaseHasATest: docs/cases.md lists the cases, tests carry their ids.
func TestEveryCaseHasATest(t *testing.T) {
	root, packages := tree(t)
	report(t, CheckCases(findPage(t, loadPages(t, root), "docs/cases.md"), packages))
}

func TestLinksResolve(t *testing.T) {
	root, _ := tree(t)
	report(t, CheckLinks(root, loadPages(t, root)))
}

// TestRoomsPageIsComplete: docs/rooms.md draws every room of the table.
func TestRoomsPageIsComplete(t *testing.T) {
	root, _ := tree(t)
	text := findPage(t, loadPages(t, root), "docs/rooms.md").Text
	for _, r := range Rooms {
		if !strings.Contains(text, "`"+r.Path+"`") {
			t.Errorf("docs/rooms.md does not mention `%s`", r.Path)
		}
	}
}

func TestTestRefsRefused(t *testing.T) {
	packages := []*Package{{
		Path: "balancer/keyrange", Tests: []string{"TestFind", "FuzzFind"}, TestText: `{"PF-10 edges", 1}`,
	}}
	for _, tt := range []struct{ name, text, want string }{
		{"a test", "`balancer/keyrange.TestFind`", ""},
		{"a fuzz target", "see `balancer/keyrange.FuzzFind`.", ""},
		{"a case", "`balancer/keyrange.TestFind/PF-10 edges`", ""},
		{"no test but a name", "`keyrange.Index` and `grpc.Dial`", ""},
		{"no such package", "`keyrange.TestFind`", "no package keyrange"},
		{"no such test", "line\n`balancer/keyrange.TestLost`", "x.md:2 names `balancer/keyrange.TestLost`"},
		{"no such case", "`balancer/keyrange.TestFind/PF-11`", `do not contain "PF-11"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(CheckTestRefs([]Page{{"x.md", tt.text}}, packages), "\n")
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestHeldByRefused(t *testing.T) {
	for _, tt := range []struct{ name, row, want string }{
		{"named", "| rule | `a.TestB` |", ""},
		{"empty", "| rule |  |", `row "rule" names no test`},
		{"words", "| rule | by care |", `row "rule" names no test`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := "| Rule | Held by |\n|---|---|\n" + tt.row + "\n\n| other | table |\n"
			got := strings.Join(CheckHeldBy([]Page{{"x.md", text}}), "\n")
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCasesRefused(t *testing.T) {
	page := Page{"cases.md", "| Case | What |\n|---|---|\n| A-10 | x |\n"}
	for _, tt := range []struct {
		name, path, text, test string
		found                  bool
	}{
		{"in a case's name", "balancer", `{"A-10 falls back"}`, "TestX", true},
		{"in a comment", "balancer", "// TestX is A-10.", "TestX", true},
		{"in a test's name", "balancer", "", "TestA10FallsBack", true},
		{"after another id in a name", "balancer", "", "TestHR04A10FallsBack", true},
		{"a longer id is another", "balancer", "PA-10 A-101", "TestPA10", false},
		{"a longer id in a name is another", "balancer", "", "TestA101", false},
		{"arch does not count", "internal/arch", "A-10", "TestA10", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			problems := CheckCases(page, []*Package{{Path: tt.path, TestText: tt.text, Tests: []string{tt.test}}})
			if found := len(problems) == 0; found != tt.found {
				t.Errorf("found = %v (%q), want %v", found, problems, tt.found)
			}
		})
	}
}

func TestLinksRefused(t *testing.T) {
	root := t.TempDir()
	for _, tt := range []struct {
		link string
		good bool
	}{
		{"https://example.com/x", true},
		{".", true},
		{"lost.md", false},
		{"lost.md#part", false},
	} {
		problems := CheckLinks(root, []Page{{"x.md", "[x](" + tt.link + ")"}})
		if good := len(problems) == 0; good != tt.good {
			t.Errorf("link %q: good = %v, want %v", tt.link, good, tt.good)
		}
	}
}
