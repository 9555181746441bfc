package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/slicewire/slicewire/configsource"
	"github.com/slicewire/slicewire/sdk"
)

// TestCR07BadConfigOfClient: a bad file is an error of Dial. Later it is counted once
// for each edit and the last good one serves on; what was good before is good again.
func TestCR07BadConfigOfClient(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	good := p.targets() + "groups:\n  - {name: default, targets: [a]}\n"
	bad := map[string]string{
		"recovery":             strings.Replace(good, "[a]", "[b], recovery: -1s", 1),
		"kind":                 strings.Replace(good, "[a]", "[b]", 1) + "selectors:\n  - {name: x, policy: {kind: nearest}}\n",
		"retries":              strings.Replace(good, "[a]", "[b]", 1) + "retries: 3\n",
		"no resolver":          strings.Replace(good, "[a]", "['nowhere:///x']", 1),
		"inCode.selectors":     strings.Replace(good, "[a]", "[b]", 1) + "inCode: {selectors: [nearest]}\n",
		"profile":              strings.Replace(good, "[a]", "[b]", 1) + "inCode: {profiles: [mtls]}\nshardingServices:\n  - {key: x, uri: 'x:1', profile: mtls}\n",
		"yaml":                 "groups: [",
		"there is no group":    p.targets(),
		"inCode.shardingServi": strings.Replace(good, "[a]", "[b]", 1) + "inCode: {shardingServices: [main]}\n",
	}
	for reason, text := range bad {
		f := newConfigFile(t, text)
		client, err := sdk.Dial("", sdk.WithTransportCredentials(insecure.NewCredentials()), f.followed())
		if err == nil {
			_ = client.Close()
			t.Errorf("Dial took a bad file: %s", text)
		} else if !strings.Contains(err.Error(), reason) && reason != "yaml" && reason != "there is no group" {
			t.Errorf("Dial says %v, want it to name %q", err, reason)
		}
	}
	f := newConfigFile(t, good)
	var log logBook
	client := dialConfigured(t, f, log.option())
	served(t, client, "default", "a")
	n := uint64(0)
	for reason, text := range bad {
		f.save(text)
		n++
		s := refusals(t, client, n)
		if s.LastError == nil || !strings.Contains(s.LastError.Error(), reason) || s.Applied != 1 {
			t.Errorf("after a bad edit the status is %+v, want the reason to name %q", s, reason)
		}
		served(t, client, "default", "a")
	}
	if lines := strings.Count(log.String(), "a configuration was refused"); lines != int(n) {
		t.Errorf("%d log lines, want one for each of %d edits", lines, n)
	}
	f.save(good)
	eventually(t, "no error", func() bool { return client.Status().Configuration.LastError == nil })
	if s := client.Status().Configuration; s.Refused != n || s.Applied != 1 || p["a"].Connections().Accepted != 1 {
		t.Errorf("%d refused and %d applied, want %d and 1; %d connections", s.Refused, s.Applied, n, p["a"].Connections().Accepted)
	}
	f.save(strings.Replace(good, "[a]", "[b]", 1))
	served(t, client, "default", "b")
}

// TestCR03SameBytesOfClient: a file that is written again as it was, touched and
// given other rights is no work.
func TestCR03SameBytesOfClient(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a")
	text := p.targets() + "groups:\n  - {name: default, targets: [a]}\n"
	f := newConfigFile(t, text)
	client := dialConfigured(t, f)
	served(t, client, "default", "a")
	for i := range 10 {
		f.save(text)
		must(t, os.Chtimes(f.path, time.Now(), time.Now()))
		must(t, os.Chmod(f.path, os.FileMode(0o600+i%2*0o40)))
		time.Sleep(10 * time.Millisecond)
	}
	f.save(text + "# nothing that counts\n")
	f.save(text + "client: {keys: optional}\n")
	if s := versions(t, client, 2); s.Applied != 2 || len(s.Changed.Changes) != 1 || !s.Changed.Topology.Empty() {
		t.Errorf("%d applied, the last changed %+v; want two, of one key", s.Applied, s.Changed)
	}
	if n := p["a"].Connections().Accepted; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// version is a configuration in which two groups have the same targets.
func version(p places, name string) *configsource.Config {
	c := &configsource.Config{Groups: []configsource.Group{{Name: "x", Targets: []string{name}}, {Name: "y", Targets: []string{name}}}}
	for _, t := range p.topology().Targets {
		c.Targets = append(c.Targets, configsource.Target{Name: t.Name, URI: t.URI})
	}
	return c
}

// TestCR04OneVersionOfClient: readers never see two settings differ that are equal in
// every version.
func TestCR04OneVersionOfClient(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b")
	client, err := sdk.Dial("", sdk.WithTransportCredentials(insecure.NewCredentials()), sdk.WithGroup("x", p["a"].Addr()))
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	_, err = client.Apply(t.Context(), version(p, "a"))
	must(t, err)
	over := make(chan struct{})
	var readers sync.WaitGroup
	for range 16 {
		readers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if g := client.Topology().Groups; len(g) != 2 || g[0].Targets[0] != g[1].Targets[0] {
					t.Errorf("a reader saw %+v", g)
					return
				}
				runtime.Gosched()
			}
		})
	}
	for i := range 200 {
		change, err := client.Apply(t.Context(), version(p, []string{"b", "a"}[i%2]))
		if err != nil || len(change.Changes) != 2 || len(change.Topology.Groups.Changed) != 2 {
			t.Fatalf("version %d: %+v, %v", i, change, err)
		}
	}
	close(over)
	readers.Wait()
}

