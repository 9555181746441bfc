// Command check says whether a configuration file is valid, as a client that reads
// it would.
//
//	go run ./configsource/check FILE
//	go run ./configsource/check -explain FILE
//	go run ./configsource/check -diff OLD FILE
//
// It exits with 0 if the file is valid, with 1 and one line for each problem if not,
// and with 2 if it was called wrongly. Environment variables take part as they do
// in a client; -env "" leaves them out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/slicewire/slicewire/configsource"
)

func main() { os.Exit(run(os.Args[1:], os.Environ, os.Stdout, os.Stderr)) }

// run is the command but for the process.
func run(args []string, environ func() []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = fmt.Fprintln(stderr, "usage: check [-env PREFIX] [-explain] [-diff OLD] FILE")
		flags.PrintDefaults()
	}
	prefix := flags.String("env", configsource.DefaultPrefix, "what the names of environment `variables` begin with; empty leaves the environment out")
	explain := flags.Bool("explain", false, "print every value that holds, with where it came from")
	old := flags.String("diff", "", "print what a reload would do that changes `OLD` to FILE")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return 2
	}
	c := checker{prefix: *prefix, environ: environ, stdout: stdout, stderr: stderr}
	now, ok := c.load(flags.Arg(0))
	if !ok {
		return 1
	}
	switch {
	case *old != "":
		before, ok := c.load(*old)
		if !ok {
			return 1
		}
		c.diff(before.Config(), now.Config())
	case *explain:
		if err := now.Explain(stdout); err != nil {
			_, _ = fmt.Fprintln(stderr, err)
			return 1
		}
	default:
		cfg := now.Config()
		c.say("%s is valid: %d targets, %d groups, %d selectors", flags.Arg(0), len(cfg.Targets), len(cfg.Groups), len(cfg.Selectors))
	}
	return 0
}

// checker is what the command needs for each file.
type checker struct {
	prefix         string
	environ        func() []string
	stdout, stderr io.Writer
}

func (c *checker) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.stdout, format+"\n", args...)
}

// load reads a file and prints what is wrong with it.
func (c *checker) load(path string) (*configsource.Update, bool) {
	source := configsource.File(path, configsource.FileOptions{})
	if c.prefix != "" {
		source = configsource.Overlay(source, configsource.EnvFrom(c.prefix, c.environ))
	}
	u, err := source.Load(context.Background())
	if err == nil {
		return u, true
	}
	problems := configsource.Problems(err)
	for _, p := range problems {
		_, _ = fmt.Fprintln(c.stderr, p)
	}
	noun := "problems"
	if len(problems) == 1 {
		noun = "problem"
	}
	_, _ = fmt.Fprintf(c.stderr, "%s: %d %s\n", path, len(problems), noun)
	return nil, false
}

// effects say what a reload does with a change.
var effects = map[configsource.Reload]string{
	configsource.Live:      "takes effect at once",
	configsource.Reconnect: "makes new connections",
	configsource.AtStart:   "is refused: it is read at the start alone",
}

// diff prints what a reload does.
func (c *checker) diff(before, now configsource.Config) {
	changes := configsource.Diff(before, now)
	if len(changes) == 0 {
		c.say("nothing changes")
	}
	for _, change := range changes {
		c.say("%s (%s)", change, effects[change.Reload])
	}
	pools := configsource.DiffPools(before, now)
	for _, kind := range []struct {
		what  string
		pools []configsource.Pool
	}{{"connections stay", pools.Stay}, {"connections open", pools.Open}, {"connections close", pools.Close}} {
		for _, p := range kind.pools {
			what := p.Target
			if p.Target != p.URI {
				what += " (" + p.URI + ")"
			}
			if p.Profile != "" {
				what += " with profile " + p.Profile
			}
			c.say("%s: %s", kind.what, what)
		}
	}
}
