package sdk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/configsource"
	"github.com/slicewire/slicewire/sdk"
)

// configFile is a configuration file of a test.
type configFile struct {
	t    testing.TB
	path string
}

func newConfigFile(t testing.TB, text string) *configFile {
	t.Helper()
	f := &configFile{t, filepath.Join(t.TempDir(), "client.yaml")}
	f.save(text)
	return f
}

// save replaces the file as editors do: a new one is renamed over it.
func (f *configFile) save(text string) {
	f.t.Helper()
	must(f.t, os.WriteFile(f.path+"~", []byte(text), 0o600))
	must(f.t, os.Rename(f.path+"~", f.path))
}

// followed has a client follow the file without much patience.
func (f *configFile) followed() sdk.Option {
	return sdk.WithConfigSource(configsource.File(f.path, configsource.FileOptions{Settle: 5 * time.Millisecond}))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dialConfigured makes a client of what the file says.
func dialConfigured(t testing.TB, f *configFile, opts ...sdk.Option) *sdk.Client {
	t.Helper()
	client, err := sdk.Dial("", slices.Concat([]sdk.Option{
		sdk.WithTransportCredentials(insecure.NewCredentials()), quickReconnect, f.followed(),
	}, opts)...)
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// targets is the head of a configuration file: p's servers as targets.
func (p places) targets() string {
	text := "targets:\n"
	for _, c := range p.topology().Targets {
		text += fmt.Sprintf("  - {name: %s, uri: \"%s\"}\n", c.Name, c.URI)
	}
	return text
}

// versions waits until a client has applied n versions.
func versions(t testing.TB, client *sdk.Client, n uint64) sdk.ConfigStatus {
	t.Helper()
	eventually(t, fmt.Sprintf("version %d", n), func() bool { return client.Status().Configuration.Applied >= n })
	return client.Status().Configuration
}

// refusals waits until a client has refused n versions.
func refusals(t testing.TB, client *sdk.Client, n uint64) sdk.ConfigStatus {
	t.Helper()
	eventually(t, fmt.Sprintf("refusal %d", n), func() bool { return client.Status().Configuration.Refused >= n })
	return client.Status().Configuration
}
