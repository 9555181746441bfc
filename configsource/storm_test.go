package configsource_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slicewire/slicewire/configsource"
)

// TestStormOfEdits: whatever is done to a file and to what it lies in, in whatever
// order, what is published in the end is what is there in the end, without polling.
func TestStormOfEdits(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			dir := filepath.Join(t.TempDir(), "etc")
			path, real := filepath.Join(dir, "client.yaml"), filepath.Join(dir, "real")
			must(t, os.Mkdir(dir, 0o700))
			write(t, path, named("first"))
			w := watch(t, configsource.File(path, configsource.FileOptions{Settle: 10 * time.Millisecond, Poll: -1}), nil, nil)
			w.want("first")
			version := ""
			for i := range 100 {
				version = fmt.Sprintf("v%d", i)
				switch random.IntN(8) {
				case 0: // in place, through a link if it is one
					write(t, path, named(version))
				case 1:
					save(t, path, named(version))
				case 2:
					must(t, os.Remove(path))
					write(t, path, named(version))
				case 3:
					must(t, os.RemoveAll(dir))
					must(t, os.Mkdir(dir, 0o700))
					write(t, path, named(version))
				case 4:
					must(t, os.Rename(dir, fmt.Sprint(dir, i)))
					must(t, os.Mkdir(dir, 0o700))
					write(t, path, named(version))
				case 5: // becomes a link into a directory of its own
					target := filepath.Join(real, version)
					must(t, os.MkdirAll(target, 0o700))
					write(t, filepath.Join(target, "x.yaml"), named(version))
					must(t, os.Symlink(filepath.Join("real", version, "x.yaml"), path+"~"))
					must(t, os.Rename(path+"~", path))
				case 6: // garbage, then good
					write(t, path, "groups: [")
					write(t, path, named(version))
				case 7: // built aside and moved in
					aside := fmt.Sprint(dir, "aside", i)
					must(t, os.Mkdir(aside, 0o700))
					write(t, filepath.Join(aside, "client.yaml"), named(version))
					must(t, os.Rename(dir, fmt.Sprint(dir, i)))
					must(t, os.Rename(aside, dir))
				}
				if random.IntN(4) == 0 {
					time.Sleep(time.Duration(random.IntN(15)) * time.Millisecond) // lets some of it be seen
				}
			}
			w.until(version)
			w.stop()
			for len(w.published) > 0 {
				if name := w.next().name(); name != version {
					t.Errorf("%s was published after %s", name, version)
				}
			}
		})
	}
}
