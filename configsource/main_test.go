package configsource_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slicewire/slicewire/configsource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick are the settings of watched files in tests: they settle soon, and nothing
// but events wakes them.
var quick = configsource.FileOptions{Settle: 20 * time.Millisecond, Poll: -1}

// file writes a file of the test's own.
func file(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	write(t, path, text)
	return path
}

// write writes a file in place.
func write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// save writes a file beside and renames it over, as editors do.
func save(t testing.TB, path, text string) {
	t.Helper()
	write(t, path+"~", text)
	must(t, os.Rename(path+"~", path))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func load(t testing.TB, s configsource.Source) *configsource.Update {
	t.Helper()
	u, err := s.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// loadText reads text as if it were in a file of that name.
func loadText(t testing.TB, name, text string) (*configsource.Update, error) {
	t.Helper()
	return configsource.File(file(t, name, text), configsource.FileOptions{}).Load(context.Background())
}

// named is a configuration whose client has that name, which tells versions apart.
func named(name string) string { return "client: {name: " + name + "}\n" }

// reading is what was published once.
type reading struct {
	update *configsource.Update
	err    error
}

func (r reading) name() string {
	if r.update == nil {
		return "error"
	}
	if n := r.update.Config().Client.Name; n != nil {
		return *n
	}
	return ""
}

// watching is a watch in a goroutine of its own.
type watching struct {
	t         testing.TB
	published chan reading
	cancel    context.CancelFunc
	ended     chan error
}

// watch starts one. hook, if any, runs in publish before the test is told.
func watch(t testing.TB, s configsource.Source, since *configsource.Update, hook func(reading)) *watching {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watching{t, make(chan reading, 10_000), cancel, make(chan error, 1)}
	go func() {
		w.ended <- s.Watch(ctx, since, func(u *configsource.Update, err error) {
			if hook != nil {
				hook(reading{u, err})
			}
			w.published <- reading{u, err}
		})
	}()
	t.Cleanup(w.stop)
	return w
}

// stop ends the watch and waits for it. It may be called twice.
func (w *watching) stop() {
	w.cancel()
	select {
	case err := <-w.ended:
		w.ended <- err
		if !errors.Is(err, context.Canceled) {
			w.t.Errorf("Watch ended with %v, want context.Canceled", err)
		}
	case <-time.After(10 * time.Second):
		w.t.Error("Watch did not end within 10 s")
	}
}

// next is the next publication.
func (w *watching) next() reading {
	w.t.Helper()
	select {
	case r := <-w.published:
		return r
	case <-time.After(10 * time.Second):
		w.t.Fatal("nothing was published within 10 s")
		return reading{}
	}
}

// want checks that the next publication is of that version.
func (w *watching) want(name string) *configsource.Update {
	w.t.Helper()
	r := w.next()
	if r.err != nil {
		w.t.Fatalf("published %v, want %s", r.err, name)
	}
	if r.name() != name {
		w.t.Fatalf("published %s, want %s", r.name(), name)
	}
	return r.update
}

// wantError checks that the next publication is an error about something.
func (w *watching) wantError(about string) error {
	w.t.Helper()
	r := w.next()
	if r.err == nil || !strings.Contains(r.err.Error(), about) {
		w.t.Fatalf("published %s and %v, want an error about %q", r.name(), r.err, about)
	}
	return r.err
}

// until is the first publication of that version; all before it are let go by.
func (w *watching) until(name string) {
	w.t.Helper()
	for got := ""; got != name; {
		got = w.next().name()
	}
}
