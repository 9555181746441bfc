package assignment

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const (
	defaultInitialTimeout     = 60 * time.Second
	defaultMinStreamGap       = time.Second
	defaultMaxAssignmentBytes = 256 << 20
	defaultMaxMessageBytes    = 16 << 20
)

// Config says which assignment to watch and how. It is comparable: an equal
// Config changes nothing.
type Config struct {
	// ChannelKey is passed to the Provider; a new key is a new channel.
	ChannelKey string
	// Target is what the sharding service shards, with any %s already replaced.
	Target string
	// Revision is the draft of A119 to follow; the zero value is 2026-08.
	Revision Revision
	// InitialTimeout is how long RPCs wait for the first assignment after a new
	// channel was made. 0 means 60 s.
	InitialTimeout time.Duration
}

// names is what errors say of it.
func (c Config) names() string {
	return fmt.Sprintf("(channel key %q, sharding target %q)", c.ChannelKey, c.Target)
}

func (c Config) initialTimeout() time.Duration {
	if c.InitialTimeout <= 0 {
		return defaultInitialTimeout
	}
	return c.InitialTimeout
}

// Provider makes a channel to the sharding service for a channel key. The
// returned function is called exactly once, when no stream lives on the channel
// any more. It is called from the Watcher's goroutine.
type Provider = func(key string) (grpc.ClientConnInterface, func(), error)

// Options are the settings of a Watcher that no config update changes. The zero
// value is useful.
type Options struct {
	// ClientUUID names this client to the sharding service, the same on every
	// stream. Empty means a random (version 4) one.
	ClientUUID string
	// Backoff spaces streams that gave no good assignment. Zero means base 1 s,
	// multiplier 1.6, jitter 0.2, at most 120 s; so do delays that are left out of
	// one that is not zero.
	Backoff backoff.Config
	// MinStreamGap is the least time between the starts of two streams, however
	// good they were, and the width of the jitter after a good one. 0 means 1 s.
	MinStreamGap time.Duration
	// RefreshInterval, if positive, replaces a stream that has been silent for
	// about that long (±10%) by a new one (field case AP-09). 0 means never:
	// A119 has no heartbeat and a healthy sharding service may be silent for hours.
	RefreshInterval time.Duration
	// MaxAssignmentBytes bounds what is buffered for one assignment, on the wire
	// as well as in memory, and in memory for all that one client buffers: what
	// arrives, what waits to be built and what is being built. Past it the stream is
	// not read on until a build is over. 0 means 256 MiB; 4 GiB - 1 is the most.
	MaxAssignmentBytes int
	// MaxMessageBytes bounds one message of the sharding service. 0 means 16 MiB.
	MaxMessageBytes int
	// Gate is what builds of assignments pass through, one at a time. Nil means one
	// for all Watchers of the process that have no other.
	Gate Gate
	// Observer is told of each answer of the sharding service, in order, by the
	// goroutine that decides on it and without a lock. Nil: nobody is told.
	Observer Observer
	// Logger is told what happens to streams and assignments, never a key. Nil
	// discards.
	Logger *slog.Logger
}

// withDefaults fills what was left zero or makes no sense.
func (o Options) withDefaults() Options {
	if o.ClientUUID == "" {
		o.ClientUUID = uuid.NewString()
	}
	if o.Backoff == (backoff.Config{}) {
		o.Backoff = backoff.DefaultConfig
	}
	// A delay left out would be none: provider calls without a pause.
	if o.Backoff.BaseDelay <= 0 {
		o.Backoff.BaseDelay = backoff.DefaultConfig.BaseDelay
	}
	if o.Backoff.MaxDelay <= 0 {
		o.Backoff.MaxDelay = backoff.DefaultConfig.MaxDelay
	}
	if o.MinStreamGap <= 0 {
		o.MinStreamGap = defaultMinStreamGap
	}
	if o.MaxAssignmentBytes <= 0 {
		o.MaxAssignmentBytes = defaultMaxAssignmentBytes
	}
	// Offsets into the buffers are uint32.
	o.MaxAssignmentBytes = int(min(int64(o.MaxAssignmentBytes), math.MaxUint32))
	if o.MaxMessageBytes <= 0 {
		o.MaxMessageBytes = defaultMaxMessageBytes
	}
	if o.Gate == nil {
		o.Gate = buildGate
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
