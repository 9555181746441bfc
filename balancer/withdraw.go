package balancer

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/slicewire/slicewire/balancer/selection"
	"github.com/slicewire/slicewire/internal/callinfo"
)

// publishPolicies puts the policies in force that the LB config asks for, and a
// default one where nobody has published any, and withdraws what an earlier config
// had asked for.
func (p *policy) publishPolicies() {
	router := p.route.router
	_, _ = router.defaultSelector().Publish(p.config.defaultPolicy(), FromDefault) // of a closed Router nobody asks
	router.list(p.route, p.config.Selectors)
	for name, policy := range p.config.Selectors {
		var err error
		if s := router.Selector(name); s != nil {
			_, err = s.Publish(policy, FromResolver)
		} else {
			_, err = router.AddSelector(name, policy, FromResolver)
		}
		if err != nil && !errors.Is(err, ErrClosed) {
			p.route.log().Warn("a selector of the LB config was refused", slog.Any("error", err))
		}
	}
}

// list notes which selectors the LB config of a route lists, and withdraws what the
// name resolver has said of selectors that no route lists any more. A route keeps
// its list while the channel is idle. It is all under one lock: of two policies
// (xDS priorities) one must not withdraw what the other is about to publish.
func (r *Router) list(rt *route, selectors map[string]selection.Policy) {
	r.mu.Lock()
	rt.listed = selectors
	var dropped []*Selector
	routes := r.allRoutes()
	for _, s := range r.selectors {
		lists := func(rt *route) bool { _, ok := rt.listed[s.name]; return ok }
		if s.said[FromResolver] != nil && !slices.ContainsFunc(routes, lists) {
			dropped = append(dropped, s)
		}
	}
	if r.closed {
		dropped = nil
	}
	var returned []PolicyPublication
	for _, s := range dropped {
		before := s.rule
		s.withdraw(FromResolver, routes)
		if now := s.rule; now != before {
			returned = append(returned, PolicyPublication{Selector: s.name, Policy: now.policy.Kind().String(), Rule: now.policy.String(), Source: now.source, Generation: now.generation})
		}
	}
	r.mu.Unlock()
	for _, e := range returned {
		r.tell(e)
	}
	if len(dropped) == 0 {
		return
	}
	for _, s := range dropped {
		r.options.Logger.Info("the LB config does not list a selector any more; what others have published of it stays",
			slog.String("selector", s.name), slog.Bool("removed", s.name != DefaultSelector && r.Selector(s.name) != s))
	}
	for _, rt := range routes {
		rt.wakeUp()
	}
	r.changes.send()
}

// Withdraw forgets what a source has said of a selector: the newest word of another
// source takes its place if it was in force, and a named selector that nobody else
// has spoken of is removed. It does nothing if the source has said nothing, or the
// Router is closed.
func (r *Router) Withdraw(name string, source Source) {
	handle := callinfo.Selector(name)
	r.mu.Lock()
	routes := r.allRoutes()
	i := slices.IndexFunc(r.selectors, func(s *Selector) bool { return s.handle == handle })
	if source >= sources || i < 0 || r.closed || r.selectors[i].said[source] == nil {
		r.mu.Unlock()
		return
	}
	r.selectors[i].withdraw(source, routes)
	r.mu.Unlock()
	for _, rt := range routes {
		rt.wakeUp()
	}
	r.changes.send()
}

// withdraw forgets what a source has said. The newest word of another source takes
// its place if it was in force; a named selector that nobody else has spoken of is
// removed, and builds of it end by themselves. Called under the Router's mu.
func (s *Selector) withdraw(source Source, routes []*route) {
	s.said[source] = nil
	newest := Source(0)
	for other := range sources {
		if s.said[other] != nil && (s.said[newest] == nil || s.said[other].at >= s.said[newest].at) {
			newest = other
		}
	}
	if s.said[newest] == nil {
		if s != s.router.selectors[0] {
			s.router.removing.Add(1)
			gone := s.router.remove(s)
			go func() { // a build may be the user's and slow; Close of the Router waits
				defer s.router.removing.Done()
				for _, sl := range gone {
					sl.close()
				}
			}()
		} else if s.rule.source == source { // until the first publication FromDefault
			s.put(selection.P2C(), FromDefault, routes)
		}
		return
	}
	if s.rule.source == source {
		s.put(s.said[newest].policy, newest, routes)
	}
}

// put puts a policy in force. Called under the Router's mu.
func (s *Selector) put(p selection.Policy, source Source, routes []*route) {
	r := &rule{generation: 1, policy: p, source: source, at: time.Now()}
	if s.rule != nil {
		r.generation = s.rule.generation + 1
	}
	s.rule = r
	s.history = append(slices.Clone(s.history[max(0, len(s.history)-keptHistory+1):]),
		PublicationStatus{r.generation, p.String(), source, r.at})
	for _, rt := range routes {
		if slot := rt.slots.Load().find(s); slot != nil {
			slot.setRule(r)
		}
	}
}
