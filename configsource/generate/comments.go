package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// comments are what the types and their fields say of themselves, by the name of a
// type, or of a type and a field as in Group.Targets.
type comments map[string]string

// readComments reads the Go files of a directory.
func readComments(dir string) (comments, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	c := make(comments)
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				c.add(g)
			}
		}
	}
	return c, nil
}

func (c comments) add(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		t := spec.(*ast.TypeSpec)
		s, ok := t.Type.(*ast.StructType)
		if !ok {
			continue
		}
		c[t.Name.Name] = oneLine(g.Doc)
		for _, f := range s.Fields.List {
			for _, name := range f.Names {
				c[t.Name.Name+"."+name.Name] = oneLine(f.Doc)
			}
		}
	}
}

func oneLine(g *ast.CommentGroup) string { return strings.Join(strings.Fields(g.Text()), " ") }

// meaning is the comment of a field with the key in place of the field's name: a
// file knows keys alone.
func (c comments) meaning(typ, field, key string) (string, error) {
	text := c[typ+"."+field]
	if text == "" {
		return "", fmt.Errorf("%s.%s has no comment", typ, field)
	}
	if rest, ok := strings.CutPrefix(text, field+" "); ok {
		text = "`" + key + "` " + rest
	}
	return text, nil
}
