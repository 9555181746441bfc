package configsource_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slicewire/slicewire/configsource"
)

// TestCR03SameBytes: what is published next after ten writes of the same bytes, a
// touch and a chmod is what was changed after them.
func TestCR03SameBytes(t *testing.T) {
	path := file(t, "client.yaml", named("v1"))
	src := configsource.File(path, configsource.FileOptions{Settle: 20 * time.Millisecond, Poll: 2 * time.Millisecond})
	var reads atomic.Int32
	src = configsource.Overlay(src, configsource.EnvFrom("", func() []string { reads.Add(1); return nil }))
	w := watch(t, src, load(t, src), nil) // nor is what Load gave
	read := func() {
		for before := reads.Load(); reads.Load() < before+2; { // one that began afterwards
			runtime.Gosched()
		}
	}
	for range 10 {
		write(t, path, named("v1"))
		read()
		save(t, path, named("v1"))
		read()
	}
	now := time.Now()
	must(t, os.Chtimes(path, now, now))
	read()
	must(t, os.Chmod(path, 0o640))
	read()
	save(t, path, named("v2"))
	w.want("v2")
}

// TestCR04OneVersion: two settings that are equal in every version are equal in
// every one that is seen.
func TestCR04OneVersion(t *testing.T) {
	version := func(i int) string { return fmt.Sprintf("client: {name: v%d, drainTimeout: %ds}\n", i, i+1) }
	path := file(t, "client.yaml", version(0))
	src := configsource.File(path, configsource.FileOptions{Settle: time.Millisecond, Poll: -1})
	var now atomic.Pointer[configsource.Update]
	now.Store(load(t, src))
	w := watch(t, src, nil, func(r reading) {
		if r.err == nil {
			now.Store(r.update)
		}
	})
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 16 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				c := now.Load().Config()
				if want := fmt.Sprintf("v%d", int(c.Client.DrainTimeout.Seconds())-1); *c.Client.Name != want {
					t.Errorf("name %s beside the drain timeout of %s", *c.Client.Name, want)
					return
				}
				time.Sleep(100 * time.Microsecond) // leaves the writer some of two cores
			}
		})
	}
	for i := 1; i <= 200; i++ {
		save(t, path, version(i))
		w.until(fmt.Sprintf("v%d", i))
	}
	close(done)
	readers.Wait()
}

// TestCR07BadEdit: each bad edit is published once however often the file is
// polled, and a good one afterwards, be it the one before.
func TestCR07BadEdit(t *testing.T) {
	good := named("good")
	path := file(t, "client.yaml", good)
	src := configsource.File(path, configsource.FileOptions{Settle: time.Millisecond, Poll: time.Millisecond})
	var reads atomic.Int32
	src = configsource.Overlay(src, configsource.EnvFrom("", func() []string { reads.Add(1); return nil }))
	w := watch(t, src, nil, nil)
	w.want("good")
	for _, bad := range []struct{ text, about string }{
		{"client: {name: good, drainTimeout: -1s}", "client.drainTimeout is -1s"},
		{"selectors: [{name: a, policy: {kind: nearly_random}}]", `selectors[0].policy.kind is "nearly_random"`},
		{"client: {nome: good}", "did you mean name"},
		{"client: [", "this is no YAML"},
		{"", "the file is empty"},
		{"client: {name: good, drainTimeout: -1s}", "client.drainTimeout is -1s"},
	} {
		save(t, path, bad.text)
		err := w.wantError(bad.about)
		if !strings.Contains(err.Error(), path) {
			t.Errorf("%v does not name the file", err)
		}
		for before := reads.Load(); reads.Load() < before+20; { // polls
			runtime.Gosched()
		}
	}
	save(t, path, good)
	w.want("good") // next, so each was published once
}

// TestCR07BadAtStart: at the start a bad file is an error, not defaults.
func TestCR07BadAtStart(t *testing.T) {
	for _, text := range []string{"", "client: {drainTimeout: -1s}", "clint: {}", "[]", "42", "# nothing", "a: 1\n---\nb: 2"} {
		if u, err := loadText(t, "client.yaml", text); err == nil {
			t.Errorf("%q is read as %+v", text, u.Config())
		}
	}
	missing := filepath.Join(t.TempDir(), "none.yaml")
	if _, err := configsource.File(missing, configsource.FileOptions{}).Load(context.Background()); !os.IsNotExist(unwrapped(err)) {
		t.Errorf("a file that is not there gives %v", err)
	}
}

