package configsource

import "time"

// Sharding says how calls are routed by key (gRFC A119).
type Sharding struct {
	// ServiceKey names the channel to the sharding service: one of shardingServices,
	// or one that code declares.
	ServiceKey string `key:"serviceKey" required:"true" reload:"live"`
	// Target is what the sharding service is asked to shard. The first %s in it is
	// replaced by the locality.
	Target string `key:"target" required:"true" reload:"live"`
	// KeyHeader is the request header that carries the key. Keys that are not
	// printable ASCII need a name that ends in -bin.
	KeyHeader string `key:"keyHeader" required:"true" reload:"live"`
	// Fallback lets a call go to any endpoint when nobody serves its slice.
	Fallback *bool `key:"fallback" default:"false" reload:"live"`
	// InitialTimeout bounds the wait for the first assignment.
	InitialTimeout *time.Duration `key:"initialTimeout" default:"60s" above:"0s" reload:"live"`
	// SpecRevision is the draft of gRFC A119 to follow.
	SpecRevision *string `key:"specRevision" default:"2026-08" enum:"2026-08|2026-10" reload:"live"`
}

// ShardingService is a channel to a sharding service.
type ShardingService struct {
	// Key is what sharding.serviceKey calls it.
	Key string `key:"key" required:"true" id:"true" reload:"reconnect"`
	// URI is the dial target.
	URI string `key:"uri" required:"true" reload:"reconnect"`
	// Profile is the dial profile, declared in code, whose credentials and options are
	// used. Left out, it is the client's own.
	Profile *string `key:"profile" reload:"reconnect"`
}

// ShardingStream is how the client keeps in touch with sharding services.
type ShardingStream struct {
	// Backoff spaces streams that end without a good assignment.
	Backoff *Backoff `key:"backoff" reload:"reconnect"`
	// MinGap is the least time between the starts of two streams.
	MinGap *time.Duration `key:"minGap" default:"1s" above:"0s" reload:"reconnect"`
	// RefreshInterval replaces a stream that has been silent for so long, give or take
	// 10%. 0s never does.
	RefreshInterval *time.Duration `key:"refreshInterval" default:"0s" min:"0s" reload:"reconnect"`
	// MaxAssignmentBytes bounds what is buffered for one assignment.
	MaxAssignmentBytes *int `key:"maxAssignmentBytes" unit:"bytes" default:"268435456" min:"1024" max:"4294967295" reload:"reconnect"`
	// MaxMessageBytes bounds one message of the sharding service.
	MaxMessageBytes *int `key:"maxMessageBytes" unit:"bytes" default:"16777216" min:"1024" max:"2147483647" reload:"reconnect"`
}

// Backoff is how waits grow from one failure to the next.
type Backoff struct {
	// BaseDelay is the first wait.
	BaseDelay *time.Duration `key:"baseDelay" default:"1s" above:"0s" reload:"reconnect"`
	// Multiplier is by what a wait grows.
	Multiplier *float64 `key:"multiplier" default:"1.6" min:"1" max:"100" reload:"reconnect"`
	// Jitter is by how much a wait may be longer or shorter, as a fraction of it.
	Jitter *float64 `key:"jitter" default:"0.2" min:"0" max:"1" reload:"reconnect"`
	// MaxDelay is the longest wait.
	MaxDelay *time.Duration `key:"maxDelay" default:"120s" above:"0s" reload:"reconnect"`
}
