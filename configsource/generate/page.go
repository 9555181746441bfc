package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"

	"github.com/slicewire/slicewire/configsource"
)

// intro is what stands before the keys.
//
//go:embed intro.md
var intro string

// makePage writes the page: what is to be known, then a table for each object.
func makePage(c comments) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(intro)
	keys := configsource.Keys()
	if err := table(&b, c, keys, ""); err != nil {
		return nil, err
	}
	for _, k := range keys {
		if !strings.Contains(k.Kind, "object") {
			continue
		}
		prefix := k.Path + "."
		if k.Kind == "list of objects" {
			prefix = k.Path + "[]."
		}
		fmt.Fprintf(&b, "\n### `%s`\n\n", strings.TrimSuffix(prefix, "."))
		meaning, err := c.meaning(k.Type, k.Field, last(k.Path))
		if err != nil {
			return nil, err
		}
		b.WriteString(wrap(meaning) + "\n\n")
		if err := table(&b, c, keys, prefix); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// effects are what a reload does, in a word or two.
var effects = map[configsource.Reload]string{
	configsource.Live: "live", configsource.Reconnect: "reconnects", configsource.AtStart: "refused",
}

// table writes the keys right below a prefix.
func table(b *bytes.Buffer, c comments, keys []configsource.Key, prefix string) error {
	b.WriteString("| Key | Value | Default | Meaning | Environment | Reload |\n|---|---|---|---|---|---|\n")
	for _, k := range keys {
		name, below := strings.CutPrefix(k.Path, prefix)
		if !below || strings.Contains(name, ".") {
			continue
		}
		meaning, err := c.meaning(k.Type, k.Field, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | `%s` | %s |\n", name, value(k), standard(k), cell(meaning), k.Env, effects[k.Reload])
	}
	return nil
}

// value is what a key's value may be, for a cell.
func value(k configsource.Key) string {
	what := k.Kind
	switch {
	case k.Enum != nil && k.Kind == "list of strings":
		what = "list of status codes"
	case k.Enum != nil:
		what = "`" + strings.Join(k.Enum, "`, `") + "`"
	case k.Unit != "":
		what += ", " + k.Unit
	}
	var limits []string
	for _, l := range []struct{ word, is string }{{"at least ", k.Min}, {"above ", k.Above}, {"at most ", k.Max}} {
		if l.is != "" {
			limits = append(limits, l.word+l.is)
		}
	}
	if len(limits) > 0 {
		what += ", " + strings.Join(limits, ", ")
	}
	return what
}

// standard is a key's default, for a cell.
func standard(k configsource.Key) string {
	switch {
	case k.Required:
		return "required"
	case k.DefaultFrom != "":
		return cell(k.DefaultFrom)
	case k.Default == "":
		return "none"
	case k.Kind == "string":
		return "`" + strings.Trim(k.Default, `"`) + "`"
	case k.Kind == "list of strings":
		return "`" + strings.NewReplacer(`"`, "", "[", "", "]", "").Replace(k.Default) + "`"
	}
	return "`" + k.Default + "`"
}

// cell keeps text within a cell of a table.
func cell(text string) string {
	text = strings.ReplaceAll(text, "|", `\|`)
	return strings.ReplaceAll(text, "/*", "/\\*")
}

// wrap breaks a paragraph into lines of at most 110 bytes.
func wrap(text string) string {
	var b strings.Builder
	length := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case length == 0:
		case length+1+len(word) > 110:
			b.WriteByte('\n')
			length = 0
		default:
			b.WriteByte(' ')
			length++
		}
		b.WriteString(word)
		length += len(word)
	}
	return b.String()
}
