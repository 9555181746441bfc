package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Page is one Markdown file.
type Page struct {
	// Path is relative to the root.
	Path string
	Text string
}

// LoadPages reads the Markdown files at the root and under docs.
func LoadPages(root string) ([]Page, error) {
	var pages []Page
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return nil, err
			}
			pages = append(pages, Page{filepath.ToSlash(rel), string(text)})
		}
	}
	return pages, nil
}

// testRef is a test as pages name it: `balancer/keyrange.TestFind`, or
// `balancer.TestPick/AP-01 stale` for one case of a table.
var testRef = regexp.MustCompile("`([a-z0-9_/]+)\\.((?:Test|Fuzz|Benchmark|Example)[A-Za-z0-9_]*)(?:/([^`]+))?`")

// CheckTestRefs returns every test that a page names and the tree lacks. Of a
// case, the name must stand in the package's tests; whether the case is reached
// is beyond this check.
func CheckTestRefs(pages []Page, packages []*Package) []string {
	var problems []string
	for _, page := range pages {
		for n, line := range strings.Split(page.Text, "\n") {
			for _, m := range testRef.FindAllStringSubmatch(line, -1) {
				if reason := missingTest(packages, m[1], m[2], m[3]); reason != "" {
					problems = append(problems, fmt.Sprintf("%s:%d names %s, but %s", page.Path, n+1, m[0], reason))
				}
			}
		}
	}
	return problems
}

func missingTest(packages []*Package, path, test, subtest string) string {
	i := slices.IndexFunc(packages, func(p *Package) bool { return p.Path == path })
	switch {
	case i < 0:
		return "there is no package " + path
	case !slices.Contains(packages[i].Tests, test):
		return "package " + path + " has no " + test
	case !strings.Contains(packages[i].TestText, subtest):
		return fmt.Sprintf("the tests of %s do not contain %q", path, subtest)
	}
	return ""
}

// CheckHeldBy returns every row of a table with a last column "Held by" that
// names no test there.
func CheckHeldBy(pages []Page) []string {
	var problems []string
	for _, page := range pages {
		inTable := false
		for n, line := range strings.Split(page.Text, "\n") {
			cells := tableCells(line)
			last := ""
			if len(cells) > 0 {
				last = cells[len(cells)-1]
			}
			switch {
			case len(cells) == 0:
				inTable = false
			case last == "Held by":
				inTable = true
			case inTable && strings.Trim(last, "-:") != "" && !testRef.MatchString(last),
				inTable && last == "":
				problems = append(problems, fmt.Sprintf("%s:%d: row %q names no test that holds it", page.Path, n+1, cells[0]))
			}
		}
	}
	return problems
}

// tableCells splits a row of a Markdown table; nil for any other line. Code
// spans must not contain a bar.
func tableCells(line string) []string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") || !strings.HasSuffix(line, "|") || len(line) < 2 {
		return nil
	}
	cells := strings.Split(line[1:len(line)-1], "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// caseID is the id of a case, in the first column of a table of docs/cases.md.
var caseID = regexp.MustCompile(`^[A-Z]{1,2}-\d{2}$`)

// What looks like the id of a case in the text of a test file, and in a test's name.
var (
	idInText = regexp.MustCompile(`[A-Z]{1,2}-\d{2}`)
	idInName = regexp.MustCompile(`[A-Z]{1,2}\d{2}`)
)

// CheckCases returns every case that the page lists and no test carries: its id
// stands in the text of a test file, as A-26 is written, or in the name of a
// test, as in TestA26AggregatedState or TestG06A26Standby.
func CheckCases(page Page, packages []*Package) []string {
	carried := make(map[string]bool)
	for _, p := range packages {
		if p.Path == "internal/arch" {
			continue
		}
		// No letter or digit around it: A-10 is neither in PA-10 nor in A-101.
		for _, at := range idInText.FindAllStringIndex(p.TestText, -1) {
			if !endsAlphanumeric(p.TestText[:at[0]]) && !beginsWithDigit(p.TestText[at[1]:]) {
				carried[p.TestText[at[0]:at[1]]] = true
			}
		}
		for _, name := range p.Tests {
			for _, at := range idInName.FindAllStringIndex(name, -1) {
				if at[0] > 0 && !isUpper(name[at[0]-1]) && !beginsWithDigit(name[at[1]:]) {
					carried[name[at[0]:at[1]-2]+"-"+name[at[1]-2:at[1]]] = true
				}
			}
		}
	}
	var problems []string
	for n, line := range strings.Split(page.Text, "\n") {
		if cells := tableCells(line); len(cells) > 0 && caseID.MatchString(cells[0]) && !carried[cells[0]] {
			problems = append(problems, fmt.Sprintf("%s:%d: no test carries case %s", page.Path, n+1, cells[0]))
		}
	}
	return problems
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func beginsWithDigit(s string) bool { return s != "" && isDigit(s[0]) }

func endsAlphanumeric(s string) bool {
	if s == "" {
		return false
	}
	c := s[len(s)-1]
	return isDigit(c) || isUpper(c) || 'a' <= c && c <= 'z'
}

var pageLink = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)

// CheckLinks returns every link from a page to a file that is not there.
func CheckLinks(root string, pages []Page) []string {
	var problems []string
	for _, page := range pages {
		for _, m := range pageLink.FindAllStringSubmatch(page.Text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := filepath.Join(root, filepath.Dir(filepath.FromSlash(page.Path)), filepath.FromSlash(m[1]))
			if _, err := os.Stat(target); err != nil {
				problems = append(problems, fmt.Sprintf("%s links to %s, which does not exist", page.Path, m[1]))
			}
		}
	}
	return problems
}
