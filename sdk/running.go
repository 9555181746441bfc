package sdk

import (
	"errors"
	"reflect"

	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/configsource"
)

// running is what a configuration has running of its own, and what it was made from.
// What is made from equal settings stays, with what it has learned. Immutable.
type running struct {
	health   *health.Registry // nil without
	probing  *configsource.Probing
	breaker  admission.Admission // nil without
	breaking *configsource.Breaker
	// monitor is of the configuration, else of code, or nil.
	monitor    *monitor
	monitoring *configsource.Probing
}

// with is what is to run for a configuration, with the parts of r that can stay. code
// is what WithMonitor says. Where it fails nothing is left of it.
func (r *running) with(c *configsource.Config, code *health.Options, first bool, changed func(target string)) (*running, error) {
	next := *r
	var problems []error
	probed := (*configsource.Probing)(nil)
	if c.Health != nil {
		probed = &c.Health.Probing
	}
	if !reflect.DeepEqual(probed, r.probing) {
		next.health, next.probing = nil, probed
		if probed != nil {
			var err error
			next.health, err = health.NewRegistry(probing(probed))
			problems = append(problems, located("health", err))
		}
	}
	if !reflect.DeepEqual(c.Breaker, r.breaking) {
		next.breaker, next.breaking = nil, c.Breaker
		if c.Breaker != nil {
			b, err := admission.NewBreaker(breakerOf(c.Breaker))
			next.breaker = b
			problems = append(problems, located("breaker", err))
		}
	}
	if first || !reflect.DeepEqual(c.Monitor, r.monitoring) {
		next.monitor, next.monitoring = nil, c.Monitor
		o, what := code, "WithMonitor"
		if c.Monitor != nil {
			configured := probing(c.Monitor)
			o, what = &configured, "monitor"
		}
		if o != nil {
			var err error
			next.monitor, err = newMonitor(*o, changed)
			problems = append(problems, located(what, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		next.closeBut(r)
		return nil, err
	}
	return &next, nil
}

// closeBut ends what other does not have too.
func (r *running) closeBut(other *running) {
	if r.monitor != other.monitor {
		r.monitor.close()
	}
	if r.health != nil && r.health != other.health {
		r.health.Close()
	}
}
