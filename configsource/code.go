package configsource

import (
	"context"
	"time"
)

// Static is a Config of code that does not change. It is copied; what is wrong with
// it is the error of Load.
func Static(c Config) Source {
	own := c.Clone()
	return source{stack{static{readingOf(&own, "code")}}}
}

type static struct{ reading reading }

func (s static) read(context.Context) (reading, error)    { return s.reading, nil }
func (s static) wake(ctx context.Context, _ func()) error { return wait(ctx) }

// FuncOptions say when a [Func] is called again. With neither it is called once.
type FuncOptions struct {
	// Poll is how often; 0 is never.
	Poll time.Duration
	// Changed calls for it whenever it gives a value. It serves one Watch at a time.
	Changed <-chan struct{}
}

// Func is a Config that a function gives: a configuration service's client, a
// database. name stands for it in problems. load is not called by two goroutines of
// one Watch; its error is published as any other problem, once until it changes. The
// Config is copied.
func Func(name string, load func(context.Context) (Config, error), o FuncOptions) Source {
	return source{stack{function{name, load, o}}}
}

type function struct {
	name    string
	load    func(context.Context) (Config, error)
	options FuncOptions
}

func (f function) read(ctx context.Context) (reading, error) {
	c, err := f.load(ctx)
	if err != nil {
		return reading{}, &Problem{Place: Place{Origin: f.name}, Allowed: "the configuration cannot be loaded", Err: err}
	}
	own := c.Clone()
	return readingOf(&own, f.name), nil
}

func (f function) wake(ctx context.Context, notify func()) error {
	var tick <-chan time.Time
	if f.options.Poll > 0 {
		t := time.NewTicker(f.options.Poll)
		defer t.Stop()
		tick = t.C
	}
	changed := f.options.Changed
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-changed:
			if !open {
				changed = nil
			}
		case <-tick:
		}
		notify()
	}
}
