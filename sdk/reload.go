package sdk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/configsource"
	"github.com/slicewire/slicewire/telemetry"
)

// ConfigVariable is the environment variable that names the configuration file of a
// client whose code names none.
const ConfigVariable = "SLICEWIRE_CONFIG"

// WithConfigFile reads the client's configuration from a file, YAML, JSON or TOML by
// its extension, and from the environment, which wins over the file, and follows both
// while the client runs: see docs/configuration.md. What they say counts over the other
// options.
//
// Dial reports what is wrong with it. Later a version that cannot be used is logged
// and counted once, Status says why, and the last good one goes on serving.
func WithConfigFile(path string) Option {
	return func(s *settings) {
		WithConfigSource(configsource.Overlay(configsource.File(path, configsource.FileOptions{}), configsource.Env("")))(s)
		s.sourceName, s.sourceKind = path+" and the environment", "file"
	}
}

// WithConfigSource is WithConfigFile for any source: one file over another, a
// configuration service. The environment is asked only if src has it. A nil src takes no
// configuration, whatever the variable [ConfigVariable] says. Used again, the last one
// counts.
func WithConfigSource(src configsource.Source) Option {
	return func(s *settings) {
		s.clientWide = append(s.clientWide, "WithConfigSource")
		s.source, s.sourceName, s.sourceKind, s.sourced = src, fmt.Sprintf("%T", src), "source", true
	}
}

// configSource is where the configuration is to come from, nil if there is none.
func (s *settings) configSource() (src configsource.Source, name string) {
	if path := os.Getenv(ConfigVariable); !s.sourced && path != "" {
		WithConfigFile(path)(s)
		s.sourceName += fmt.Sprintf(" (the file is named by %s)", ConfigVariable)
	}
	return s.source, s.sourceName
}

// ConfigStatus is the configuration of a Client for operators.
type ConfigStatus struct {
	// Source is what the client watches, "" if nothing.
	Source string
	// Hash tells versions apart, of the one in force; "" without one.
	Hash string
	// Applied counts the versions that changed something, that of Dial included;
	// AppliedAt is when the newest did, Changed what.
	Applied   uint64
	AppliedAt time.Time
	Changed   ConfigChange
	// Refused counts the versions that could not be used, each edit once, and RefusedAt
	// is when the newest could not.
	Refused   uint64
	RefusedAt time.Time
	// LastError is why the newest version could not be used, nil while it is in force.
	LastError error
}

// configStatus is what Status tells of the configuration.
type configStatus struct {
	newest atomic.Pointer[ConfigStatus] // nil before the first
	mu     sync.Mutex                   // makes changes one by one
	shown  *telemetry.Registration      // nil where nothing is shown; set by Dial

	// For the debug pages: what is in force, and the last refusal, which stays after
	// it was mended.
	inForce atomic.Pointer[configsource.Update]
	refusal atomic.Pointer[refusal]
}

type refusal struct {
	at  time.Time
	err error
}

func (s *configStatus) get() ConfigStatus {
	if now := s.newest.Load(); now != nil {
		return *now
	}
	return ConfigStatus{}
}

// change returns what it is afterwards.
func (s *configStatus) change(how func(*ConfigStatus)) ConfigStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.get()
	how(&next)
	s.newest.Store(&next)
	return next
}

// fromCode is where a configuration of Apply comes from, as telemetry calls it; the
// others are "file" (WithConfigFile) and "source" (WithConfigSource).
const fromCode = "code"

func (s *configStatus) applied(from string, u *configsource.Update, change ConfigChange) {
	s.inForce.Store(u)
	now := s.change(func(to *ConfigStatus) {
		to.Hash, to.LastError = u.Hash(), nil
		to.Applied++
		to.AppliedAt, to.Changed = time.Now(), change
	})
	s.shown.ConfigApplied(from, balancer.Published.String(), now.Applied, nil)
}

// same notes a version that says what is in force already.
func (s *configStatus) same(from string, u *configsource.Update) {
	s.inForce.Store(u)
	now := s.change(func(to *ConfigStatus) { to.Hash, to.LastError = u.Hash(), nil })
	s.shown.ConfigApplied(from, balancer.Unchanged.String(), now.Applied, nil)
}

func (s *configStatus) refused(from string, err error) {
	now := s.change(func(to *ConfigStatus) {
		to.Refused++
		to.RefusedAt, to.LastError = time.Now(), err
		s.refusal.Store(&refusal{to.RefusedAt, err})
	})
	s.shown.ConfigApplied(from, balancer.Refused.String(), now.Applied, err)
}

// fields are those of the log record of what became of a configuration.
func (s *configStatus) fields(from string, result balancer.PublicationResult) []any {
	return []any{slog.String("source", from), slog.String("result", result.String()), slog.Uint64("revision", s.get().Applied)}
}

// watch follows a source until the Client closes.
func (c *Client) watch(src configsource.Source, kind string, since *configsource.Update) {
	err := src.Watch(c.alive, since, func(u *configsource.Update, err error) {
		if err != nil {
			c.configs.refused(kind, err)
		} else if _, err = c.follow(c.alive, kind, u); err == nil {
			return
		}
		if c.alive.Err() == nil && !errors.Is(err, ErrClosed) {
			c.logger.Error("a configuration was refused; what was in force stays", append(c.configs.fields(kind, balancer.Refused), slog.Any("error", err))...)
		}
	})
	if c.alive.Err() == nil {
		c.configs.change(func(to *ConfigStatus) { to.LastError = fmt.Errorf("the source is not watched any more: %w", err) })
		c.logger.Error("the configuration is not watched any more; what was in force stays", slog.Any("error", err))
	}
}

// loadConfig reads a source once; a nil one says nothing.
func loadConfig(ctx context.Context, src configsource.Source) (*configsource.Update, error) {
	if src == nil {
		return nil, nil
	}
	u, err := src.Load(ctx)
	if err != nil {
		return nil, located("the configuration", err)
	}
	if u == nil {
		return nil, errors.New("the configuration: the source gave neither one nor an error")
	}
	return u, nil
}
