// Command generate makes the JSON Schema and the page of the configuration from the
// types of configsource: their tags, and the comments of their fields.
//
//	go -C configsource/generate run .
//
// It is a module of its own, so that what only makes a schema is not inherited by
// users of the SDK. Its test fails when what is checked in is not what it makes.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// The files, relative to the directory of this command.
const (
	typesDir   = ".."
	schemaFile = "../schema.json"
	pageFile   = "../../docs/configuration.md"
)

func main() {
	files, err := generate()
	for name, data := range files {
		if err == nil {
			err = os.WriteFile(filepath.FromSlash(name), data, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// generate makes every file.
func generate() (map[string][]byte, error) {
	c, err := readComments(typesDir)
	if err != nil {
		return nil, err
	}
	schema, err := makeSchema(c)
	if err != nil {
		return nil, err
	}
	page, err := makePage(c)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{schemaFile: schema, pageFile: page}, nil
}
