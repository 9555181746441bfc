package failover

import (
	"errors"
	"fmt"
	"time"
)

// RatioOptions are the settings of a [Ratio]. A zero field has its default.
type RatioOptions struct {
	// Window is how far back calls count. It moves on in 16 steps, so a call counts
	// for at least 15/16 of it. 1 min by default; 1 s to 24 h.
	Window time.Duration
	// Threshold is the share of failures, reached or exceeded, that condemns the
	// target. 1 by default, which is that nothing works: what moves all the traffic to
	// another address should not be a few bad endpoints. Above 0, at most 1.
	Threshold float64
	// MinFailures is how many failures the window must hold before their share
	// counts. 3 by default, at most 100,000.
	MinFailures int
	// Codes are the gRPC status codes that are failures; others but a call that its
	// caller cancelled are successes. UNAVAILABLE (14), DEADLINE_EXCEEDED (4) and
	// UNAUTHENTICATED (16) by default; each 1 to 63.
	Codes []uint32
	// Probes is how many probes in a row must pass before a condemned target is good
	// again. 3 by default, at most 1,000.
	Probes int
	// Hold is how long a target stays condemned at least. It doubles each time that
	// the target is condemned again within a Window of its return, up to 8 times as
	// long. What Window is by default, and no less than that, so that traffic leaves
	// the target at most once in a Window; at most 24 h.
	Hold time.Duration
	// OnTrial lets the target be good again when the hold is over, probes or not: for
	// when nobody probes it, since otherwise it would stay condemned for ever.
	OnTrial bool
}

const (
	minWindow      = time.Second
	maxWindow      = 24 * time.Hour
	maxFailures    = 100_000 // less than a bucket can count
	maxProbes      = 1_000
	maxCode        = 63
	maxDoublings   = 3
	defaultWindow  = time.Minute
	defaultMinimum = 3
	defaultProbes  = 3
)

var defaultCodes = []uint32{14, 4, 16}

// Validate reports everything that is not allowed.
func (o RatioOptions) Validate() error {
	_, err := o.withDefaults()
	return err
}

// withDefaults fills in what is zero and reports everything that is not allowed.
func (o RatioOptions) withDefaults() (RatioOptions, error) {
	o.Window = or(o.Window, defaultWindow)
	o.Threshold = or(o.Threshold, 1)
	o.MinFailures = or(o.MinFailures, defaultMinimum)
	o.Probes = or(o.Probes, defaultProbes)
	o.Hold = or(o.Hold, o.Window)
	if len(o.Codes) == 0 {
		o.Codes = defaultCodes
	}

	var problems []error
	wrong := func(field string, is, allowed any) {
		problems = append(problems, fmt.Errorf("failover: RatioOptions.%s is %v; allowed is %v, or 0 for the default", field, is, allowed))
	}
	if o.Window < minWindow || o.Window > maxWindow {
		wrong("Window", o.Window, fmt.Sprintf("%v to %v", minWindow, maxWindow))
	}
	if !(o.Threshold > 0 && o.Threshold <= 1) { // so that NaN is refused
		wrong("Threshold", o.Threshold, "above 0 and at most 1")
	}
	if o.MinFailures < 1 || o.MinFailures > maxFailures {
		wrong("MinFailures", o.MinFailures, fmt.Sprintf("1 to %d calls", maxFailures))
	}
	if o.Probes < 1 || o.Probes > maxProbes {
		wrong("Probes", o.Probes, fmt.Sprintf("1 to %d", maxProbes))
	}
	if o.Hold < o.Window || o.Hold > maxWindow {
		wrong("Hold", o.Hold, fmt.Sprintf("the Window, %v, to %v", o.Window, maxWindow))
	}
	for i, c := range o.Codes {
		if c < 1 || c > maxCode {
			problems = append(problems, fmt.Errorf("failover: RatioOptions.Codes[%d] is %d; allowed is 1 to %d, or no codes at all for the default", i, c, maxCode))
		}
	}
	return o, errors.Join(problems...)
}

// failures is the codes as a set: bit n is code n.
func (o RatioOptions) failures() (set uint64) {
	for _, c := range o.Codes {
		set |= 1 << c
	}
	return set
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
