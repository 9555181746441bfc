package wire

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	// A binary that links grpc-go's own policy beside ours must start.
	_ "google.golang.org/grpc/balancer/autosharding"
)

const (
	otherPackage = "google.cloud.autosharding.v1"
	otherPath    = "proto/autosharding/v1/autosharding.proto"
)

// otherCopy registers, in the process-wide registries, a second copy of the
// protocol under its original names and path: what another library's generated
// code does in its init. It runs once, for the registries cannot forget.
var otherCopy = sync.OnceValues(func() (protoreflect.FileDescriptor, error) {
	file, err := protodesc.NewFile(renamed(otherPackage, otherPath), protoregistry.GlobalFiles)
	if err != nil {
		return nil, err
	}
	return file, register(file)
})

// renamed is the description of our file with another package and path, and
// with the service that ours leaves to service.go.
func renamed(pkg, path string) *descriptorpb.FileDescriptorProto {
	ours := File_internal_wire_autosharding_proto
	fd := protodesc.ToFileDescriptorProto(ours)
	oldPrefix := "." + fd.GetPackage() + "."
	newPrefix := "." + pkg + "."
	var rename func(*descriptorpb.DescriptorProto)
	rename = func(m *descriptorpb.DescriptorProto) {
		for _, f := range m.Field {
			if rest, ok := strings.CutPrefix(f.GetTypeName(), oldPrefix); ok {
				f.TypeName = proto.String(newPrefix + rest)
			}
		}
		for _, nested := range m.NestedType {
			rename(nested)
		}
	}
	for _, m := range fd.MessageType {
		rename(m)
	}
	fd.Name, fd.Package, fd.Options = &path, &pkg, nil
	fd.Service = []*descriptorpb.ServiceDescriptorProto{{
		Name: proto.String("AutoshardingService"),
		Method: []*descriptorpb.MethodDescriptorProto{{
			Name:            proto.String(watchStream),
			InputType:       proto.String(newPrefix + "WatchShardingAssignmentRequest"),
			OutputType:      proto.String(newPrefix + "WatchShardingAssignmentResponse"),
			ClientStreaming: proto.Bool(true),
			ServerStreaming: proto.Bool(true),
		}},
	}}
	return fd
}

func register(file protoreflect.FileDescriptor) error {
	if err := protoregistry.GlobalFiles.RegisterFile(file); err != nil {
		return err
	}
	for i := range file.Messages().Len() {
		if err := protoregistry.GlobalTypes.RegisterMessage(dynamicpb.NewMessageType(file.Messages().Get(i))); err != nil {
			return err
		}
	}
	return nil
}

// TestOtherCopyLinks registers the other copy and exchanges every golden value
// between the two: same bytes, different Go types, no conflict.
func TestOtherCopyLinks(t *testing.T) {
	file, err := otherCopy()
	if err != nil {
		t.Fatalf("a copy of the protocol under its original names does not register beside ours: %v", err)
	}
	method := file.Services().Get(0).Methods().Get(0)
	if got := "/" + string(method.Parent().FullName()) + "/" + string(method.Name()); got != WatchMethod {
		t.Errorf("the other copy calls %q, we call %q", got, WatchMethod)
	}
	for _, tt := range golden {
		t.Run(tt.name, func(t *testing.T) {
			name := tt.msg.ProtoReflect().Descriptor().Name()
			ours, err := protoregistry.GlobalTypes.FindMessageByName(tt.msg.ProtoReflect().Descriptor().FullName())
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := protoregistry.GlobalTypes.FindMessageByName(otherPackage + "." + protoreflect.FullName(name))
			if err != nil {
				t.Fatal(err)
			}
			want := goldenBytes(t, tt.hex)
			for _, typ := range []protoreflect.MessageType{ours, theirs} {
				m := typ.New().Interface()
				if err := proto.Unmarshal(want, m); err != nil {
					t.Fatalf("%s: %v", typ.Descriptor().FullName(), err)
				}
				if unknown := m.ProtoReflect().GetUnknown(); len(unknown) > 0 {
					t.Errorf("%s did not understand %x", typ.Descriptor().FullName(), unknown)
				}
				got, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s marshals to %x, want %x", typ.Descriptor().FullName(), got, want)
				}
			}
		})
	}
}

// TestOtherCopyWouldConflict shows that the test above can fail: under our own
// path, or under our own package, a second copy is refused.
func TestOtherCopyWouldConflict(t *testing.T) {
	ours := File_internal_wire_autosharding_proto
	for _, tt := range []struct{ name, pkg, path string }{
		{"same package", string(ours.Package()), "some/other/path.proto"},
		{"same path", "some.other.package", ours.Path()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, err := protodesc.NewFile(renamed(tt.pkg, tt.path), protoregistry.GlobalFiles)
			if err != nil {
				t.Fatal(err)
			}
			// A private registry: the process-wide one panics, as it would at start.
			files := new(protoregistry.Files)
			if err := files.RegisterFile(ours); err != nil {
				t.Fatal(err)
			}
			if err := files.RegisterFile(file); err == nil {
				t.Error("registered; the registry no longer refuses conflicts, so TestOtherCopyLinks shows nothing")
			}
		})
	}
}
