package sdk_test

import (
	"testing"
	"time"

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
	generation, err := f.Sharding().Move(testTarget, "zoe", "a")
	if err != nil {
		t.Fatal(err)
	}
	// The ack, and Status.Generation, say what picks do: no RPC comes too early.
	if ack, err := f.Sharding().WaitAck(within(t, 10*time.Second), testTarget, generation); err != nil || !ack.Accepted {
		t.Fatalf("ack %+v, %v", ack, err)
	}
	if got := f.client.Status().Generation; got != generation {
		t.Errorf("picks use generation %d after the ack of %d", got, generation)
	}
	if got := f.who(t, "zoe"); got != "a" {
		t.Errorf("after the ack of the move the RPC reached %q, want a", got)
	}
}
