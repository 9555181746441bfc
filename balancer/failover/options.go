package failover

import (
	"errors"
	"fmt"
	"time"
)

// Options are the timings of a group. Of each field 0 is the default and anything
// negative is none.
type Options struct {
	// Recovery is how long a target whose connection is lost keeps its traffic,
	// unless one of higher priority is available. It is given once, and again only
	// after MinUptime. 1 s by default; with none, a target that fails is left at once.
	Recovery time.Duration
	// MinUptime is how long a target must have been up without a break to be given
	// Recovery again, and to take traffic back from a target that works. By default
	// what Recovery is; with none, a target that flaps can hold the traffic for ever,
	// or pull it back and forth.
	MinUptime time.Duration
	// InitialGrace is how long a target that was never up may take to come up, before
	// one of lower priority is used instead. By default what Recovery is, but at most
	// 1 s; with none, its first failure counts at once.
	InitialGrace time.Duration
	// SwitchDelay is how long a target of higher priority must have been available
	// before traffic moves to it from one that is available too. None by default,
	// since MinUptime already keeps a target that flaps from taking over. Leaving a
	// target that is not available never waits for it.
	SwitchDelay time.Duration
}

const (
	defaultRecovery = time.Second
	maxInitialGrace = time.Second // of the default, not of what can be set
	maxTiming       = 24 * time.Hour
)

// Validate reports everything that is not allowed: a timing above 24 h.
func (o Options) Validate() error {
	_, err := o.withDefaults()
	return err
}

// withDefaults fills in what is zero, makes 0 of what is negative, and reports
// everything that is not allowed.
func (o Options) withDefaults() (Options, error) {
	o.Recovery = timing(o.Recovery, defaultRecovery)
	o.MinUptime = timing(o.MinUptime, o.Recovery)
	o.InitialGrace = timing(o.InitialGrace, min(o.Recovery, maxInitialGrace))
	o.SwitchDelay = timing(o.SwitchDelay, 0)

	var problems []error
	for _, f := range []struct {
		name string
		is   time.Duration
	}{
		{"Recovery", o.Recovery},
		{"MinUptime", o.MinUptime},
		{"InitialGrace", o.InitialGrace},
		{"SwitchDelay", o.SwitchDelay},
	} {
		if f.is > maxTiming {
			problems = append(problems, fmt.Errorf(
				"failover: Options.%s is %v; allowed is at most %v, 0 for the default, or anything negative for none", f.name, f.is, maxTiming))
		}
	}
	return o, errors.Join(problems...)
}

func timing(is, otherwise time.Duration) time.Duration {
	switch {
	case is == 0:
		return otherwise
	case is < 0:
		return 0
	}
	return is
}
