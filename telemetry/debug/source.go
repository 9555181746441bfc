package debug

import (
	"strconv"
	"time"
)

// Source is what the pages show. Its methods are called concurrently, once or twice
// for each page, also after the client was closed. What they return is the pages'.
type Source interface {
	// Names is what may be asked for. It is cheap.
	Names() Names
	// Overview is the whole client without the single endpoints.
	Overview() Overview
	// Target is one target, nil if there is none of that name.
	Target(name string) *Target
	// Slices is the assignment of a target, nil if it has none.
	Slices(target string) Slices
	// Explain says where a key goes. Its error says what is wrong with the question,
	// and never the key.
	Explain(q Question) (*Explanation, error)
	// Config is the configuration in force, nil where the client has no source of one.
	Config() *Config
	// Events are the newest control events, the newest first.
	Events() []Event
}

// Names are those of a client.
type Names struct {
	// Groups and Selectors begin with the default one.
	Groups, Selectors []string
	Targets           []string
	// Target is the default group's current target.
	Target string
}

// Duration is written to JSON as a number of seconds.
type Duration time.Duration

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return []byte(d.Seconds()), nil }

// Seconds is the number of seconds, as in JSON.
func (d Duration) Seconds() string {
	return strconv.FormatFloat(time.Duration(d).Seconds(), 'f', -1, 64)
}

// Overview is a client.
type Overview struct {
	Closed  bool      `json:"closed"`
	Groups  []Group   `json:"groups"`
	Targets []Summary `json:"targets"`
	// UnknownGroups counts RPCs that name a group which is not declared.
	UnknownGroups uint64 `json:"unknown_groups"`
}

// Group is a group of targets.
type Group struct {
	Name string `json:"name"`
	// Current is where its RPCs go, Since when and Reason why.
	Current string    `json:"current"`
	Since   time.Time `json:"since,omitzero"`
	Reason  string    `json:"reason"`
	// PinnedUntil is when a pin ends.
	PinnedUntil time.Time `json:"pinned_until,omitzero"`
	// Selector routes its RPCs that name none, "" being the default one.
	Selector string        `json:"selector,omitempty"`
	Targets  []GroupTarget `json:"targets"`
	// Switches counts changes of Current by reason.
	Switches []Count `json:"switches,omitempty"`
}

// GroupTarget is what a group makes of one of its targets.
type GroupTarget struct {
	Name    string    `json:"name"`
	Current bool      `json:"current"`
	State   string    `json:"state"`
	Since   time.Time `json:"since,omitzero"`
	Reason  string    `json:"reason"`
	// Until is when it will be taken for down, if it is not up before.
	Until time.Time `json:"until,omitzero"`
	// Bad are the signals beside connectivity that speak against it.
	Bad      []string `json:"bad,omitempty"`
	Downtime Duration `json:"downtime_seconds"`
}

// Count is a number with a name.
type Count struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// Summary is a target in a few figures.
type Summary struct {
	Name      string `json:"name"`
	URI       string `json:"uri"`
	Profile   string `json:"profile,omitempty"`
	Authority string `json:"authority,omitempty"`
	State     string `json:"state"`
	// Readiness says how its RPCs are routed.
	Readiness string `json:"readiness"`
	Leaving   bool   `json:"leaving"`
	InFlight  int    `json:"in_flight"`
	// Disabled says why an operator took it out.
	Disabled string `json:"disabled,omitempty"`
	// Ratio is what its RPCs say, nil if they are not judged.
	Ratio *Ratio `json:"error_ratio,omitempty"`
	// Endpoints counts them by state.
	Endpoints []Count `json:"endpoints,omitempty"`
	// Generation is that of the assignment that picks use.
	Generation int64   `json:"generation,omitempty"`
	Picks      []Count `json:"picks,omitempty"`
}

// Ratio is the error ratio of a target.
type Ratio struct {
	Ratio    string `json:"ratio"`
	Failed   uint64 `json:"failed"`
	Total    uint64 `json:"total"`
	Exceeded bool   `json:"exceeded"`
}

// Target is one target.
type Target struct {
	Summary
	Endpoints []Endpoint
	Selectors []Selector
	// Stream is nil where there is no sharding.
	Stream *Stream
	// Membership is the generation of the endpoint list.
	Membership uint64
	// AllUnhealthy says that all probes fail, and that endpoints are used all the same.
	AllUnhealthy bool
	// UnknownOwners counts endpoints of the assignment that name resolution lacks.
	UnknownOwners int
	Faults        []Count
	// Connections count what became of them since the target was dialled.
	Connections       []Count
	LastResolverError string
	LastConfigError   string
}

