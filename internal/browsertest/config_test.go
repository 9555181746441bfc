package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/sdk"
	"github.com/slicewire/slicewire/sdk/sdktest"
)

// TestRefusedConfig: an operator reads what is wrong with a file that was refused,
// with the line; what the file holds is hostile.
func TestRefusedConfig(t *testing.T) {
	s, err := sdktest.StartBackend("a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "client.yaml")
	write := func(target string) {
		t.Helper()
		text := fmt.Sprintf("targets:\n  - {name: main, uri: %q}\ngroups:\n  - name: default\n    targets: [%q]\n", "dns:///"+s.Addr(), target)
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write("main")
	client, err := sdk.Dial("", sdk.WithTransportCredentials(insecure.NewCredentials()), sdk.WithConfigFile(file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	b := open(t, client)
	b.visit("config")
	b.wants("main", "1 applied, 0 refused", "client.yaml:2")
	write("none" + evil)
	eventually(t, "the refusal on the page", func() bool {
		b.visit("config")
		return strings.Contains(b.text("main"), "1 applied, 1 refused")
	})
	b.wants("#problems", "client.yaml:5", "groups[0].targets[0]", "alert(")
	b.wants("pre", "targets:", "client.yaml:2")
	b.picture("config-refused")
}
