package arch

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is the import path of the source tree's root.
const Module = "github.com/slicewire/slicewire"

// Package is one directory of Go files as its files read, whatever their build
// tags.
type Package struct {
	// Path is the directory, relative to the root, with slashes; "." is the root.
	Path string
	// Name is the package clause of its non-test files.
	Name string
	// Doc is its package comment, all files together.
	Doc string
	// Imports are what the non-test files import, sorted.
	Imports []string
	// TestImports are what the _test.go files import, sorted.
	TestImports []string
	// Tests are the functions in _test.go files that go test knows: Test,
	// Benchmark, Fuzz and Example.
	Tests []string
	// TestText is the text of the _test.go files.
	TestText string
}

// Root is the directory of the nearest go.mod of Module, from dir upwards.
func Root(dir string) (string, error) {
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && slices.Contains(strings.Split(string(mod), "\n"), "module "+Module) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod with module %s above the working directory", Module)
		}
		dir = parent
	}
}

// Load reads every package under root, nested modules included: a room keeps
// its rules when it gets a go.mod of its own.
func Load(root string) ([]*Package, error) {
	byPath := map[string]*Package{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		p := byPath[rel]
		if p == nil {
			p = &Package{Path: rel}
			byPath[rel] = p
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return p.add(name, src)
	})
	if err != nil {
		return nil, err
	}
	packages := make([]*Package, 0, len(byPath))
	for _, p := range byPath {
		packages = append(packages, p)
	}
	slices.SortFunc(packages, func(a, b *Package) int { return strings.Compare(a.Path, b.Path) })
	return packages, nil
}

// add reads one file of the package.
func (p *Package) add(name string, src []byte) error {
	isTest := strings.HasSuffix(name, "_test.go")
	mode := parser.ParseComments | parser.SkipObjectResolution
	if !isTest {
		mode |= parser.ImportsOnly
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, src, mode)
	if err != nil {
		return fmt.Errorf("%s/%w", p.Path, err)
	}
	imports := &p.Imports
	if isTest {
		imports = &p.TestImports
	}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return errors.Join(fmt.Errorf("%s/%s: import %s", p.Path, name, spec.Path.Value), err)
		}
		if i, found := slices.BinarySearch(*imports, path); !found {
			*imports = slices.Insert(*imports, i, path)
		}
	}
	if !isTest {
		p.Name = file.Name.Name
		p.Doc += file.Doc.Text()
		return nil
	}
	p.TestText += string(src)
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && isTestName(f.Name.Name) {
			p.Tests = append(p.Tests, f.Name.Name)
		}
	}
	return nil
}

// isTestName reports whether go test knows a function of this name.
func isTestName(name string) bool {
	for _, prefix := range []string{"Test", "Benchmark", "Fuzz", "Example"} {
		rest, ok := strings.CutPrefix(name, prefix)
		if ok && name != "TestMain" && (rest == "" || rest[0] < 'a' || rest[0] > 'z') {
			return true
		}
	}
	return false
}
