package configsource_test

import (
	"os"
	"strings"
	"testing"

	"github.com/slicewire/slicewire/configsource"
)

// inotifies is how many inotify descriptors the process has.
func inotifies(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("there is no /proc here")
	}
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.Contains(to, "inotify") {
			n++
		}
	}
	return n
}

// TestLL03WatchEnds: a hundred watches leave no descriptor and no goroutine (which
// TestMain looks for), and an edit afterwards wakes nobody.
func TestLL03WatchEnds(t *testing.T) {
	before := inotifies(t)
	path := file(t, "client.yaml", named("v1"))
	src := configsource.Overlay(configsource.File(path, quick), configsource.Env("NOBODY"))
	for batch := range 10 {
		ws := make([]*watching, 10)
		for i := range ws {
			ws[i] = watch(t, src, nil, nil)
		}
		if batch%2 == 0 { // the others end while they begin
			for _, w := range ws {
				w.want("v1")
			}
		}
		for _, w := range ws {
			w.stop()
		}
		save(t, path, named("v2"))
		save(t, path, named("v1"))
		for _, w := range ws {
			for len(w.published) > 0 {
				if name := w.next().name(); name != "v1" {
					t.Errorf("%s was published after the end", name)
				}
			}
		}
	}
	if now := inotifies(t); now != before {
		t.Errorf("%d inotify descriptors are open, %d were before", now, before)
	}
}
