package telemetry

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
)

// mostNames bounds the labels of what is counted here by names that callers choose;
// the rest share one name.
const (
	mostNames  = 256
	otherNames = "other"
)

// counts are what telemetry itself counts for a client, seldom, so that it is gone
// with the client.
type counts struct {
	mu           sync.Mutex // guards the rest
	publications map[publication]uint64
	applies      map[apply]uint64
	keysMissing  map[string]uint64
}

type publication struct{ selector, policy, source, result string }

type apply struct{ source, result string }

func (c *counts) published(p publication) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.publications == nil {
		c.publications = make(map[publication]uint64)
	}
	if _, ok := c.publications[p]; !ok && len(c.publications) >= mostNames {
		p.selector = otherNames
	}
	c.publications[p]++
}

func (c *counts) applied(a apply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.applies == nil {
		c.applies = make(map[apply]uint64)
	}
	if _, ok := c.applies[a]; !ok && len(c.applies) >= mostNames {
		a.source = otherNames
	}
	c.applies[a]++
}

func (c *counts) keyMissing(selector string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keysMissing == nil {
		c.keysMissing = make(map[string]uint64)
	}
	if _, ok := c.keysMissing[selector]; !ok && len(c.keysMissing) >= mostNames {
		selector = otherNames
	}
	c.keysMissing[selector]++
}

func (c *counts) show(o *output) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p, n := range c.publications {
		o.count(policyPublications, n, attribute.String(LabelSelector, p.selector), attribute.String(LabelPolicy, p.policy),
			attribute.String(LabelSource, p.source), attribute.String(LabelResult, p.result))
	}
	for a, n := range c.applies {
		o.count(configApplies, n, attribute.String(LabelSource, a.source), attribute.String(LabelResult, a.result))
	}
	for selector, n := range c.keysMissing {
		o.count(keyMissing, n, attribute.String(LabelSelector, selector))
	}
}