// TestCR06NamesOfClient: groups whose names differ in their case are two.
func TestCR06NamesOfClient(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "Svc.EU", "svc.eu")
	f := newConfigFile(t, p.targets()+`
groups:
  - {name: Read-EU, targets: [Svc.EU]}
  - {name: read-eu, targets: [svc.eu]}
`)
	client := dialConfigured(t, f)
	served(t, client, "Read-EU", "Svc.EU")
	served(t, client, "read-eu", "svc.eu")
}

// numbered is a configuration with a number that Topology shows.
func (p places) numbered(i int) string {
	return p.targets() + fmt.Sprintf("groups:\n  - {name: default, targets: [a], recovery: %dms}\n", 1000+i)
}

func number(client *sdk.Client) int {
	return int(client.Topology().Groups[0].Failover.Recovery.Milliseconds()) - 1000
}

// TestCR01KubernetesSwapOfClient: five versions of a mounted ConfigMap are applied in
// order, each once.
func TestCR01KubernetesSwapOfClient(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a")
	dir := t.TempDir()
	swap := func(i int) {
		data, version := filepath.Join(dir, "..data"), fmt.Sprintf("..%d", i)
		old, _ := os.Readlink(data) // none at first
		must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, version, "client.yaml"), []byte(p.numbered(i)), 0o600))
		must(t, os.Symlink(version, data+"_tmp"))
		must(t, os.Rename(data+"_tmp", data))
		if old != "" {
			must(t, os.RemoveAll(filepath.Join(dir, old)))
		}
	}
	swap(0)
	f := &configFile{t, filepath.Join(dir, "client.yaml")}
	must(t, os.Symlink(filepath.Join("..data", "client.yaml"), f.path))
	client := dialConfigured(t, f)
	served(t, client, "default", "a")
	for i := 1; i <= 5; i++ {
		swap(i)
		// The count follows what it counts.
		eventually(t, fmt.Sprintf("version %d", i), func() bool { return number(client) == i && client.Status().Configuration.Applied > uint64(i) })
		if s := client.Status().Configuration; s.Applied != uint64(i+1) || s.Refused != 0 {
			t.Errorf("version %d: %d applied, %d refused", i, s.Applied, s.Refused)
		}
	}
	if n := p["a"].Connections().Accepted; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// TestCR08EditorsOfClient: whatever was done to the file, the next edit counts, and
// while it is gone the last good one serves.
func TestCR08EditorsOfClient(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a")
	dir := filepath.Join(t.TempDir(), "etc")
	must(t, os.Mkdir(dir, 0o700))
	f := &configFile{t, filepath.Join(dir, "client.yaml")}
	f.save(p.numbered(0))
	client := dialConfigured(t, f)
	next := 0
	edited := func(what string) {
		t.Helper()
		next++
		f.save(p.numbered(next))
		eventually(t, "an edit after "+what, func() bool { return number(client) == next })
		served(t, client, "default", "a")
	}
	edited("a rename over it")
	must(t, os.Remove(f.path))
	if s := refusals(t, client, 1); !errors.Is(s.LastError, os.ErrNotExist) {
		t.Errorf("the file is gone, and the status says %v", s.LastError)
	}
	served(t, client, "default", "a")
	edited("its absence")
	must(t, os.Rename(dir, dir+"-old"))
	must(t, os.Mkdir(dir, 0o700))
	edited("another directory")
	if s := client.Status().Configuration; s.LastError != nil {
		t.Errorf("in the end the status says %v", s.LastError)
	}
}

// TestCR09LastEditWinsOfClient: of two edits at once the second is in force, and
// versions never go back.
func TestCR09LastEditWinsOfClient(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a")
	f := newConfigFile(t, p.numbered(0))
	client := dialConfigured(t, f)
	over := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for newest := 0; ; time.Sleep(time.Millisecond) {
			select {
			case <-over:
				return
			default:
			}
			if n := number(client); n < newest {
				t.Errorf("version %d came after %d", n, newest)
			} else {
				newest = n
			}
		}
	})
	for i := 1; i <= 100; i++ {
		f.save(p.numbered(2*i - 1))
		time.Sleep(5 * time.Millisecond)
		f.save(p.numbered(2 * i))
		eventually(t, "the last version", func() bool { return number(client) == 2*i })
	}
	close(over)
	reader.Wait()
}

