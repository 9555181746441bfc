package configsource

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// FileOptions are the settings of a [File]. Zero values mean the defaults.
type FileOptions struct {
	// Format is what the file is written in. Default: what its name ends in.
	Format Format
	// Settle is how long a watched file has to be left alone before it is read anew,
	// and how long it has to stay as it was read before that counts; default 100 ms. One
	// that never rests is taken as it is after 20 times as long.
	Settle time.Duration
	// Poll is how often the file is read without being told of a change; default 10 s,
	// negative for never. It is the net under file systems that tell nothing, under
	// lost events, and where the system has no watch left to give.
	Poll time.Duration
	// Logger is told when only polling is left. Nil discards.
	Logger *slog.Logger
}

const (
	defaultSettle = 100 * time.Millisecond
	defaultPoll   = 10 * time.Second
	patience      = 20 // times Settle
)

// File reads a YAML, JSON or TOML file, of at most [MaxBytes]. Watched, it sees
// edits in place, files and symbolic links that are renamed over it, as editors and
// Kubernetes do, a file or directory that is deleted and comes back, and touches
// that change nothing.
//
// A file that is gone after it was read is published as an error once it has been
// gone for a second.
func File(path string, o FileOptions) Source { return source{stack{newFile(path, o)}} }

func newFile(path string, o FileOptions) *file {
	o.Settle = cmp.Or(o.Settle, defaultSettle)
	o.Poll = cmp.Or(o.Poll, defaultPoll)
	o.Format = cmp.Or(o.Format, formatOf(path))
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	full, err := filepath.Abs(path)
	if err != nil {
		full = path // the working directory is gone, which reading will say
	}
	return &file{path: path, full: full, options: o}
}

// formatOf is the format that a name ends in, or what it ends in, which read then
// refuses by name.
func formatOf(path string) Format {
	switch ext := filepath.Ext(path); ext {
	case ".yaml", ".yml":
		return YAML
	case ".json", ".toml":
		return Format(ext[1:])
	default:
		return Format(ext)
	}
}

type file struct {
	path    string // as it was given, for problems
	full    string // from the root, whatever becomes of the working directory
	options FileOptions
	handled func() // for tests: after each event of the file system
}

func (f *file) read(context.Context) (reading, error) {
	data, err := readFile(f.full)
	if err != nil {
		return reading{}, &Problem{Place: Place{Origin: f.path}, Allowed: "the file cannot be read", Err: err}
	}
	return reading{layer: fileLayer{f, data}, hash: sha256.Sum256(data), settle: f.options.Settle}, nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // to open a pipe would wait for its other end
		return nil, fmt.Errorf("it is no regular file but %v", info.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, MaxBytes+1))
}

// fileLayer is the bytes of a file; they are parsed only when they are new.
type fileLayer struct {
	file *file
	data []byte
}

func (l fileLayer) onto(below *node, r *report) *node {
	tree, err := read(l.data, l.file.options.Format, l.file.path)
	for _, p := range Problems(err) {
		r.add(p)
	}
	if tree == nil {
		r.unreadable = true
		return below
	}
	return tree.over(below)
}

// wake tells of changes of the file once it has been left alone.
func (f *file) wake(ctx context.Context, notify func()) error {
	t := newTrail(f.full, f.options.Logger)
	defer t.close()
	var tick <-chan time.Time
	if f.options.Poll > 0 {
		ticker := time.NewTicker(f.options.Poll)
		defer ticker.Stop()
		tick = ticker.C
	}
	look := func() {
		t.follow() // before the file is read, so that no change falls between
		notify()
	}
	look()
	var settled <-chan time.Time // nil while nothing happens
	var since time.Time
	for {
		concerns := false
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
			if settled == nil {
				look()
			}
		case <-settled:
			settled = nil
			look()
		case event := <-t.events:
			concerns = t.concerns(event.Name)
		case err := <-t.errors:
			// Events were lost, or the system could not tell what happened.
			f.options.Logger.Debug("watching the configuration file", "path", f.path, "error", err)
			concerns = true
		}
		if concerns {
			now := time.Now()
			if settled == nil {
				since = now
			}
			settled = time.After(min(f.options.Settle, patience*f.options.Settle-now.Sub(since)))
		}
		if f.handled != nil {
			f.handled()
		}
	}
}
