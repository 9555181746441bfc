package sdk

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/admission"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// DefaultSelector is the name of the selector that routes calls which name none.
const DefaultSelector = balancer.DefaultSelector

// namedPolicy is a selector that code declared.
type namedPolicy struct {
	name   string
	policy selection.Policy
}

// WithSelector declares a selector: a named way of routing over the client's
// endpoints and connections. A call chooses one by interceptors.WithSelector, or by
// its method with WithSelectorsByMethod. Of the name [DefaultSelector] it says how
// all other calls are routed; by default that is by slice where there is sharding,
// else by selection.P2C.
//
// A client with a selector does not need WithSharding.
func WithSelector(name string, p selection.Policy) Option {
	return func(s *settings) {
		s.clientWide = append(s.clientWide, "WithSelector")
		s.selectors = append(s.selectors, namedPolicy{name, p})
	}
}

// WithSelectorsByMethod names the selector for calls whose context names none, by
// method pattern: "/package.Service/Method", "/package.Service/*" or "*", of which
// the most specific one counts. The map is copied.
func WithSelectorsByMethod(byPattern map[string]string) Option {
	own := make(map[string]string, len(byPattern))
	for pattern, name := range byPattern {
		own[pattern] = name
	}
	return func(s *settings) {
		s.clientWide = append(s.clientWide, "WithSelectorsByMethod")
		s.selectorByMethod = own
	}
}

// WithUnknownSelectorsRefused fails calls that name a selector the client does
// not have, with UNAVAILABLE. By default the default selector routes them. Status
// counts them either way.
func WithUnknownSelectorsRefused() Option {
	return func(s *settings) { s.router.RefuseUnknownSelectors = true }
}

// WithBadResultsUseP2C lets p2c choose where a custom policy panicked or gave an
// index it must not give. By default that attempt fails with UNAVAILABLE. Status
// counts such results either way.
func WithBadResultsUseP2C() Option {
	return func(s *settings) { s.router.BadResultsUseP2C = true }
}

// WithStrictSingle has publications of policies fail with
// balancer.ErrSingleEndpoint while there is one endpoint, and so nothing to choose.
// By default they are accepted, and count once there are more. What Dial's options
// and service configs say is accepted either way.
func WithStrictSingle() Option {
	return func(s *settings) { s.router.StrictSingle = true }
}

// WithRetireTimeout bounds how long an endpoint that has left the name resolver's
// list stays connected for selectors whose data is from before; default 10 s.
func WithRetireTimeout(d time.Duration) Option {
	return func(s *settings) { s.router.RetireTimeout = d }
}

// WithMaxRetiring bounds how many endpoints stay connected so at once; of more the
// ones that left first are closed, and their RPCs in flight go on. Default: as many
// as the endpoint list has, and at least 64.
func WithMaxRetiring(n int) Option {
	return func(s *settings) { s.router.MaxRetiring = n }
}

// WithKeyHeader sets the request header that carries keys where there is no
// sharding, for policies that look at keys such as selection.Ketama. Without it
// such keys are not sent. Names are as for Sharding.KeyHeader.
func WithKeyHeader(name string) Option {
	return func(s *settings) { s.header = name }
}

// WithAdmission asks a before an attempt is sent to the endpoint that a policy
// chose; a refusal moves the attempt on to the next candidate. See
// admission.NewBreaker for a circuit breaker.
func WithAdmission(a admission.Admission) Option {
	return func(s *settings) { s.router.Admission = a }
}

// WithHealth has r probe the client's endpoints, together with those of every
// other client that has it: a server that several of them use is probed once. An
// endpoint whose probes fail gets no RPC while there is one whose probes pass; of a
// slice's owners it comes after the others. The caller closes r, after its clients.
func WithHealth(r *health.Registry) Option {
	return func(s *settings) { s.router.Health = r }
}

