package sdk_test

import (
	"testing"

	"github.com/slicewire/slicewire/sdk/sdktest"
)

// TestRoutesByKey is the whole of it in one: keys reach their owners, and follow
// a slice that moves.
func TestRoutesByKey(t *testing.T) {
	f := start(t, testSharding(), []string{"a", "b"})
	f.Sharding().Assign(testTarget, sdktest.Ranges(sdktest.From("", "a"), sdktest.From("m", "b")))
	for key, want := range map[string]string{"": "a", "alice": "a", "lzzz": "a", "m": "b", "zoe": "b"} {
		if got := f.who(t, key); got != want {
			t.Errorf("key %q reached %q, want %q", key, got, want)
		}
	}
	if _, err := f.Sharding().Move(testTarget, "zoe", "a"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the move", func() bool { return f.who(t, "zoe") == "a" })
}
