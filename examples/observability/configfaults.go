package main

import (
	"context"
	"os"
	"path/filepath"
)

// configFile is the client's configuration file, which the client follows. It says no
// more than how one selector routes.
type configFile struct{ dir string }

const (
	filedSelector = "filed" // by the policy that the configuration file names

	firstConfig  = "selectors:\n  - {name: " + filedSelector + ", policy: {kind: p2c}}\n"
	secondConfig = "selectors:\n  - {name: " + filedSelector + ", policy: {kind: least_pending}}\n"
	sameConfig   = "# A comment changes nothing.\n" + secondConfig
	wrongConfig  = "selectors:\n  - {name: " + filedSelector + ", policy: {kind: at_will}}\n"
)

func newConfigFile() (*configFile, error) {
	dir, err := os.MkdirTemp("", "slicewire-observability-")
	if err != nil {
		return nil, err
	}
	c := &configFile{dir}
	return c, c.write(firstConfig)
}

func (c *configFile) path() string { return filepath.Join(c.dir, "client.yaml") }

// write replaces the file as a whole, so that nobody reads half of it.
func (c *configFile) write(text string) error {
	next := c.path() + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.path())
}

func (c *configFile) remove() { _ = os.RemoveAll(c.dir) }

// configFaults are what happens to the configuration file.
func (st *stage) configFaults() []fault {
	writes := func(text string) func(context.Context) error {
		return tries(func() error { return st.config.write(text) })
	}
	return []fault{{"config", "The configuration file changes", []step{
		{"it gives the selector \"filed\" another policy", writes(secondConfig), []sign{
			rises("slicewire_config_applies_total", "source", "file", "result", "accepted"),
			rises("slicewire_config_revision"),
			rises("slicewire_policy_publications_total", "selector", filedSelector, "source", "config", "result", "accepted"),
		}},
		{"it is saved with a mistake; the last good one is in force", writes(wrongConfig), []sign{
			rises("slicewire_config_applies_total", "source", "file", "result", "refused"),
			appears("slicewire_config_age_seconds"),
		}},
		{"it is mended, and says what is in force", writes(sameConfig), []sign{
			rises("slicewire_config_applies_total", "source", "file", "result", "unchanged"),
		}},
		{"it is as it was", writes(firstConfig), []sign{
			rises("slicewire_config_applies_total", "source", "file", "result", "accepted"),
		}},
	}}}
}
