package configsource_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slicewire/slicewire/configsource"
)

// mount is a directory laid out as Kubernetes lays out a ConfigMap: the file is a
// link through ..data, a link that is replaced by a rename.
type mount struct {
	t    testing.TB
	dir  string
	next int
}

func newMount(t testing.TB, text string) *mount {
	m := &mount{t: t, dir: t.TempDir()}
	m.swap(text)
	must(t, os.Symlink(filepath.Join("..data", "client.yaml"), m.file()))
	return m
}

func (m *mount) file() string { return filepath.Join(m.dir, "client.yaml") }

// swap is what the kubelet does for a new version, the old directory's end included.
func (m *mount) swap(text string) {
	m.t.Helper()
	data := filepath.Join(m.dir, "..data")
	old, _ := os.Readlink(data) // none at first
	m.next++
	dir := fmt.Sprintf("..2026_12_01_%d", m.next)
	must(m.t, os.Mkdir(filepath.Join(m.dir, dir), 0o700))
	write(m.t, filepath.Join(m.dir, dir, "client.yaml"), text)
	must(m.t, os.Symlink(dir, data+"_tmp"))
	must(m.t, os.Rename(data+"_tmp", data))
	if old != "" {
		must(m.t, os.RemoveAll(filepath.Join(m.dir, old)))
	}
}

func TestCR01KubernetesSwap(t *testing.T) {
	m := newMount(t, named("v0"))
	w := watch(t, configsource.File(m.file(), configsource.FileOptions{Poll: -1}), nil, nil)
	w.want("v0")
	for i := 1; i <= 5; i++ {
		began := time.Now()
		m.swap(named(fmt.Sprintf("v%d", i)))
		w.want(fmt.Sprintf("v%d", i))
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("version %d took %v, want at most 2 s", i, took)
		}
	}
	w.stop()
	if n := len(w.published); n != 0 {
		t.Errorf("%d more publications, want each version once", n)
	}
}

// TestCR01SwapsInARow: those that come faster than they are read may be left out,
// and the last one is never.
func TestCR01SwapsInARow(t *testing.T) {
	m := newMount(t, named("v0"))
	w := watch(t, configsource.File(m.file(), quick), nil, nil)
	w.want("v0")
	for i := 1; i <= 50; i++ {
		m.swap(named(fmt.Sprintf("v%d", i)))
	}
	w.until("v50")
}

// TestLinksOnTheWay: a link anywhere on the way may be swapped, also one to a file
// elsewhere, which may be edited there.
func TestLinksOnTheWay(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"a/b", "c/b"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o700))
		write(t, filepath.Join(root, dir, "x.yaml"), named(dir[:1]))
	}
	must(t, os.Symlink("a", filepath.Join(root, "now")))
	must(t, os.Symlink(filepath.Join(root, "now", "b", "x.yaml"), filepath.Join(root, "link.yaml")))
	w := watch(t, configsource.File(filepath.Join(root, "link.yaml"), quick), nil, nil)
	w.want("a")
	must(t, os.Symlink("c", filepath.Join(root, "new")))
	must(t, os.Rename(filepath.Join(root, "new"), filepath.Join(root, "now")))
	w.want("c")
	save(t, filepath.Join(root, "c", "b", "x.yaml"), named("d"))
	w.want("d")
}
