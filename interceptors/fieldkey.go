package interceptors

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// FieldKey takes the key from a field of the request. path is the field's name
// as in the .proto file, with the messages it lies in before it, joined by dots:
// "tenant" or "header.tenant.id".
//
// Strings and bytes are the key as they are; integers and enums in decimal.
// Other kinds (bool, floating point, message) and repeated fields or maps, at the
// end or on the way, are an error that names path, field and message, as is a
// field the request's message does not have.
//
// A field with presence (optional, oneof, proto2) that is not set, or a message
// on the way that is not set, is no key; set to the empty string it is the empty
// key. In a field without presence an empty string or bytes is no key, since it
// cannot be told from a forgotten one; a number is always a key, zero included,
// since zero is a number like any other.
//
// A stream opens before its first message is known, so this source has no key
// for it; where no other has one and a key is required the call fails with
// INVALID_ARGUMENT that says to use [WithKey].
func FieldKey(path string) KeySource {
	return &fieldKey{path: path, names: strings.Split(path, ".")}
}

type fieldKey struct {
	path  string
	names []string
	// plans caches a *fieldPlan by protoreflect.MessageDescriptor, so that
	// names are looked up once per message type.
	plans sync.Map
	// cached counts plans. A program that makes descriptors at run time must not
	// grow the cache for ever, so it stops taking more at maxFieldPlans.
	cached atomic.Int64
}

const maxFieldPlans = 1024

// fieldPlan is what path means in one message type.
type fieldPlan struct {
	fields []protoreflect.FieldDescriptor
	err    error
}

func (f *fieldKey) check() error {
	if slices.Contains(f.names, "") {
		return fmt.Errorf("field path %q is malformed; it needs field names joined by single dots, such as \"header.tenant_id\"", f.path)
	}
	return nil
}

func (f *fieldKey) Key(_ context.Context, _ string, req any) (string, bool, error) {
	if req == nil {
		return "", false, &noRequestError{path: f.path}
	}
	msg := reflection(req)
	if msg == nil {
		return "", false, fmt.Errorf("field path %q needs a protobuf request; this one is a %T: use FuncKey for it", f.path, req)
	}
	plan := f.plan(msg.Descriptor())
	if plan.err != nil {
		return "", false, plan.err
	}
	last := len(plan.fields) - 1
	for _, fd := range plan.fields[:last] {
		if !msg.Has(fd) {
			return "", false, nil
		}
		msg = msg.Get(fd).Message()
	}
	return fieldValue(msg, plan.fields[last])
}

// why says which field gives no key, and never what another one holds.
func (f *fieldKey) why(_ string, req any) string {
	msg := reflection(req)
	if msg == nil {
		return ""
	}
	for i, fd := range f.plan(msg.Descriptor()).fields {
		path := strings.Join(f.names[:i+1], ".")
		switch {
		case fd.HasPresence() && !msg.Has(fd):
			return fmt.Sprintf("the request's field %q is not set", path)
		case i == len(f.names)-1:
			return fmt.Sprintf("the request's field %q is empty", path)
		}
		msg = msg.Get(fd).Message()
	}
	return ""
}

// reflection is req as a message of protobuf's present API, nil if it is none.
func reflection(req any) protoreflect.Message {
	switch req := req.(type) {
	case proto.Message:
		return req.ProtoReflect()
	case protoadapt.MessageV1:
		return protoadapt.MessageV2Of(req).ProtoReflect()
	}
	return nil
}

func (f *fieldKey) plan(md protoreflect.MessageDescriptor) *fieldPlan {
	if p, ok := f.plans.Load(md); ok {
		return p.(*fieldPlan)
	}
	p := f.newPlan(md)
	if f.cached.Load() < maxFieldPlans {
		if _, loaded := f.plans.LoadOrStore(md, p); !loaded {
			f.cached.Add(1)
		}
	}
	return p
}

func (f *fieldKey) newPlan(md protoreflect.MessageDescriptor) *fieldPlan {
	if err := f.check(); err != nil {
		return &fieldPlan{err: err}
	}
	var p fieldPlan
	for i, name := range f.names {
		fd := md.Fields().ByName(protoreflect.Name(name))
		if fd == nil {
			p.err = fmt.Errorf("field path %q: message %s has no field %q", f.path, md.FullName(), name)
			return &p
		}
		last := i == len(f.names)-1
		switch {
		case fd.IsList() || fd.IsMap():
			p.err = fmt.Errorf("field path %q: field %q of message %s holds many values; a key is one: use FuncKey", f.path, name, md.FullName())
		case last && !keyKind(fd.Kind()):
			p.err = fmt.Errorf("field path %q: field %q of message %s is a %s; a key is a string, bytes, an integer or an enum", f.path, name, md.FullName(), fd.Kind())
		case !last && fd.Message() == nil:
			p.err = fmt.Errorf("field path %q: field %q of message %s is a %s and has no field %q", f.path, name, md.FullName(), fd.Kind(), f.names[i+1])
		}
		if p.err != nil {
			return &p
		}
		p.fields = append(p.fields, fd)
		md = fd.Message()
	}
	return &p
}

func keyKind(kind protoreflect.Kind) bool {
	switch kind {
	case protoreflect.BoolKind, protoreflect.FloatKind, protoreflect.DoubleKind, protoreflect.MessageKind, protoreflect.GroupKind:
		return false
	}
	return true
}

func fieldValue(msg protoreflect.Message, fd protoreflect.FieldDescriptor) (string, bool, error) {
	if fd.HasPresence() && !msg.Has(fd) {
		return "", false, nil
	}
	v := msg.Get(fd)
	switch fd.Kind() {
	case protoreflect.StringKind:
		s := v.String()
		return s, s != "" || fd.HasPresence(), nil
	case protoreflect.BytesKind:
		s := string(v.Bytes())
		return s, s != "" || fd.HasPresence(), nil
	case protoreflect.EnumKind:
		return strconv.FormatInt(int64(v.Enum()), 10), true, nil
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return strconv.FormatUint(v.Uint(), 10), true, nil
	default: // keyKind left only the signed integers
		return strconv.FormatInt(v.Int(), 10), true, nil
	}
}
