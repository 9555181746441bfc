package configsource_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slicewire/slicewire/configsource"
)

func nameOf(name string) configsource.Config {
	return configsource.Config{Client: configsource.Client{Name: &name}}
}

// TestLL07ArgumentsAreCopied: what a source was made of, and what an Update gave,
// may be changed by whoever has it.
func TestLL07ArgumentsAreCopied(t *testing.T) {
	c := configsource.Config{
		Client:  configsource.Client{Name: new("mine")},
		Targets: []configsource.Target{{Name: "a", URI: "a:1", MinReady: new(3), ErrorRatio: &configsource.ErrorRatio{Codes: []string{"UNKNOWN"}}}},
		Groups:  []configsource.Group{{Name: "g", Targets: []string{"a"}}},
	}
	want := c.Clone()
	static := configsource.Static(c)
	fn := configsource.Func("fn", func(context.Context) (configsource.Config, error) { return c, nil }, configsource.FuncOptions{})
	update, err := configsource.NewUpdate(c, "test")
	must(t, err)
	ofFunc := load(t, fn)
	var users sync.WaitGroup
	for range 4 {
		for _, u := range []*configsource.Update{load(t, static), ofFunc, update} {
			users.Go(func() {
				got := u.Config()
				*got.Client.Name, got.Targets[0].Name, *got.Targets[0].MinReady = "theirs", "theirs", 4
				got.Targets[0].ErrorRatio.Codes[0], got.Groups[0].Targets[0] = "theirs", "theirs"
			})
		}
	}
	*c.Client.Name, c.Targets[0].Name, *c.Targets[0].MinReady = "changed", "changed", 5
	c.Targets[0].ErrorRatio.Codes[0], c.Groups[0].Targets[0] = "changed", "changed"
	users.Wait()
	for name, u := range map[string]*configsource.Update{"Static": load(t, static), "Func": ofFunc, "NewUpdate": update} {
		if diff := cmp.Diff(want, u.Config()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestStatic(t *testing.T) {
	w := watch(t, configsource.Static(nameOf("v1")), nil, nil)
	u := w.want("v1")
	if place, said := u.Place("client.name"); !said || place.String() != "code" {
		t.Errorf("it is from %v", place)
	}
	for _, absent := range []string{"client.drainTimeout", "targets[0].name", "targets[x]", "nothing", "client.name.x"} {
		if place, said := u.Place(absent); said {
			t.Errorf("%s is from %v", absent, place)
		}
	}
	bad := configsource.Static(configsource.Config{Groups: []configsource.Group{{}}})
	if _, err := bad.Load(t.Context()); len(configsource.Problems(err)) != 2 || !strings.Contains(err.Error(), "code: groups[0].name") {
		t.Errorf("a bad Config: %v", err)
	}
}

// TestFunc: in virtual time, polled and told.
func TestFunc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Value
		now.Store("v1")
		broken := errors.New("unreachable")
		changed := make(chan struct{})
		src := configsource.Func("service", func(context.Context) (configsource.Config, error) {
			if name := now.Load().(string); name != "" {
				return nameOf(name), nil
			}
			return configsource.Config{}, broken
		}, configsource.FuncOptions{Poll: time.Minute, Changed: changed})
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		ended := make(chan error)
		first := load(t, src)
		go func() {
			ended <- src.Watch(ctx, first, func(u *configsource.Update, err error) { got = append(got, reading{u, err}.name()) })
		}()
		step := func(name string, wait time.Duration) {
			now.Store(name)
			if wait == 0 {
				changed <- struct{}{}
			}
			time.Sleep(wait)
			synctest.Wait()
		}
		step("v2", time.Minute)
		step("v2", time.Hour)
		step("v3", 0)
		step("", time.Hour) // once, however often it is polled
		step("v3", time.Minute)
		close(changed)
		step("v4", time.Minute)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch ended with %v", err)
		}
		if diff := cmp.Diff([]string{"v2", "v3", "error", "v3", "v4"}, got); diff != "" {
			t.Error(diff)
		}
		now.Store("")
		if _, err := src.Load(t.Context()); !errors.Is(err, broken) || !strings.Contains(err.Error(), "service: the configuration cannot be loaded") {
			t.Errorf("Load gives %v", err)
		}
	})
}

