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
	rest := p
	rest.selector = otherNames
	oneMore(c, &c.publications, p, rest)
}

func (c *counts) applied(a apply) {
	rest := a
	rest.source = otherNames
	oneMore(c, &c.applies, a, rest)
}

func (c *counts) keyMissing(selector string) { oneMore(c, &c.keysMissing, selector, otherNames) }

// oneMore counts one of what, or of rest where there would be too many kinds.
func oneMore[K comparable](c *counts, in *map[K]uint64, what, rest K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *in == nil {
		*in = make(map[K]uint64)
	}
	if _, ok := (*in)[what]; !ok && len(*in) >= mostNames {
		what = rest
	}
	(*in)[what]++
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
