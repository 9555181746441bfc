package configsource

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// trail watches every directory in which a change could make a path lead to another
// file: those of the file and of each symbolic link on the way to it, and the
// directories that hold those. Directories are watched rather than files, since
// a file's own watch ends with its first replacement.
//
// One goroutine uses it.
type trail struct {
	path    string
	logger  *slog.Logger
	watcher *fsnotify.Watcher // nil where the system gives none
	events  chan fsnotify.Event
	errors  chan error

	names   map[string]bool        // whose events concern the path
	watched map[string]os.FileInfo // by directory, what it was when its watch began
}

// newWatcher is replaced by a test of systems that give no watch.
var newWatcher = fsnotify.NewWatcher

func newTrail(path string, logger *slog.Logger) *trail {
	t := &trail{path: path, logger: logger, watched: make(map[string]os.FileInfo)}
	w, err := newWatcher()
	if err != nil {
		logger.Warn("the system gives no file watch, so the configuration file is only polled", "path", path, "error", err)
		return t
	}
	t.watcher, t.events, t.errors = w, w.Events, w.Errors
	return t
}

func (t *trail) close() {
	if t.watcher != nil {
		_ = t.watcher.Close() // waits for its goroutine; nothing can be done about an error
	}
}

func (t *trail) concerns(name string) bool { return t.names[filepath.Clean(name)] }

// follow watches what the path goes through now. Watching takes time in which it may
// change, so that it is walked again until nothing was new.
func (t *trail) follow() {
	if t.watcher == nil {
		return
	}
	for range 8 {
		names, dirs := walk(t.path)
		t.names = names
		if !t.watch(dirs) {
			return
		}
	}
}

// watch makes dirs what is watched, and says whether one was new. A watch stays
// with a directory that is moved away, and ends with one that is deleted.
func (t *trail) watch(dirs []string) (added bool) {
	live := t.watcher.WatchList()
	for dir := range t.watched {
		if !slices.Contains(dirs, dir) {
			_ = t.watcher.Remove(dir)
			delete(t.watched, dir)
		}
	}
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			continue // gone again; the directory above tells when it is back
		}
		if old := t.watched[dir]; old != nil {
			if os.SameFile(old, info) && slices.Contains(live, dir) {
				continue
			}
			_ = t.watcher.Remove(dir)
			delete(t.watched, dir)
		}
		if err := t.watcher.Add(dir); err != nil {
			t.logger.Debug("a directory of the configuration file cannot be watched", "path", dir, "error", err)
			continue
		}
		t.watched[dir], added = info, true
	}
	return added
}

// walk goes along a path, through symbolic links, and gives the entries whose
// change could make it lead elsewhere, and the directories they are in.
func walk(path string) (names map[string]bool, dirs []string) {
	names = make(map[string]bool)
	var note func(entry string, above int)
	note = func(entry string, above int) {
		dir := filepath.Dir(entry)
		if dir == entry {
			return // the root has no entry
		}
		names[entry] = true
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		if above > 0 {
			note(dir, above-1)
		}
	}
	at, rest := string(filepath.Separator), strings.Split(path, string(filepath.Separator))
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		entry := filepath.Join(at, part)
		info, err := os.Lstat(entry)
		switch {
		case err != nil:
			note(entry, 1) // the path ends here until the entry appears
			return names, dirs
		case info.Mode()&os.ModeSymlink != 0:
			note(entry, 1)
			to, err := os.Readlink(entry)
			if links++; err != nil || links > 40 {
				return names, dirs
			}
			if filepath.IsAbs(to) {
				at = string(filepath.Separator)
			}
			rest = append(strings.Split(to, string(filepath.Separator)), rest...)
		default:
			if at = entry; len(rest) == 0 {
				note(entry, 1)
			}
		}
	}
	return names, dirs
}
