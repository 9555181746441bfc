package sdk

import (
	"cmp"
	"context"
	"slices"
)

// departed is a pool that no group lists any more, until its RPCs are over.
type departed struct {
	pool *pool
	back context.CancelFunc // it is listed again, or the Client closes
}

// leave closes p once its RPCs are over. No table has it any more.
func (c *Client) leave(key poolKey, p *pool) {
	c.driver.unwatch(p)
	p.calls.seal()
	timeout := c.plan.settings.drainTimeout
	ctx, back := context.WithCancel(c.alive)
	d := &departed{p, back}
	c.leaving[key] = d
	c.background.Go(func() {
		defer back()
		within, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		_ = p.calls.wait(within) // too late is as good as over
		c.mu.Lock()
		over := c.leaving[key] == d
		if over {
			delete(c.leaving, key)
			c.tellLeaving()
		}
		c.mu.Unlock()
		if over {
			c.driver.closePool(p)
		}
	})
	c.tellLeaving()
}

// returned takes a pool back that was leaving.
func (c *Client) returned(key poolKey, d *departed) {
	d.back()
	delete(c.leaving, key)
	c.tellLeaving()
	d.pool.calls.unseal()
}

// tellLeaving publishes the pools that are leaving, for Status. The caller holds mu.
func (c *Client) tellLeaving() {
	var pools []*pool
	for _, d := range c.leaving {
		pools = append(pools, d.pool)
	}
	slices.SortFunc(pools, func(a, b *pool) int { return cmp.Compare(a.id, b.id) })
	c.onLeave.Store(&pools)
}
