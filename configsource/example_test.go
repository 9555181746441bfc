package configsource_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/slicewire/slicewire/configsource"
)

// A file with the environment on top, read once.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "client.yaml")
	text := "groups:\n  - name: read\n    targets: [\"dns:///users:443\"]\n    recovery: 300ms\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		panic(err)
	}
	environ := func() []string { return []string{"SLICEWIRE_GROUPS_0_SWITCH_DELAY=2s"} }

	src := configsource.Overlay(configsource.File(path, configsource.FileOptions{}), configsource.EnvFrom("", environ))
	u, err := src.Load(context.Background())
	if err != nil {
		panic(err)
	}
	g := u.Config().WithDefaults().Groups[0]
	fmt.Println(g.Name, *g.Recovery, *g.SwitchDelay, *g.MinUptime)
	place, _ := u.Place("groups[0].switchDelay")
	fmt.Println(place)
	// Output:
	// read 300ms 2s 300ms
	// environment variable SLICEWIRE_GROUPS_0_SWITCH_DELAY
}

// What is wrong comes all at once.
func ExampleConfig_Validate() {
	c := configsource.Config{
		Targets: []configsource.Target{{Name: "main", URI: "dns:///main:443"}},
		Groups:  []configsource.Group{{Name: "read", Targets: []string{"mian"}, Selector: new("fastest")}},
	}
	for _, p := range configsource.Problems(c.Validate()) {
		fmt.Printf("%s: %s\n", p.Path, p.Value)
	}
	// Output:
	// groups[0].targets[0]: "mian"
	// groups[0].selector: "fastest"
}

// What a reload would change.
func ExampleDiff() {
	before := configsource.Config{Groups: []configsource.Group{{Name: "read", Targets: []string{"a:1", "b:1"}}}}
	after := before.Clone()
	after.Groups[0].Targets = []string{"b:1", "c:1"}
	for _, c := range configsource.Diff(before, after) {
		fmt.Println(c)
	}
	pools := configsource.DiffPools(before, after)
	fmt.Println("stay:", pools.Stay[0].URI, "open:", pools.Open[0].URI, "close:", pools.Close[0].URI)
	// Output:
	// groups["read"].targets: ["a:1", "b:1"] becomes ["b:1", "c:1"]
	// stay: b:1 open: c:1 close: a:1
}

// A source that is watched until its context ends.
func ExampleSource() {
	ctx, cancel := context.WithCancel(context.Background())
	src := configsource.Static(configsource.Config{Client: configsource.Client{Name: new("shop")}})
	err := src.Watch(ctx, nil, func(u *configsource.Update, err error) {
		if err != nil {
			fmt.Println("keeping the last good one:", err)
			return
		}
		fmt.Println("applying", *u.Config().Client.Name)
		cancel()
	})
	fmt.Println(err)
	// Output:
	// applying shop
	// context canceled
}
