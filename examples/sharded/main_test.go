package main

import (
	"flag"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/slicewire/slicewire/sdk/sdktest"
)

// A forgotten key is not the empty one.
func TestKeyIsRequired(t *testing.T) {
	b, err := sdktest.StartBackend("a", sdktest.WithServices(func(r grpc.ServiceRegistrar) {
		healthpb.RegisterHealthServer(r, health.NewServer())
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := sdktest.StartSharding()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Assign("profiles", sdktest.Ranges(sdktest.From("", b.Addr())))

	set := func(name, value string) {
		t.Helper()
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	set("target", b.Addr())
	set("sharder", s.Addr())
	set("sharding-target", "profiles")
	set("insecure", "true")
	if err := run(); err == nil || !strings.Contains(err.Error(), "-key is required") {
		t.Errorf("without -key: %v", err)
	}
	if n := b.Count(); n != 0 {
		t.Errorf("%d calls were sent", n)
	}
	for _, key := range []string{"", "user-4711"} {
		b.Forget()
		set("key", key)
		if err := run(); err != nil {
			t.Fatal(err)
		}
		if keys := b.Keys("x-key"); len(keys) != 1 || keys[0] != key {
			t.Errorf("the header holds %q, want %q", keys, key)
		}
	}
}
