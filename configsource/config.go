package configsource

import "time"

// Config is the whole configuration of one client. The tags of its fields are the
// one table that decoding, validation, defaults, the JSON Schema, docs and Diff
// share: key, default, limits, unit, and what a reload does with a change.
//
// A nil pointer and an empty list mean that nothing was said, which is not the
// same as a zero: then what code says holds, and if it says nothing the default.
// What a Config of an [Update] points to is the caller's own copy.
//
// Everything that has a name of the user's is a list of objects with that name
// as a value. No key of the file is a name, so no parser can lower its case or
// split it at its dots (field case CR-06).
type Config struct {
	// Client holds what concerns the client as a whole.
	Client Client `key:"client" reload:"live"`
	// InCode names what code declares and this configuration refers to.
	InCode *InCode `key:"inCode" reload:"live"`
	// KeyHeader is the request header that carries keys where there is no sharding,
	// for policies that look at keys such as ketama. Left out, such keys are not sent.
	KeyHeader *string `key:"keyHeader" reload:"live"`
	// Targets are the addresses that groups name. Each has connections of its own.
	Targets []Target `key:"targets" reload:"live"`
	// Groups are named lists of targets, best first. The first group is the default
	// one: it takes the calls that name none.
	Groups []Group `key:"groups" reload:"live" ordered:"true"`
	// GroupsByMethod names the group for calls whose context names none.
	GroupsByMethod []MethodGroup `key:"groupsByMethod" reload:"live"`
	// Selectors are named ways of routing over a target's endpoints.
	Selectors []Selector `key:"selectors" reload:"live"`
	// SelectorsByMethod names the selector for calls whose context names none.
	SelectorsByMethod []MethodSelector `key:"selectorsByMethod" reload:"live"`
	// Sharding routes calls by key, for every target without a sharding of its own.
	Sharding *Sharding `key:"sharding" reload:"live"`
	// ShardingServices are the channels to sharding services.
	ShardingServices []ShardingService `key:"shardingServices" reload:"reconnect"`
	// ShardingStream is how the client keeps in touch with sharding services.
	ShardingStream *ShardingStream `key:"shardingStream" reload:"reconnect"`
	// Health has endpoints probed; those whose probes fail get no calls while others
	// pass. Left out, nothing is probed.
	Health *Health `key:"health" reload:"live"`
	// Monitor has the targets of groups of several probed over their own connections.
	// Left out, connectivity and errorRatio say whether a target works.
	Monitor *Probing `key:"monitor" reload:"live"`
	// Breaker keeps calls away from endpoints that fail. Left out, there is none.
	Breaker *Breaker `key:"breaker" reload:"live"`
	// Connections says how many connections an endpoint gets. Left out, it is one.
	Connections *Connections `key:"connections" reload:"live"`
}

// Client holds what concerns a client as a whole.
type Client struct {
	// Name tells this client from others of the process in telemetry.
	Name *string `key:"name" reload:"start"`
	// DrainTimeout bounds how long calls in flight are waited for, when the client
	// closes and when a target is no longer used. 0s does not wait.
	DrainTimeout *time.Duration `key:"drainTimeout" default:"10s" min:"0s" reload:"live"`
	// RetireTimeout bounds how long an endpoint that has left the name resolver's list
	// stays connected for selectors whose data is from before.
	RetireTimeout *time.Duration `key:"retireTimeout" default:"10s" above:"0s" reload:"live"`
	// KeepLastEndpoints keeps the last endpoints in use when the name resolver gives
	// an empty list. Off, calls fail until it gives some (gRFC A119).
	KeepLastEndpoints *bool `key:"keepLastEndpoints" default:"false" reload:"live"`
	// Keys says whether a call must have a key. The values are required and optional.
	Keys *string `key:"keys" default:"required" enum:"required|optional" reload:"live"`
	// UnknownSelectors says what happens to a call that names a selector which does
	// not exist: the default selector routes it, or it is refused with UNAVAILABLE.
	UnknownSelectors *string `key:"unknownSelectors" default:"default" enum:"default|refuse" reload:"live"`
	// UnknownGroups says what happens to a call that names a group which does not
	// exist: the default group takes it, or it is refused with INVALID_ARGUMENT.
	UnknownGroups *string `key:"unknownGroups" default:"default" enum:"default|refuse" reload:"live"`
	// BadResults says what happens where a custom policy panicked or gave an index it
	// must not give: the attempt fails with UNAVAILABLE, or p2c chooses.
	BadResults *string `key:"badResults" default:"fail" enum:"fail|p2c" reload:"live"`
}

// InCode names what code declares, so that a name which nobody declares is found
// by whoever checks the file, without the program.
type InCode struct {
	// Groups that code declares.
	Groups []string `key:"groups" reload:"live"`
	// Selectors that code declares, those with custom policies above all.
	Selectors []string `key:"selectors" reload:"live"`
	// Profiles are the dial profiles that code declares: credentials and dial options
	// have no place in a file.
	Profiles []string `key:"profiles" reload:"live"`
	// ShardingServices are the keys of channels to sharding services that code
	// declares.
	ShardingServices []string `key:"shardingServices" reload:"live"`
}

