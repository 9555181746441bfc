package linked_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestWhatIsInherited: what a user's program links of OpenTelemetry and viper
// (docs/rooms.md).
func TestWhatIsInherited(t *testing.T) {
	const module = "github.com/slicewire/slicewire/"
	for _, c := range []struct {
		room string
		none []string // prefixes of packages
	}{
		{"balancer", []string{"go.opentelemetry.io/", "github.com/spf13/"}},
		{"interceptors", []string{"go.opentelemetry.io/", "github.com/spf13/"}},
		{"configsource", []string{"go.opentelemetry.io/", "google.golang.org/grpc"}},
		{"sdk", []string{"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters", module + "sdk/sdktest"}},
	} {
		out, err := exec.Command("go", "list", "-deps", module+c.room).Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		for p := range strings.Lines(string(out)) {
			for _, prefix := range c.none {
				if strings.HasPrefix(p, prefix) {
					t.Errorf("a program with %s links %s", c.room, strings.TrimSpace(p))
				}
			}
		}
	}
}
