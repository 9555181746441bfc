package sdk

import (
	"time"

	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/configsource"
)

func policyOf(p *configsource.Policy) selection.Policy {
	switch p.Kind {
	case "ketama":
		var o selection.KetamaOptions
		set(&o.PointsPerWeight, p.PointsPerWeight)
		set(&o.MaxPoints, p.MaxPoints)
		if p.Seed != nil {
			o.Seed = uint32(*p.Seed)
		}
		return selection.Ketama(o)
	case "sliced":
		if in := p.InSlice; in != nil {
			return selection.Sliced(simplePolicy(in.Kind, in.Penalty))
		}
		return selection.Sliced(selection.Policy{})
	}
	return simplePolicy(p.Kind, p.Penalty)
}

func simplePolicy(kind string, penalty *time.Duration) selection.Policy {
	policy, _ := selection.ByName(kind) // the configuration was checked
	if penalty != nil {
		policy = policy.WithPenalty(*penalty)
	}
	return policy
}

func probing(p *configsource.Probing) health.Options {
	o := health.Options{Checker: checkerOf(&p.Checker)}
	set(&o.Interval, p.Interval)
	set(&o.Timeout, p.Timeout)
	if p.Jitter != nil {
		o.Jitter = *p.Jitter
		if o.Jitter == 0 {
			o.Jitter = -1
		}
	}
	set(&o.FailAfter, p.FailAfter)
	set(&o.PassAfter, p.PassAfter)
	set(&o.Workers, p.Workers)
	if p.Initial != nil {
		for _, state := range []health.State{health.Healthy, health.Unhealthy, health.Unknown} {
			if state.String() == *p.Initial {
				o.Initial = state
			}
		}
	}
	return o
}

func checkerOf(c *configsource.Checker) health.Checker {
	switch c.Kind {
	case "tcp":
		return health.TCP()
	case "tls":
		return health.TLS(nil)
	case "http":
		var o health.HTTPOptions
		set(&o.Path, c.Path)
		set(&o.Method, c.Method)
		set(&o.Host, c.Host)
		if c.MaxBody != nil {
			o.MaxBody = int64(*c.MaxBody)
		}
		return health.HTTP(o)
	}
	service := ""
	set(&service, c.Service)
	return health.GRPC(service)
}

func breakerOf(b *configsource.Breaker) admission.BreakerOptions {
	var o admission.BreakerOptions
	set(&o.MinThroughput, b.MinThroughput)
	set(&o.FailureRatio, b.Ratio)
	set(&o.Window, b.Window)
	set(&o.OpenFor, b.Open)
	set(&o.HalfOpenCalls, b.HalfOpen)
	o.Codes = codesOf(b.Codes)
	return o
}
