package sdk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"
	"unique"

	"github.com/slicewire/slicewire/interceptors"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// Topology returns what is in force.
func (c *Client) Topology() Topology { return c.seen.Load().topology.clone() }

// ValidateTopology says what UpdateTopology would refuse t for, and changes nothing.
func (c *Client) ValidateTopology(t Topology) error {
	_, err := c.seen.Load().settings.plan(t.clone())
	return refused(err)
}

// UpdateTopology makes t the client's targets and groups, while RPCs run, all of it
// or nothing. Targets that stay keep their connections, and what is known of them;
// RPCs in flight on one that goes finish (WithDrainTimeout), and if it is listed
// again before they have, its connections serve on. New timings hold at once. It
// connects to nothing itself.
//
// t is all of the topology, what a configuration says of it too. One that is applied
// later is put on top of t, as the first one was put on top of what Dial was given.
//
// The error lists everything that is wrong with t, or is ErrClosed; then nothing
// changed.
func (c *Client) UpdateTopology(t Topology) (TopologyChange, error) {
	change, err := c.replace(func(s *settings) (*plan, error) { return s.plan(t.clone()) })
	switch {
	case errors.Is(err, ErrClosed):
		return TopologyChange{}, err
	case err != nil:
		return TopologyChange{}, refused(err)
	}
	if !change.Empty() {
		c.logger.Info("the topology changed", slog.Any("targets", change.Targets), slog.Any("groups", change.Groups))
	}
	return change, nil
}

// replace puts in force what next makes of the settings in force.
func (c *Client) replace(next func(*settings) (*plan, error)) (TopologyChange, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return TopologyChange{}, ErrClosed
	}
	before := c.plan
	after, err := next(before.settings)
	if err == nil {
		after.keepNames(before)
		err = c.apply(after)
	}
	if err != nil {
		return TopologyChange{}, err
	}
	c.base = after.topology
	return difference(before, after), nil
}

func refused(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("slicewire: the topology was refused, and nothing changed: %w", err)
}

// SetTargetEnabled takes a target out of all its groups, whatever its state, or puts
// it back. A group whose targets are all out stays at its current one. It outlives
// updates of the topology. The error says that no group lists the target, or is
// ErrClosed.
func (c *Client) SetTargetEnabled(target string, enabled bool, reason string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if reason == "" {
		reason = "no reason was given"
	}
	for _, m := range c.plan.members {
		if m.key.name != target {
			continue
		}
		if delete(c.off, target); !enabled {
			c.off[target] = reason
		}
		c.driver.disable(c.pools[m.key], c.off[target])
		return nil
	}
	return fmt.Errorf("slicewire: no group lists the target %q; listed are %v", target, c.plan.names())
}

// apply puts next in force: it prepares what may fail, commits by one store, and
// retires what is out. The caller holds mu.
func (c *Client) apply(next *plan) error {
	c.revise(next)
	pools := make(map[poolKey]*pool, len(next.members))
	var made []*pool
	for _, m := range next.members {
		p := c.pools[m.key]
		if p == nil {
			if d := c.leaving[m.key]; d != nil {
				p = d.pool
			}
		}
		if p == nil {
			var err error
			if p, err = c.dialPool(m); err != nil {
				for _, p := range made {
					p.close()
				}
				return fmt.Errorf("target %q: %w", m.key.name, err)
			}
			made = append(made, p)
		}
		pools[m.key] = p
	}

	fresh := made // pools that calls could not reach until now
	for _, m := range next.members {
		if d := c.leaving[m.key]; d != nil {
			c.returned(m.key, d)
			_ = c.declared.tell(d.pool) // it has taken the like before
			fresh = append(fresh, d.pool)
		}
		c.configure(pools[m.key], m)
	}
	list := make([]wanted, len(next.groups))
	for i, members := range next.groups {
		g := next.topology.Groups[i]
		list[i] = wanted{name: g.Name, options: g.Failover}
		for _, m := range members {
			list[i].members = append(list[i].members, pools[m.key])
		}
	}
	groups, err := c.driver.update(list, time.Now())
	if err != nil {
		return err // plan let through what the state machine refuses
	}
	before := c.pools
	c.plan, c.pools = next, pools
	t := c.newTable(next, groups)
	c.seen.Store(t)
	c.table.Store(t)
	c.driver.tell() // WaitReady, of the default group

	for _, p := range fresh {
		// Once more, for what was said meanwhile to the pools of the table.
		_ = c.declared.tell(p)
	}
	for key, p := range before {
		if pools[key] != p {
			c.leave(key, p)
		}
	}
	c.monitored()
	return nil
}

// dialPool makes the pool of m, with what was said of selectors and endpoints since
// Dial.
func (c *Client) dialPool(m *member) (*pool, error) {
	p, err := dialPool(m, c.logger, c.shown)
	if err != nil {
		return nil, err
	}
	if err := c.declared.tell(p); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// configure gives p the settings of its target that may change while it is there.
func (c *Client) configure(p *pool, m *member) {
	p.reconfigure(m, c.logger)
	c.driver.setRatio(p, m.config.ErrorRatio)
	c.driver.disable(p, c.off[p.name])
	if m.standby && p.watching == nil {
		ctx, cancel := context.WithCancel(p.alive)
		p.watching = cancel
		p.verdicts.watched.Store(true)
		p.background.Go(func() { c.driver.watch(ctx, p) })
	}
	if !m.standby {
		c.driver.unwatch(p)
	}
}

// newTable is what calls find the groups of a plan by.
func (c *Client) newTable(pl *plan, groups []*group) *table {
	t := &table{routes: make(map[unique.Handle[string]]*route, len(groups)), groups: groups, topology: pl.topology, settings: pl.settings}
	for _, m := range pl.members {
		t.pools = append(t.pools, c.pools[m.key])
	}
	for i, g := range pl.topology.Groups {
		byMethod := pl.settings.selectorByMethod
		if g.Selector != "" && byMethod["*"] == "" {
			byMethod = maps.Clone(byMethod)
			if byMethod == nil {
				byMethod = make(map[string]string)
			}
			byMethod["*"] = g.Selector
		}
		selectors, _ := interceptors.NewSelectors(byMethod) // whose patterns Dial has checked
		r := &route{group: groups[i], selectors: selectors}
		t.routes[callinfo.Group(g.Name)] = r
		if i == 0 {
			t.fallback = r
		}
	}
	for pattern, name := range pl.settings.groupByMethod {
		if t.byMethod == nil {
			t.byMethod = &callinfo.Methods[*route]{}
		}
		_ = t.byMethod.Add(pattern, t.routes[callinfo.Group(name)]) // likewise
	}
	return t
}