// Endpoint is one endpoint.
type Endpoint struct {
	Name    string    `json:"name"`
	Address string    `json:"address,omitempty"`
	State   string    `json:"state,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Picks   uint64    `json:"picks"`
	Pending int       `json:"pending"`
	Health  string    `json:"health,omitempty"`
	// Disabled says why no pick chooses it, DisabledAt since when.
	Disabled   string    `json:"disabled,omitempty"`
	DisabledAt time.Time `json:"disabled_at,omitzero"`
	Draining   bool      `json:"draining,omitempty"`
	// RetryAfter is how long admission refuses it for.
	RetryAfter Duration `json:"retry_after_seconds,omitzero"`
	// Connections counts them by state.
	Connections []Count `json:"connections,omitempty"`
}

// Selector is one selector of a target.
type Selector struct {
	Name string `json:"name"`
	// Policy is the one published last; InForce is the generation that picks use.
	Policy     string `json:"policy"`
	Generation uint64 `json:"generation"`
	InForce    uint64 `json:"in_force"`
	Source     string `json:"source"`
	// Membership is the generation of the endpoint list that picks use.
	Membership uint64  `json:"membership"`
	Picks      []Count `json:"picks"`
	BadResults []Count `json:"bad_results,omitempty"`
	// Builds is nil where nothing was built.
	Builds         *Builds `json:"builds,omitempty"`
	LastBuildError string  `json:"last_build_error,omitempty"`
	// History are the newest publications, the newest first.
	History []Publication `json:"history,omitempty"`
}

// Builds are the work of a policy that builds.
type Builds struct {
	Builds    uint64 `json:"builds"`
	Failed    uint64 `json:"failed"`
	Coalesced uint64 `json:"coalesced"`
	// Queue and Build are how long the newest build waited and took.
	Queue Duration `json:"last_queue_seconds"`
	Build Duration `json:"last_build_seconds"`
}

// Publication is one publication of a policy.
type Publication struct {
	Generation uint64    `json:"generation"`
	Policy     string    `json:"policy"`
	Source     string    `json:"source"`
	At         time.Time `json:"at,omitzero"`
}

// Stream is the client of the sharding service.
type Stream struct {
	Phase      string `json:"phase"`
	ChannelKey string `json:"channel_key"`
	Target     string `json:"sharding_target"`
	ClientUUID string `json:"client_uuid"`

	// The assignment that is held.
	Generation int64     `json:"generation,omitempty"`
	Slices     int       `json:"slices,omitempty"`
	Endpoints  int       `json:"endpoints,omitempty"`
	Bytes      int       `json:"bytes,omitempty"`
	ReceivedAt time.Time `json:"received_at,omitzero"`
	Age        Duration  `json:"age_seconds,omitzero"`

	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	MessageAt time.Time `json:"last_message_at,omitzero"`
	// StaleFor is how long the service has not been heard for while no stream is open.
	StaleFor Duration `json:"stale_for_seconds,omitzero"`
	Counts   []Count  `json:"counts"`
	// LastAck and LastRefusal are the newest answer, and the newest that refused.
	LastAck     *Ack   `json:"last_ack,omitempty"`
	LastRefusal *Ack   `json:"last_refusal,omitempty"`
	LastError   string `json:"last_error,omitempty"`
}

// Ack is an answer to the sharding service.
type Ack struct {
	At         time.Time `json:"at,omitzero"`
	Generation int64     `json:"generation"`
	Accepted   bool      `json:"accepted"`
	Message    string    `json:"message,omitempty"`
}

// Slices is an assignment. It stays what it is while a page is made.
type Slices interface {
	Generation() int64
	// InUse says that picks use it.
	InUse() bool
	Len() int
	// Find is the number of the slice that holds a key.
	Find(key string) int
	// Slice is one slice with at most so many owners.
	Slice(number, owners int) Slice
}

// Slice is one slice. Its bounds are keys.
type Slice struct {
	Number int `json:"number"`
	Start  Key `json:"start"`
	// End is the first key behind it, nil for the last slice.
	End       *Key    `json:"end"`
	Kind      string  `json:"kind"`
	Owners    []Owner `json:"owners"`
	AllOwners int     `json:"all_owners"`
}

// Owner is an endpoint that serves a slice; Known says that name resolution has it.
type Owner struct {
	Endpoint
	Known bool `json:"known"`
}

// Question asks where a key goes. A Target that is named goes before the group's
// current one, a Selector that is named before the group's.
type Question struct{ Group, Target, Selector, Key string }

// Explanation is the answer.
type Explanation struct {
	Group            string `json:"group"`
	Target           string `json:"target"`
	Selector         string `json:"selector"`
	Policy           string `json:"policy,omitempty"`
	PolicyGeneration uint64 `json:"policy_generation,omitempty"`
	// Generation is that of the assignment, Slice the key's in it.
	Generation int64  `json:"generation,omitempty"`
	Slice      *Slice `json:"slice,omitempty"`
	// Candidates are those of a policy that does not ask for slices, in order.
	Candidates []Endpoint `json:"candidates,omitempty"`
	More       int        `json:"more_candidates,omitempty"`
	// Outcome is "picked", "queued", "failed" or "dropped".
	Outcome  string `json:"outcome"`
	Endpoint string `json:"endpoint,omitempty"`
	Connects string `json:"connects,omitempty"`
	Fallback string `json:"fallback,omitempty"`
	Why      string `json:"why"`
}

// Config is the configuration in force.
type Config struct {
	// Source says where it comes from, as a file's name; "" if only the program's code
	// gave one. Revision tells versions apart.
	Source    string    `json:"source"`
	Revision  string    `json:"revision"`
	AppliedAt time.Time `json:"applied_at,omitzero"`
	Age       Duration  `json:"age_seconds"`
	Applied   uint64    `json:"applied"`
	Refused   uint64    `json:"refused"`
	// Trouble is why the newest version is not in force, "" if it is.
	Trouble string `json:"trouble,omitempty"`
	// Values are all values in force, a line each, with where each came from.
	Values string `json:"values"`
	// LastRefused is the newest one that was refused, nil if none was.
	LastRefused *RefusedConfig `json:"last_refused,omitempty"`
}

// RefusedConfig is a configuration that was refused. What was in force stayed.
type RefusedConfig struct {
	At time.Time `json:"at,omitzero"`
	// Problems are all that is wrong with it, with where.
	Problems []string `json:"problems"`
}
