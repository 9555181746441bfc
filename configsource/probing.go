package configsource

import "time"

// Health has endpoints probed.
type Health struct {
	Probing
	// FailAllUnhealthy fails calls with UNAVAILABLE while the probes of every endpoint
	// fail. Off, all endpoints are used then, since it may be the probes that are wrong.
	FailAllUnhealthy *bool `key:"failAllUnhealthy" default:"false" reload:"live"`
}

// Probing is how probes are made.
type Probing struct {
	// Checker is one probe.
	Checker Checker `key:"checker" required:"true" reload:"live"`
	// Interval is the time from the start of a probe to the start of the next one.
	Interval *time.Duration `key:"interval" default:"10s" min:"10ms" reload:"live"`
	// Timeout is each probe's own deadline, no longer than the interval.
	Timeout *time.Duration `key:"timeout" derived:"1s, or interval if that is shorter" above:"0s" reload:"live"`
	// Jitter is by how much an interval may be longer or shorter, as a fraction of it.
	Jitter *float64 `key:"jitter" default:"0.1" min:"0" max:"0.5" reload:"live"`
	// FailAfter is how many probes in a row have to fail for the state to change.
	FailAfter *int `key:"failAfter" unit:"probes" default:"1" min:"1" max:"1000000" reload:"live"`
	// PassAfter is how many probes in a row have to pass for the state to change.
	PassAfter *int `key:"passAfter" unit:"probes" default:"1" min:"1" max:"1000000" reload:"live"`
	// Workers is how many probes may run at once.
	Workers *int `key:"workers" unit:"probes" default:"16" min:"1" max:"10000" reload:"live"`
	// Initial is what a target counts as before its first probe.
	Initial *string `key:"initial" default:"healthy" enum:"healthy|unhealthy|unknown" reload:"live"`
}

// Checker is one kind of probe, with its settings.
type Checker struct {
	// Kind is tcp for a connection, tls for a handshake with the system's roots, http for
	// a request in plaintext, grpc for the standard health service over the client's own
	// connections. Others, and other certificates, code has to give.
	Kind string `key:"kind" required:"true" enum:"tcp|tls|http|grpc" reload:"live"`
	// Service is what the health service is asked for. Left out, it is the server as a
	// whole. For grpc.
	Service *string `key:"service" only:"kind=grpc" reload:"live"`
	// Path of the request, with a query if there is one. For http.
	Path *string `key:"path" default:"/" only:"kind=http" reload:"live"`
	// Method of the request. For http.
	Method *string `key:"method" default:"GET" enum:"GET|HEAD|POST|PUT|OPTIONS" only:"kind=http" reload:"live"`
	// Host is the Host header. Left out, it is the target's address. For http.
	Host *string `key:"host" only:"kind=http" reload:"live"`
	// MaxBody is how many bytes of an answer's body are read. For http.
	MaxBody *int `key:"maxBody" unit:"bytes" default:"65536" min:"1" max:"67108864" only:"kind=http" reload:"live"`
}
