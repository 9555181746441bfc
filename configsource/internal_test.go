package configsource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
)

// TestCR08QueueOverflows: 50,000 files that appear beside the file, while events are
// not fetched, overflow the system's queue, and the edit among them is lost. It is
// found all the same, without polling.
func TestCR08QueueOverflows(t *testing.T) {
	dir := inMemory(t)
	path := filepath.Join(dir, "client.yaml")
	save := func(name string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("client: {name: "+name+"}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save("v1")
	f := newFile(path, FileOptions{Settle: 10 * time.Millisecond, Poll: -1})
	held, stuck := make(chan struct{}), make(chan struct{}, 1)
	var holding atomic.Bool
	f.handled = func() {
		if holding.Load() {
			select {
			case stuck <- struct{}{}:
			default:
			}
			<-held
		}
	}
	names := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- source{stack{f}}.Watch(ctx, nil, func(u *Update, err error) {
			if err != nil {
				t.Errorf("published %v", err)
				return
			}
			names <- *u.Config().Client.Name
		})
	}()
	want := func(name string) {
		t.Helper()
		select {
		case got := <-names:
			if got != name {
				t.Errorf("published %s, want %s", got, name)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s was not published", name)
		}
	}
	want("v1")
	holding.Store(true)
	for i := range 50_000 {
		if err := os.Symlink("client.yaml", filepath.Join(dir, fmt.Sprint("beside", i))); err != nil {
			t.Fatal(err)
		}
	}
	<-stuck
	save("v2") // after the queue was full
	holding.Store(false)
	close(held)
	want("v2")
	save("v3")
	want("v3")
	cancel()
	<-ended
}

// inMemory is a directory in memory, where there is one: 50,000 files take long on
// some disks.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "configsource")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestPolledAlone: where the system gives no watch, the poll finds what changed.
func TestPolledAlone(t *testing.T) {
	newWatcher = func() (*fsnotify.Watcher, error) { return nil, errors.New("too many open files") }
	defer func() { newWatcher = fsnotify.NewWatcher }()
	path := filepath.Join(t.TempDir(), "client.yaml")
	var log strings.Builder
	src := File(path, FileOptions{Settle: time.Millisecond, Poll: 5 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	names := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- src.Watch(ctx, nil, func(u *Update, err error) {
			if err == nil {
				names <- *u.Config().Client.Name
			}
		})
	}()
	for i := range 3 {
		want := fmt.Sprint("v", i)
		if err := os.WriteFile(path, []byte("client: {name: "+want+"}"), 0o600); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-names:
			if got != want {
				t.Errorf("published %s, want %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s was not published", want)
		}
	}
	cancel()
	<-ended
	if !strings.Contains(log.String(), "only polled") {
		t.Errorf("the log is %q", log.String())
	}
}

func TestNearest(t *testing.T) {
	known := []string{"drainTimeout", "retireTimeout", "name", "keys"}
	for name, want := range map[string]string{
		"draintimeout": "drainTimeout", "drainTimout": "drainTimeout", "nmae": "name", "retireTimeOut": "retireTimeout",
		"key": "keys", "xyz": "", "": "", strings.Repeat("n", 100): "", "n": "",
	} {
		if got := nearest(name, known); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
	for _, d := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"targets", "target", 1}} {
		if got := distance(d.a, d.b); got != d.want {
			t.Errorf("distance of %q and %q is %d, want %d", d.a, d.b, got, d.want)
		}
	}
}

// FuzzLoad: no bytes panic, and what is accepted is valid, can be explained and read
// back, and is what a Config of code gives.
func FuzzLoad(f *testing.F) {
	formats := []Format{YAML, JSON, TOML}
	for _, example := range []string{"all.yaml", "plain.yaml", "formats/client.yaml", "formats/client.json", "formats/client.toml"} {
		data, err := os.ReadFile(filepath.Join("testdata", example))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint8(0))
		f.Add(data, uint8(1))
		f.Add(data, uint8(2))
	}
	f.Add([]byte("a: &a [*a]"), uint8(0))
	f.Add([]byte("<<: [{a: 1}]\n? [x]\n: 1"), uint8(0))
	f.Add([]byte(`{"client":{"name":"\ud800"}}`), uint8(1))
	f.Add([]byte("[[groups]]\n[groups.x]\n[[groups.x.y]]"), uint8(2))
	f.Add([]byte("groups = [{name='a',targets=['x:1']}]"), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, which uint8) {
		format := formats[int(which)%len(formats)]
		u, err := parsed(data, format)
		if err != nil {
			if len(Problems(err)) == 0 || err.Error() == "" {
				t.Fatalf("%v is no list of problems", err)
			}
			return
		}
		checkAccepted(t, u)
	})
}

// FuzzEnv: no variable panics, and what is accepted is valid.
func FuzzEnv(f *testing.F) {
	base, err := os.ReadFile(filepath.Join("testdata", "all.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("GROUPS_0_TARGETS_1", "main")
	f.Add("GROUPS", `[{"name":"a","targets":["main"]}]`)
	f.Add("HEALTH", `{"checker":{"kind":"tcp"}}`)
	f.Add("CLIENT_DRAIN_TIMEOUT", "5s")
	f.Add("BREAKER_CODES", "UNKNOWN,ABORTED")
	f.Fuzz(func(t *testing.T, name, value string) {
		e := newEnv("", func() []string { return []string{"SLICEWIRE_" + name + "=" + value} })
		r, err := e.read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		file := fileLayer{newFile("base.yaml", FileOptions{}), base}
		if u, err := assemble([]reading{{layer: file}, r}); err == nil {
			checkAccepted(t, u)
		}
	})
}

func parsed(data []byte, f Format) (*Update, error) {
	return assemble([]reading{{layer: fileLayer{newFile("fuzz", FileOptions{Format: f}), data}}})
}

func checkAccepted(t *testing.T, u *Update) {
	t.Helper()
	c := u.Config()
	if err := c.Validate(); err != nil {
		t.Fatalf("what was accepted is not valid: %v", err)
	}
	full := c.WithDefaults()
	if err := full.Validate(); err != nil {
		t.Fatalf("its defaults are not valid: %v", err)
	}
	var b strings.Builder
	if err := u.Explain(&b); err != nil {
		t.Fatal(err)
	}
	again, err := parsed([]byte(b.String()), YAML)
	if err != nil {
		t.Fatalf("what was explained cannot be read: %v\n%s", err, b.String())
	}
	if diff := cmp.Diff(full, again.Config()); diff != "" {
		t.Fatalf("what was explained reads back as another: %s\n%s", diff, b.String())
	}
	code, err := NewUpdate(c, "code")
	if err != nil {
		t.Fatalf("as a Config of code it is not valid: %v", err)
	}
	if diff := cmp.Diff(c, code.Config()); diff != "" {
		t.Fatalf("as a Config of code it is another: %s", diff)
	}
	if changes := Diff(c, code.Config()); len(changes) > 0 {
		t.Fatalf("it differs from itself: %v", changes)
	}
}
