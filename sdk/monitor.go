package sdk

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/health"
)

// monitor probes the targets of groups that have several, over their own
// connections: a connection that nobody uses says little, and pings without RPCs
// earn a client GOAWAY from servers as they are by default.
type monitor struct {
	checker  health.Checker
	registry *health.Registry
	view     *health.View
	ids      map[string]string // of pools by target; the Client's mu guards it
}

func newMonitor(o health.Options, changed func(target string)) (*monitor, error) {
	if o.Checker == nil {
		o.Checker = health.GRPC("")
	}
	m := &monitor{checker: o.Checker, ids: make(map[string]string)}
	if o.Equivalence == nil {
		// What was learned at another URI says nothing of the one that a target has now.
		o.Equivalence = func(t health.Target) string { return m.ids[t.Name] }
	}
	var err error
	if m.registry, err = health.NewRegistry(o); err != nil {
		return nil, err
	}
	if m.view, err = m.registry.NewView(changed); err != nil {
		m.registry.Close()
		return nil, err
	}
	return m, nil
}

func (m *monitor) close() {
	if m != nil {
		m.view.Close()
		m.registry.Close()
	}
}

// checkerOrDefault is how to probe, where there is no monitor too.
func (m *monitor) checkerOrDefault() health.Checker {
	if m == nil {
		return health.GRPC("")
	}
	return m.checker
}

// good is what the probes say of a target.
func (m *monitor) good(target string) bool { return m.view.Cell(target).State() != health.Unhealthy }

// monitored has the standbys of the plan in force probed. The caller holds mu.
func (c *Client) monitored() {
	mon := c.monitor.Load()
	if mon == nil && !c.judged {
		return
	}
	if c.judged = mon != nil; mon != nil {
		var targets []health.Target
		clear(mon.ids)
		for _, m := range c.plan.members {
			if p := c.pools[m.key]; m.standby {
				mon.ids[p.name] = p.id
				targets = append(targets, health.Target{Name: p.name, Conn: p.live})
			}
		}
		_ = mon.view.Set(targets) // fails only once it is closed
	}
	for _, m := range c.plan.members {
		// Who is not probed any more is not condemned by what probes said before.
		good := mon == nil || !m.standby || mon.good(m.key.name)
		c.driver.judge(c.pools[m.key], failover.ByMonitor, func() bool { return good })
	}
}

// probedAnew is told by a monitor that what its probes say has changed.
func (c *Client) probedAnew(target string) {
	t := c.table.Load()
	if t == nil {
		return
	}
	for _, p := range t.pools {
		if p.name == target {
			c.driver.judge(p, failover.ByMonitor, func() bool {
				m := c.monitor.Load() // in force, be it another one than was heard
				return m == nil || m.good(target)
			})
		}
	}
}

// probe asks once whether p works.
func (p *pool) probe(ctx context.Context, checker health.Checker) error {
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	return checker.Check(ctx, health.Target{Name: p.name, Conn: p.live})
}

// live is the channel for probes, nil while it cannot connect: that is known without
// them, and a verdict of then would outlive the outage until the next probe.
func (p *pool) live() grpc.ClientConnInterface {
	if p.cc.GetState() == connectivity.TransientFailure {
		return nil
	}
	return probes{p}
}

// probes is a pool's channel for RPCs that are about the target, not for anybody's
// key: they go to any endpoint of it, and count for nothing.
type probes struct{ pool *pool }

func (c probes) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	ctx, err := c.keyless(ctx, method, opts)
	if err != nil {
		return err
	}
	return c.pool.cc.Invoke(ctx, method, args, reply, opts...)
}

func (c probes) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, err := c.keyless(ctx, method, opts)
	if err != nil {
		return nil, err
	}
	return c.pool.cc.NewStream(ctx, desc, method, opts...)
}

func (c probes) keyless(ctx context.Context, method string, opts []grpc.CallOption) (context.Context, error) {
	keys, err := c.pool.keysInForce(ctx, opts)
	if err != nil || keys == nil {
		return ctx, err
	}
	return keys.passed.Begin(ctx, c.pool.cc, method, nil)
}