// WithFailAllUnhealthy fails RPCs with UNAVAILABLE while the probes of every
// endpoint fail. By default all are used then, since it may be the probes that are
// wrong. Owners of slices are used either way.
func WithFailAllUnhealthy() Option {
	return func(s *settings) { s.router.FailAllUnhealthy = true }
}

// WithGate shares g among clients: of all of them one at a time builds an
// assignment or the data of a selector. By default all clients of the process
// share one.
func WithGate(g *balancer.Gate) Option {
	return func(s *settings) { s.router.Gate = g }
}

// keyHeader is the header that code names, "" if none.
func (s *settings) keyHeader() string {
	if s.sharding != nil {
		return s.sharding.KeyHeader
	}
	return s.header
}

func (s *settings) checkSelectors() []error {
	var problems []error
	seen := make(map[string]bool)
	for _, d := range s.configuredSelectors {
		if err := d.policy.Validate(); err != nil {
			problems = append(problems, fmt.Errorf("selectors[%q].policy: %w", d.name, err))
		}
	}
	for _, d := range s.selectors {
		switch err := d.policy.Validate(); {
		case d.name == "":
			problems = append(problems, errors.New("WithSelector: the name is empty; a selector needs one, the default one is \"default\""))
		case seen[d.name]:
			problems = append(problems, fmt.Errorf("WithSelector: %q is declared twice; use a name for each selector", d.name))
		case err != nil:
			problems = append(problems, fmt.Errorf("WithSelector: %q: %w", d.name, err))
		}
		seen[d.name] = true
	}
	if _, err := interceptors.NewSelectors(s.selectorByMethod); err != nil {
		problems = append(problems, fmt.Errorf("WithSelectorsByMethod: %w", err))
	}
	if d := s.router.RetireTimeout; d < 0 {
		problems = append(problems, fmt.Errorf("WithRetireTimeout: %v is negative; use 0 for the default of %v", d, balancer.DefaultRetireTimeout))
	}
	if n := s.router.MaxRetiring; n < 0 {
		problems = append(problems, fmt.Errorf("WithMaxRetiring: %d is negative; use 0 for the default", n))
	}
	if s.header != "" {
		if _, err := callinfo.ParseHeader(s.header); err != nil {
			problems = append(problems, fmt.Errorf("WithKeyHeader: %w", err))
		} else if s.sharding != nil {
			problems = append(problems, errors.New("WithKeyHeader: WithSharding names the header already (KeyHeader); leave out one of the two"))
		}
	}
	return problems
}

// declareSelectors declares on r what code declared, then what is configured.
func (s *settings) declareSelectors(r *balancer.Router) error {
	for _, d := range s.selectors {
		if err := d.declare(r, balancer.FromCode); err != nil {
			return err
		}
	}
	for _, d := range s.configuredSelectors {
		if err := d.declare(r, balancer.FromConfig); err != nil {
			return err
		}
	}
	return nil
}

func (d *namedPolicy) declare(r *balancer.Router, source balancer.Source) error {
	if there := r.Selector(d.name); there != nil {
		_, err := there.Publish(d.policy, source)
		return err
	}
	_, err := r.AddSelector(d.name, d.policy, source)
	return err
}

// configuredSelector is the policy that is configured for a selector.
func (s *settings) configuredSelector(name string) (selection.Policy, bool) {
	for _, d := range s.configuredSelectors {
		if d.name == name {
			return d.policy, true
		}
	}
	return selection.Policy{}, false
}

// publishSelectors has r follow what is configured now, and withdraws what was.
func (s *settings) publishSelectors(r *balancer.Router, before *settings, logger *slog.Logger) {
	for _, was := range before.configuredSelectors {
		if _, stays := s.configuredSelector(was.name); !stays {
			r.Withdraw(was.name, balancer.FromConfig)
		}
	}
	for _, d := range s.configuredSelectors {
		if err := d.declare(r, balancer.FromConfig); err != nil && !errors.Is(err, balancer.ErrClosed) {
			logger.Warn("a selector's policy could not be published", slog.String("selector", d.name), slog.Any("error", err))
		}
	}
}
