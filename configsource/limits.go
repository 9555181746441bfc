package configsource

import "time"

// Breaker keeps calls away from an endpoint that fails.
type Breaker struct {
	// MinThroughput is how many calls the window must hold before their failures can
	// open the breaker.
	MinThroughput *int `key:"minThroughput" unit:"calls" default:"20" min:"1" max:"1000000" reload:"live"`
	// Ratio is the share of failures, reached or exceeded, that opens it.
	Ratio *float64 `key:"ratio" default:"0.5" above:"0" max:"1" reload:"live"`
	// Window is how far back calls count.
	Window *time.Duration `key:"window" default:"30s" min:"1s" max:"24h" reload:"live"`
	// Open is how long an open breaker refuses everything.
	Open *time.Duration `key:"open" default:"10s" min:"1ms" max:"24h" reload:"live"`
	// HalfOpen is how many trial calls are let through after that, all of which must
	// succeed to close the breaker.
	HalfOpen *int `key:"halfOpen" unit:"calls" default:"1" min:"1" max:"31" reload:"live"`
	// Codes are the status codes that count as failures. A connection that was lost
	// counts whatever they are.
	Codes []string `key:"codes" default:"UNAVAILABLE,RESOURCE_EXHAUSTED,DATA_LOSS,INTERNAL" enum:"$codes" reload:"live"`
}

// ErrorRatio lets the results of calls say that a target is down.
type ErrorRatio struct {
	// Ratio is the share of failures, reached or exceeded, that takes the target out.
	Ratio *float64 `key:"ratio" default:"1" above:"0" max:"1" reload:"live"`
	// MinFailures is how many failures the window must hold before their share counts.
	MinFailures *int `key:"minFailures" unit:"calls" default:"3" min:"1" max:"100000" reload:"live"`
	// Window is how far back calls count.
	Window *time.Duration `key:"window" default:"1m" min:"1s" max:"24h" reload:"live"`
	// Codes are the status codes that count as failures.
	Codes []string `key:"codes" default:"UNAVAILABLE,DEADLINE_EXCEEDED,UNAUTHENTICATED" enum:"$codes" reload:"live"`
	// Probes is how many probes in a row must pass before the target is good again.
	Probes *int `key:"probes" unit:"probes" default:"3" min:"1" max:"1000" reload:"live"`
	// Hold is how long the target stays out at least, no less than the window. It
	// doubles, up to 8 times as long, each time that the target fails again soon.
	Hold *time.Duration `key:"hold" derived:"window" min:"1s" max:"24h" reload:"live"`
	// OnTrial lets the target be good again when the hold is over, probes or not.
	OnTrial *bool `key:"onTrial" default:"false" reload:"live"`
}

// Connections says how many connections an endpoint gets.
type Connections struct {
	// Min is how many connections an endpoint has that is in use.
	Min *int `key:"min" unit:"connections" default:"1" min:"1" max:"1000" reload:"live"`
	// Max is how many it has at most, but for those that drain.
	Max *int `key:"max" unit:"connections" derived:"min" min:"1" max:"1000" reload:"live"`
	// Streams is how many calls in flight fill a connection. When all are full and
	// there are fewer than max, another one is opened.
	Streams *int `key:"streams" unit:"calls" default:"100" min:"1" max:"1000000" reload:"live"`
	// ScaleDownAfter is how long the load has to fit on fewer connections until those
	// too many are drained.
	ScaleDownAfter *time.Duration `key:"scaleDownAfter" default:"3m" above:"0s" reload:"live"`
	// MaxAge is how old a connection gets, give or take 10%, before another one takes
	// its place: at least 100ms. 0s sets no bound.
	MaxAge *time.Duration `key:"maxAge" default:"0s" min:"0s" max:"87600h" reload:"live"`
	// MinReady is how many endpoints of a target are kept connected without traffic,
	// for targets that do not say so themselves.
	MinReady *int `key:"minReady" unit:"endpoints" default:"0" min:"0" max:"10000" reload:"live"`
	// Unresponsive replaces connections that look ready and no longer answer. Left
	// out, they are kept.
	Unresponsive *Unresponsive `key:"unresponsive" reload:"live"`
}

// Unresponsive says when a connection that stands counts as dead.
type Unresponsive struct {
	// Deadlines is how many calls have to run into their deadline without a byte from
	// the server, all begun after the connection's last response.
	Deadlines *int `key:"deadlines" unit:"calls" default:"3" min:"1" max:"1000000" reload:"live"`
	// Window is how long ago that response has to be. It doubles with each connection
	// in a row that is replaced, up to 16 times.
	Window *time.Duration `key:"window" default:"10s" min:"10ms" max:"1h" reload:"live"`
}

// Codes are the names that lists of status codes may hold, as gRPC spells them.
// OK is not one of them: it is no failure.
func Codes() []string {
	return []string{
		"CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE",
		"DATA_LOSS", "UNAUTHENTICATED",
	}
}