// TestOverlay: objects are joined, lists replaced, and null says nothing; a layer
// need not be valid alone.
func TestOverlay(t *testing.T) {
	base := file(t, "base.yaml", `
client: {name: base, drainTimeout: 1s}
targets: [{name: a, uri: "a:1"}]
groups: [{name: g, targets: [a]}]
health: {checker: {kind: tcp}, interval: 2s}
`)
	top := file(t, "top.toml", `
client.name = "top"
health.interval = "3s"
[[groups]]
name = "other"
targets = ["a"]
`)
	nothing := file(t, "nothing.json", `{"client": {"drainTimeout": null}, "health": null}`)
	o := configsource.FileOptions{}
	u := load(t, configsource.Overlay(configsource.File(base, o), nil, configsource.Overlay(configsource.File(top, o), configsource.File(nothing, o))))
	c := u.Config()
	if *c.Client.Name != "top" || *c.Client.DrainTimeout != time.Second || *c.Health.Interval != 3*time.Second || c.Health.Checker.Kind != "tcp" {
		t.Errorf("client %v, health %+v", *c.Client.Name, c.Health)
	}
	if len(c.Groups) != 1 || c.Groups[0].Name != "other" || len(c.Targets) != 1 {
		t.Errorf("groups %+v, targets %+v", c.Groups, c.Targets)
	}
	for path, want := range map[string]string{
		"client.name": top + ":2", "client.drainTimeout": base + ":2", "groups[0].name": top + ":5", "health.checker.kind": base + ":5",
	} {
		if place, _ := u.Place(path); place.String() != want {
			t.Errorf("%s is from %v, want %s", path, place, want)
		}
	}
	if _, err := configsource.File(top, o).Load(t.Context()); err == nil {
		t.Error("the overlay alone is valid, so this shows little")
	}
}

// theirs is a Source of another package.
type theirs struct {
	update atomic.Pointer[configsource.Update]
	tell   chan struct{}
	fail   chan error
}

func (s *theirs) Load(context.Context) (*configsource.Update, error) { return s.update.Load(), nil }

func (s *theirs) Watch(ctx context.Context, _ *configsource.Update, publish func(*configsource.Update, error)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.fail:
			return err
		case <-s.tell:
			publish(s.update.Load(), nil)
		}
	}
}

// TestOverlayOfOthers: the sources of other packages take part, and the end of one
// ends the watch.
func TestOverlayOfOthers(t *testing.T) {
	s := &theirs{tell: make(chan struct{}), fail: make(chan error, 1)}
	say := func(name string) {
		u, err := configsource.NewUpdate(nameOf(name), "theirs")
		must(t, err)
		s.update.Store(u)
	}
	say("v1")
	env := configsource.EnvFrom("", func() []string { return []string{"SLICEWIRE_CLIENT_DRAIN_TIMEOUT=7s"} })
	src := configsource.Overlay(s, env)
	w := watch(t, src, nil, nil)
	w.want("v1")
	say("v2")
	s.tell <- struct{}{}
	u := w.want("v2")
	if d := u.Config().Client.DrainTimeout; d == nil || *d != 7*time.Second {
		t.Errorf("the environment does not win: %v", d)
	}
	w.stop()

	gone := errors.New("gone for good")
	s.fail <- gone
	if err := src.Watch(t.Context(), nil, func(*configsource.Update, error) {}); !errors.Is(err, gone) {
		t.Errorf("Watch ended with %v, want %v", err, gone)
	}
}

// TestUpdateSame: readings of the same bytes are the same, and others are not.
func TestUpdateSame(t *testing.T) {
	path := file(t, "x.yaml", named("a"))
	src := configsource.Overlay(configsource.File(path, quick), configsource.Env("NOBODY"))
	a := load(t, src)
	if b := load(t, src); !a.Same(b) || a.Hash() != b.Hash() {
		t.Error("two readings of one file are not the same")
	}
	save(t, path, named("b"))
	if b := load(t, src); a.Same(b) || a.Hash() == b.Hash() || a.Same(nil) || (*configsource.Update)(nil).Same(a) {
		t.Error("readings of two files are the same")
	}
	if !a.Config().Equal(a.Config()) {
		t.Error("a Config is not its own equal")
	}
}

// TestWatchEnded: a context that has ended publishes nothing.
func TestWatchEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	src := configsource.File(file(t, "x.yaml", named("a")), quick)
	err := src.Watch(ctx, nil, func(*configsource.Update, error) { t.Error("something was published") })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Watch ended with %v", err)
	}
}
