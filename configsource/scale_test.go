package configsource_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/slicewire/slicewire/configsource"
)

// TestLargeFile: 1,000 groups and 10,000 targets are read and checked with less than
// 200 MiB of allocations, garbage included, and the edit of one line is one change.
func TestLargeFile(t *testing.T) {
	text := large(1000, 10_000)
	src := configsource.File(file(t, "x.yaml", text), configsource.FileOptions{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	u := load(t, src)
	runtime.ReadMemStats(&after)
	const most = 200 << 20
	if got := after.TotalAlloc - before.TotalAlloc; got > most {
		t.Errorf("%d MiB were allocated, want at most %d", got>>20, most>>20)
	} else {
		t.Logf("%d MiB were allocated for %d KiB", got>>20, len(text)>>10)
	}
	from := u.Config()
	if len(from.Groups) != 1000 || len(from.Targets) != 10_000 {
		t.Fatalf("%d groups and %d targets", len(from.Groups), len(from.Targets))
	}
	for _, edit := range []struct{ old, new, path string }{
		{"dns:///backend-05000.", "dns:///moved.", `targets["target-05000"].uri`},
		{"[target-05000, target-05001]", "[target-05001, target-05000]", `groups["group-0500"].targets`},
	} {
		to, err := loadText(t, "y.yaml", strings.Replace(text, edit.old, edit.new, 1))
		must(t, err)
		changes := configsource.Diff(from, to.Config())
		if len(changes) != 1 || changes[0].Path != edit.path {
			t.Errorf("the edit of %s is %v", edit.path, changes)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, format := range []string{"yaml"} {
		b.Run(format+"/1000groups10000targets", func(b *testing.B) {
			src := configsource.File(file(b, "x."+format, large(1000, 10_000)), configsource.FileOptions{})
			b.ReportAllocs()
			for b.Loop() {
				load(b, src)
			}
		})
	}
}

func BenchmarkDiff(b *testing.B) {
	from, err := loadText(b, "x.yaml", large(1000, 10_000))
	must(b, err)
	to, err := loadText(b, "y.yaml", strings.Replace(large(1000, 10_000), "backend-05000", "moved", 1))
	must(b, err)
	x, y := from.Config(), to.Config()
	b.ReportAllocs()
	for b.Loop() {
		configsource.Diff(x, y)
	}
}