// Target is one address with its own connections. No two targets have the same uri
// and profile.
type Target struct {
	// Name is what groups call it.
	Name string `key:"name" required:"true" id:"true" reload:"live"`
	// URI is the dial target, as in dns:///users.example.com:443.
	URI string `key:"uri" required:"true" reload:"reconnect"`
	// Profile is the dial profile, declared in code, whose credentials and options are
	// used. Left out, it is the client's own.
	Profile *string `key:"profile" reload:"reconnect"`
	// MinReady is how many endpoints are kept connected without traffic.
	MinReady *int `key:"minReady" unit:"endpoints" min:"0" max:"10000" derived:"1 in a group of several targets, else connections.minReady" reload:"live"`
	// ErrorRatio lets the results of calls take the target out of its groups. Left
	// out, only connectivity and the monitor do.
	ErrorRatio *ErrorRatio `key:"errorRatio" reload:"live"`
	// Sharding routes this target's calls by key, in place of the client's sharding.
	Sharding *Sharding `key:"sharding" reload:"live"`
}

// Group is a named list of targets, of which one is used at a time.
type Group struct {
	// Name is what calls and groupsByMethod call it.
	Name string `key:"name" required:"true" id:"true" reload:"live"`
	// Targets are the names of declared targets, best first. What contains a colon and
	// is no declared name is a dial target itself, as in dns:///users:443.
	Targets []string `key:"targets" required:"true" reload:"live"`
	// Recovery is how long a target whose connection is lost keeps its traffic, unless
	// a better one is available. 0s leaves it at once.
	Recovery *time.Duration `key:"recovery" default:"1s" min:"0s" max:"24h" reload:"live"`
	// SwitchDelay is how long a better target has to be available before the group
	// moves to it from one that works. 0s moves at once.
	SwitchDelay *time.Duration `key:"switchDelay" default:"0s" min:"0s" max:"24h" reload:"live"`
	// InitialGrace is how long a target that was never up may take to come up before a
	// worse one is used instead. 0s makes its first failure count.
	InitialGrace *time.Duration `key:"initialGrace" derived:"recovery, at most 1s" min:"0s" max:"24h" reload:"live"`
	// MinUptime is how long a target must have been up without a break to be given
	// recovery again, and to take traffic back from one that works. 0s asks for none.
	MinUptime *time.Duration `key:"minUptime" derived:"recovery" min:"0s" max:"24h" reload:"live"`
	// Selector routes the group's calls that name no selector.
	Selector *string `key:"selector" derived:"default" reload:"live"`
}

// MethodGroup sends methods to a group.
type MethodGroup struct {
	// Pattern is /package.Service/Method, /package.Service/* or *, of which the most
	// specific one counts.
	Pattern string `key:"pattern" required:"true" id:"true" reload:"live"`
	// Group takes the calls.
	Group string `key:"group" required:"true" reload:"live"`
}

// Selector is a named way of routing.
type Selector struct {
	// Name is what calls, groups and selectorsByMethod call it. The one named default
	// routes calls that name none.
	Name string `key:"name" required:"true" id:"true" reload:"live"`
	// Policy chooses among the endpoints.
	Policy Policy `key:"policy" required:"true" reload:"live"`
}

// Policy is a rule that chooses among endpoints, with its settings.
type Policy struct {
	// Kind is the rule.
	Kind string `key:"kind" required:"true" enum:"p2c|random|round_robin|least_pending|weighted|ketama|sliced" reload:"live"`
	// Penalty is over what time a failure fades; 0s does not count failures. For p2c
	// and least_pending.
	Penalty *time.Duration `key:"penalty" default:"1s" min:"0s" max:"16s" only:"kind=p2c|least_pending" reload:"live"`
	// PointsPerWeight is how many points on the ring a unit of weight has. For ketama.
	PointsPerWeight *int `key:"pointsPerWeight" unit:"points" default:"160" min:"1" max:"65536" only:"kind=ketama" reload:"live"`
	// MaxPoints bounds the ring, of which a point takes about 20 bytes. For ketama.
	MaxPoints *int `key:"maxPoints" unit:"points" default:"4194304" min:"1" max:"268435456" only:"kind=ketama" reload:"live"`
	// Seed gives another ring with the same shares; 0 is nginx's. For ketama.
	Seed *int `key:"seed" default:"0" min:"0" max:"4294967295" only:"kind=ketama" reload:"live"`
	// InSlice chooses among the owners of a slice. Left out, it is the first one from
	// a random start. For sliced.
	InSlice *InSlice `key:"inSlice" only:"kind=sliced" reload:"live"`
}

// InSlice is the rule within a slice.
type InSlice struct {
	// Kind is the rule.
	Kind string `key:"kind" required:"true" enum:"p2c|random|round_robin|least_pending" reload:"live"`
	// Penalty is over what time a failure fades; 0s does not count failures. For p2c
	// and least_pending.
	Penalty *time.Duration `key:"penalty" default:"1s" min:"0s" max:"16s" only:"kind=p2c|least_pending" reload:"live"`
}

// MethodSelector gives methods a selector.
type MethodSelector struct {
	// Pattern is /package.Service/Method, /package.Service/* or *, of which the most
	// specific one counts.
	Pattern string `key:"pattern" required:"true" id:"true" reload:"live"`
	// Selector routes the calls.
	Selector string `key:"selector" required:"true" reload:"live"`
}