// TestLL03ClientsStopWatching: clients that follow a file leave no descriptor and no
// goroutine (which TestMain looks for).
func TestLL03ClientsStopWatching(t *testing.T) {
	inotifies := func() (n int) {
		entries, _ := os.ReadDir("/proc/self/fd") // without /proc there is nothing to count
		for _, e := range entries {
			if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.Contains(to, "inotify") {
				n++
			}
		}
		return n
	}
	p := startPlaces(t, "a")
	f := newConfigFile(t, p.numbered(0))
	before := settledGoroutines(t)
	had := inotifies()
	for range 10 {
		var clients []*sdk.Client
		for range 10 {
			client, err := sdk.Dial("", sdk.WithTransportCredentials(insecure.NewCredentials()), f.followed())
			must(t, err)
			clients = append(clients, client)
		}
		for _, client := range clients {
			must(t, client.Close())
			if _, err := client.Apply(t.Context(), &configsource.Config{}); !errors.Is(err, sdk.ErrClosed) {
				t.Errorf("Apply after Close: %v", err)
			}
		}
	}
	f.save(p.numbered(1))
	if now := settledGoroutines(t); now > before+2 {
		t.Errorf("%d goroutines, %d before", now, before)
	}
	if now := inotifies(); now > had {
		t.Errorf("%d inotify descriptors, %d before", now, had)
	}
}

// TestConfigVariable: SLICEWIRE_CONFIG names the file where code names none.
func TestConfigVariable(t *testing.T) {
	p := startPlaces(t, "a", "b")
	f := newConfigFile(t, p.targets()+"groups:\n  - {name: default, targets: [a]}\n")
	t.Setenv(sdk.ConfigVariable, f.path)
	creds := sdk.WithTransportCredentials(insecure.NewCredentials())
	client, err := sdk.Dial("", creds)
	must(t, err)
	defer client.Close()
	served(t, client, "default", "a")
	if s := client.Status().Configuration; !strings.Contains(s.Source, f.path) || !strings.Contains(s.Source, sdk.ConfigVariable) || s.Applied != 1 {
		t.Errorf("the status is %+v", s)
	}
	plain, err := sdk.Dial("dns:///"+p["b"].Addr(), creds, sdk.WithSelector("default", pinTo("b")), sdk.WithConfigSource(nil))
	must(t, err)
	defer plain.Close()
	if s := plain.Status().Configuration; s.Applied != 0 || len(plain.Topology().Groups) != 1 {
		t.Errorf("a client without configuration has %+v", s)
	}
	t.Setenv("SLICEWIRE_GROUPS_0_TARGETS", "b")
	other, err := sdk.Dial("", creds, sdk.WithConfigFile(f.path))
	must(t, err)
	defer other.Close()
	served(t, other, "default", "b")
	t.Setenv(sdk.ConfigVariable, f.path+"x")
	if _, err = sdk.Dial("", creds); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	t.Setenv(sdk.ConfigVariable, "")
	if _, err = sdk.Dial("", creds, sdk.WithDialProfile("p", sdk.WithConfigFile("x"))); err == nil || !strings.Contains(err.Error(), "WithConfigSource") {
		t.Errorf("a file for a profile: %v", err)
	}
}

// TestApply: what is refused changes nothing, and what changes touches nothing else.
func TestApply(t *testing.T) {
	t.Parallel()
	p := startPlaces(t, "a", "b", "c")
	client, err := sdk.Dial("", sdk.WithTransportCredentials(insecure.NewCredentials()), sdk.WithTopology(p.topology(group("code", "c"))))
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	served(t, client, "code", "c")
	apply := func(c *configsource.Config) sdk.ConfigChange {
		t.Helper()
		change, err := client.Apply(t.Context(), c)
		must(t, err)
		return change
	}
	if change := apply(version(p, "a")); len(change.Topology.Groups.Added) != 2 || client.Topology().Groups[0].Name != "code" {
		t.Errorf("two groups more: %+v, of %+v", change, client.Topology().Groups)
	}
	served(t, client, "x", "a")
	if change := apply(version(p, "a")); !change.Empty() || client.Status().Configuration.Applied != 1 {
		t.Errorf("the same again: %+v", change)
	}

	name := "shop"
	named := version(p, "b")
	named.Client.Name = &name
	if _, err = client.Apply(t.Context(), named); err == nil || !strings.Contains(err.Error(), "client.name") {
		t.Errorf("a key that is read at the start alone: %v", err)
	}
	if _, err = client.Apply(t.Context(), nil); err == nil {
		t.Error("nil was taken")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = client.Apply(gone, version(p, "b")); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is over: %v", err)
	}
	if got := client.Topology().Groups[1].Targets[0]; got != "a" {
		t.Errorf("what was refused led to %q", got)
	}

	over := version(p, "b") // another group of code's name
	over.Groups = append(over.Groups, configsource.Group{Name: "code", Targets: []string{"a"}})
	apply(over)
	served(t, client, "code", "a")
	served(t, client, "x", "b")
	apply(&configsource.Config{})
	served(t, client, "code", "c")
	if g := client.Topology().Groups; len(g) != 1 {
		t.Errorf("with nothing configured there are %+v", g)
	}
	for _, name := range []string{"b"} {
		if n := p[name].Connections().Accepted; n != 1 {
			t.Errorf("%s had %d connections, want 1", name, n)
		}
	}
}