func unwrapped(err error) error {
	for _, p := range configsource.Problems(err) {
		return p.Err
	}
	return err
}

func TestCR08RenameOverSave(t *testing.T) {
	path := file(t, "client.yaml", named("v0"))
	w := watch(t, configsource.File(path, quick), nil, nil)
	w.want("v0")
	for i := 1; i <= 10; i++ {
		save(t, path, named(fmt.Sprintf("v%d", i)))
		w.want(fmt.Sprintf("v%d", i))
	}
}

// TestCR08DeletedAndBack: while the file is away that is said once, and the last
// good version is nobody's to take back.
func TestCR08DeletedAndBack(t *testing.T) {
	path := file(t, "client.yaml", named("v1"))
	w := watch(t, configsource.File(path, quick), nil, nil)
	w.want("v1")
	must(t, os.Remove(path))
	write(t, path, named("blink")) // not away for long
	w.want("blink")
	must(t, os.Remove(path))
	w.wantError("cannot be read")
	write(t, path, named("v2"))
	w.want("v2")
	must(t, os.Remove(path))
	w.wantError("cannot be read")
	write(t, path, named("v2"))
	w.want("v2") // the same bytes, but it had failed meanwhile
}

func TestCR08DirectoryReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etc")
	path := filepath.Join(dir, "client.yaml")
	must(t, os.Mkdir(dir, 0o700))
	write(t, path, named("v0"))
	w := watch(t, configsource.File(path, quick), nil, nil)
	w.want("v0")
	for i := 1; i <= 3; i++ { // moved away
		must(t, os.Rename(dir, fmt.Sprintf("%s.old%d", dir, i)))
		must(t, os.Mkdir(dir, 0o700))
		write(t, path, named(fmt.Sprintf("moved%d", i)))
		w.until(fmt.Sprintf("moved%d", i))
		save(t, path, named(fmt.Sprintf("edited%d", i)))
		w.until(fmt.Sprintf("edited%d", i))
	}
	for i := 1; i <= 3; i++ { // deleted
		must(t, os.RemoveAll(dir))
		must(t, os.Mkdir(dir, 0o700))
		write(t, path, named(fmt.Sprintf("deleted%d", i)))
		w.until(fmt.Sprintf("deleted%d", i))
		save(t, path, named(fmt.Sprintf("again%d", i)))
		w.until(fmt.Sprintf("again%d", i))
	}
}

// TestSlowWriter: a file that grows bit by bit ends as the whole of it.
func TestSlowWriter(t *testing.T) {
	path := file(t, "client.yaml", named("v1"))
	w := watch(t, configsource.File(path, configsource.FileOptions{Settle: 50 * time.Millisecond, Poll: -1}), nil, nil)
	w.want("v1")
	f, err := os.Create(path)
	must(t, err)
	for _, b := range []byte("client:\n  drainTimeout: 7s\n  keepLastEndpoints: true\n  name: v2\n") {
		_, err := f.Write([]byte{b})
		must(t, err)
		time.Sleep(time.Millisecond) // is slow
	}
	must(t, f.Close())
	w.until("v2")
}

// TestCR09LastEditWins: whatever comes while a version is applied, the newest is
// applied last, and none is after a newer one.
func TestCR09LastEditWins(t *testing.T) {
	path := file(t, "client.yaml", named("v0"))
	var last atomic.Int64
	w := watch(t, configsource.File(path, quick), nil, func(r reading) {
		var version int64
		if _, err := fmt.Sscanf(r.name(), "v%d", &version); err != nil {
			t.Errorf("published %v: %v", r.err, err)
		}
		if before := last.Swap(version); version <= before && before != 0 {
			t.Errorf("version %d was published after %d", version, before)
		}
		time.Sleep(20 * time.Millisecond) // the hook takes its time
	})
	w.want("v0")
	for i := 1; i < 200; i += 2 {
		save(t, path, named(fmt.Sprintf("v%d", i)))
		time.Sleep(5 * time.Millisecond) // the case's own
		save(t, path, named(fmt.Sprintf("v%d", i+1)))
		w.until(fmt.Sprintf("v%d", i+1))
	}
}
