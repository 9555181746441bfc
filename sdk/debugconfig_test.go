package sdk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/sdk"
)

// TestDebugConfig: the page shows where each value in force came from, and what is
// wrong with a version that was refused, also after it was mended.
func TestDebugConfig(t *testing.T) {
	p := startPlaces(t, "a")
	file := filepath.Join(t.TempDir(), "client.yaml")
	write := func(recovery string) {
		t.Helper()
		text := fmt.Sprintf("targets:\n  - {name: main, uri: %q}\ngroups:\n  - name: default\n    targets: [main]\n    recovery: %s\n", "dns:///"+p["a"].Addr(), recovery)
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write("300ms")
	client, err := sdk.Dial("", sdk.WithTransportCredentials(insecure.NewCredentials()), sdk.WithConfigFile(file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	shows := func(parts ...string) bool {
		body := page(t, client, "config").Body.String()
		for _, part := range parts {
			if !strings.Contains(body, part) {
				return false
			}
		}
		return true
	}
	if !shows("client.yaml", "recovery: 300ms", "client.yaml:6", "1 applied, 0 refused") {
		t.Errorf("the page of a good file: %s", page(t, client, "config").Body)
	}
	write("soon")
	eventually(t, "the refusal on the page", func() bool {
		return shows("The newest version is not in force", "1 applied, 1 refused", "soon", "client.yaml:6", "recovery: 300ms")
	})
	var c struct {
		Config struct {
			LastRefused struct{ Problems []string } `json:"last_refused"`
		}
	}
	if facts(t, page(t, client, "config?format=json"), &c); len(c.Config.LastRefused.Problems) != 1 || !strings.Contains(c.Config.LastRefused.Problems[0], "groups[0].recovery") {
		t.Errorf("the problems are %q", c.Config.LastRefused.Problems)
	}
	write("400ms")
	eventually(t, "the mended file on the page", func() bool {
		return shows("2 applied, 1 refused", "recovery: 400ms", "The last one that was refused", "soon") && !shows("The newest version is not in force")
	})
	if w := page(t, client, "events"); !strings.Contains(w.Body.String(), "a configuration was refused") || !strings.Contains(w.Body.String(), "a configuration was applied") {
		t.Errorf("events: %s", w.Body)
	}
}
