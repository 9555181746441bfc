package configsource

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// kind is what the value of a key is.
type kind uint8

const (
	kindString kind = iota
	kindBool
	kindInt
	kindFloat
	kindDuration
	kindStrings
	kindObject
	kindObjects
)

var kindNames = [...]string{
	kindString: "string", kindBool: "boolean", kindInt: "integer", kindFloat: "number",
	kindDuration: "duration", kindStrings: "list of strings", kindObject: "object", kindObjects: "list of objects",
}

func (k kind) String() string { return kindNames[k] }

// object is what a struct type of Config is as a table: its keys in their order.
type object struct {
	typ    reflect.Type
	fields []*field
	byKey  map[string]*field
	id     *field // the name by which an element of a list is known, nil if it has none
}

// field is one key: the tags of one struct field, read once.
type field struct {
	key     string
	goName  string
	index   []int
	kind    kind
	pointer bool
	elem    *object // of kindObject and kindObjects

	required bool
	ordered  bool
	unit     string
	reload   Reload
	standard any    // the default as a value of kind, nil if there is none
	derived  string // what the default is made from, in words
	bounds   bounds
	enum     []string
	only     condition
}

// condition is when a key has a meaning: when another key has one of some values.
type condition struct {
	key    string
	values []string
}

// root is the table of Config.
var root = sync.OnceValue(func() *object {
	return newObject(reflect.TypeFor[Config]())
})

func newObject(typ reflect.Type) *object {
	o := &object{typ: typ, byKey: make(map[string]*field)}
	o.add(typ, nil)
	return o
}

func (o *object) add(typ reflect.Type, at []int) {
	for i := range typ.NumField() {
		sf := typ.Field(i)
		index := append(slices.Clone(at), i)
		if sf.Anonymous {
			o.add(sf.Type, index)
			continue
		}
		f := newField(sf, index)
		if o.byKey[f.key] != nil {
			panic(fmt.Sprintf("configsource: %v has the key %q twice", typ, f.key))
		}
		o.fields = append(o.fields, f)
		o.byKey[f.key] = f
		if sf.Tag.Get("id") != "" {
			o.id = f
		}
	}
}

// newField reads the tags of a field. A bad tag is a mistake in this package, so it
// panics.
func newField(sf reflect.StructField, index []int) *field {
	f := &field{
		key:      sf.Tag.Get("key"),
		goName:   sf.Name,
		index:    index,
		required: sf.Tag.Get("required") != "",
		ordered:  sf.Tag.Get("ordered") != "",
		unit:     sf.Tag.Get("unit"),
		reload:   Reload(sf.Tag.Get("reload")),
		derived:  sf.Tag.Get("derived"),
	}
	if f.key == "" || !f.reload.known() {
		panic(fmt.Sprintf("configsource: the field %s needs the tags key and reload", sf.Name))
	}
	typ := sf.Type
	if typ.Kind() == reflect.Pointer {
		f.pointer, typ = true, typ.Elem()
	}
	switch {
	case typ == reflect.TypeFor[time.Duration]():
		f.kind = kindDuration
	case typ == reflect.TypeFor[[]string]():
		f.kind = kindStrings
	case typ.Kind() == reflect.Slice:
		f.kind, f.elem = kindObjects, newObject(typ.Elem())
	case typ.Kind() == reflect.Struct:
		f.kind, f.elem = kindObject, newObject(typ)
	case typ.Kind() == reflect.Bool:
		f.kind = kindBool
	case typ.Kind() == reflect.Int:
		f.kind = kindInt
	case typ.Kind() == reflect.Float64:
		f.kind = kindFloat
	case typ.Kind() == reflect.String:
		f.kind = kindString
	default:
		panic(fmt.Sprintf("configsource: the field %s has a type that no file can give, %v", sf.Name, sf.Type))
	}
	if text := sf.Tag.Get("enum"); text == "$codes" {
		f.enum = Codes()
	} else if text != "" {
		f.enum = strings.Split(text, "|")
	}
	if text, ok := sf.Tag.Lookup("default"); ok {
		f.standard = f.tagValue(text)
	}
	f.bounds = newBounds(f, sf.Tag)
	if text := sf.Tag.Get("only"); text != "" {
		key, values, _ := strings.Cut(text, "=")
		f.only = condition{key, strings.Split(values, "|")}
	}
	return f
}

// tagValue is a value of the field's kind as a tag gives it.
func (f *field) tagValue(text string) any {
	v, ok := parseText(f.kind, text)
	if !ok {
		panic(fmt.Sprintf("configsource: the tag value %q of %s is no %v", text, f.goName, f.kind))
	}
	return v
}

// of is the field in the struct that holds it.
func (f *field) of(holder reflect.Value) reflect.Value { return holder.FieldByIndex(f.index) }

// get is the field's value behind its pointer; ok is false if nothing was said.
// Required strings are said unless they are empty.
func (f *field) get(holder reflect.Value) (v reflect.Value, ok bool) {
	v = f.of(holder)
	switch {
	case f.pointer && v.IsNil():
		return v, false
	case f.pointer:
		return v.Elem(), true
	case f.kind == kindObject:
		return v, true
	case f.kind == kindStrings || f.kind == kindObjects:
		return v, v.Len() > 0
	}
	return v, !v.IsZero()
}

// set says a value: one that parseText gives.
func (f *field) set(holder reflect.Value, value any) {
	v := f.of(holder)
	if f.pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if list, ok := value.([]string); ok {
		value = slices.Clone(list)
	}
	v.Set(reflect.ValueOf(value))
}
