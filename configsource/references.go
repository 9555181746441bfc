package configsource

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// references checks that every name is declared: here, or by name under inCode.
func (v *validator) references(c *Config) {
	in := c.InCode
	if in == nil {
		in = &InCode{}
	}
	targets := known("targets", nil, c.Targets, func(t Target) string { return t.Name })
	groups := known("groups", in.Groups, c.Groups, func(g Group) string { return g.Name })
	selectors := known("selectors", append(slices.Clone(in.Selectors), defaultName), c.Selectors, func(s Selector) string { return s.Name })
	services := known("shardingServices", in.ShardingServices, c.ShardingServices, func(s ShardingService) string { return s.Key })
	profiles := known("profiles", in.Profiles, nil, func(string) string { return "" })
	var top *path

	for i, t := range c.Targets {
		at := top.in("targets").at(i)
		v.refers(at.in("profile"), t.Profile, profiles)
		if t.Sharding != nil {
			v.refers(at.in("sharding").in("serviceKey"), &t.Sharding.ServiceKey, services)
		}
	}
	for i, g := range c.Groups {
		at := top.in("groups").at(i)
		v.groupTargets(at.in("targets"), g.Targets, targets)
		v.refers(at.in("selector"), g.Selector, selectors)
	}
	for i, m := range c.GroupsByMethod {
		at := top.in("groupsByMethod").at(i)
		v.pattern(at.in("pattern"), m.Pattern)
		v.refers(at.in("group"), &m.Group, groups)
	}
	for i, m := range c.SelectorsByMethod {
		at := top.in("selectorsByMethod").at(i)
		v.pattern(at.in("pattern"), m.Pattern)
		v.refers(at.in("selector"), &m.Selector, selectors)
	}
	for i, s := range c.ShardingServices {
		v.refers(top.in("shardingServices").at(i).in("profile"), s.Profile, profiles)
	}
	if c.Sharding != nil {
		v.refers(top.in("sharding").in("serviceKey"), &c.Sharding.ServiceKey, services)
	}
}

// declared are names of one sort.
type declared struct {
	sort  string // the key they are declared under
	names []string
	has   map[string]bool
}

func known[T any](sort string, inCode []string, list []T, name func(T) string) declared {
	d := declared{sort: sort, names: slices.Clone(inCode), has: make(map[string]bool, len(list)+len(inCode))}
	for _, item := range list {
		d.names = append(d.names, name(item))
	}
	d.names = slices.DeleteFunc(d.names, func(n string) bool {
		repeated := n == "" || d.has[n]
		d.has[n] = true
		return repeated
	})
	return d
}

// listed is the names for a sentence, not all of very many.
func (d declared) listed() string {
	const most = 12
	switch n := len(d.names); {
	case n == 0:
		return "none is declared"
	case n > most:
		return "declared are " + strings.Join(d.names[:most], ", ") + " and others"
	}
	return "declared are " + strings.Join(d.names, ", ")
}

// refers checks one name. "" is a problem that was reported already.
func (v *validator) refers(at *path, name *string, to declared) {
	if name == nil || *name == "" || to.has[*name] {
		return
	}
	where := "declare it under " + to.sort + ", or name it under inCode." + to.sort + " if code declares it"
	if to.sort == "profiles" {
		where = "code declares profiles; name it under inCode.profiles if it does"
	}
	v.wrong(at, *name, "%s%s; %s", meant(*name, to.names), to.listed(), where)
}

// groupTargets checks a group's list: declared names and dial targets, each once.
func (v *validator) groupTargets(at *path, names []string, to declared) {
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		switch {
		case name == "":
		case seen[name]:
			v.wrong(at.at(i), name, "the group has it already; name it once")
		case !to.has[name] && !strings.Contains(name, ":"):
			v.wrong(at.at(i), name, "%s%s; name one of them, or write a dial target such as dns:///%s:443",
				meant(name, to.names), to.listed(), name)
		}
		seen[name] = true
	}
}

// pattern checks a method pattern.
func (v *validator) pattern(at *path, pattern string) {
	if pattern == "" || pattern == "*" {
		return
	}
	service, method, cut := strings.Cut(strings.TrimPrefix(pattern, "/"), "/")
	if pattern[0] != '/' || !cut || service == "" || method == "" || strings.ContainsAny(service, "*/ ") ||
		method != "*" && strings.ContainsAny(method, "*/ ") {
		v.wrong(at, pattern, "it has to be /package.Service/Method, /package.Service/* or *")
	}
}

// relations checks values that have to fit each other. Defaults take part.
func (v *validator) relations(c *Config) {
	var top *path
	v.header(top.in("keyHeader"), c.KeyHeader)
	if c.Sharding != nil {
		v.header(top.in("sharding").in("keyHeader"), &c.Sharding.KeyHeader)
		if c.KeyHeader != nil {
			v.wrong(top.in("keyHeader"), *c.KeyHeader, "sharding.keyHeader names the header already; leave out one of the two")
		}
	}
	v.targets(c.Targets)
	if h := c.Health; h != nil {
		v.probing(top.in("health"), &h.Probing)
	}
	if m := c.Monitor; m != nil {
		v.probing(top.in("monitor"), m)
	}
	if n := c.Connections; n != nil {
		least := *cmp.Or(n.Min, new(1))
		if n.Max != nil && *n.Max < least {
			v.wrong(top.in("connections").in("max"), *n.Max, "it has to be at least connections.min, which is %d", least)
		}
		if age := n.MaxAge; age != nil && *age > 0 && *age < leastAge {
			v.wrong(top.in("connections").in("maxAge"), *age, "it has to be at least %s, or 0s for no bound", format(leastAge))
		}
	}
	if st := c.ShardingStream; st != nil && st.Backoff != nil {
		b := *st.Backoff
		fillOf(&b)
		if *b.MaxDelay < *b.BaseDelay {
			v.wrong(top.in("shardingStream").in("backoff").in("maxDelay"), *b.MaxDelay,
				"it has to be at least baseDelay, which is %s", format(*b.BaseDelay))
		}
	}
}

// leastAge is the least that connections.maxAge bounds anything to.
const leastAge = 100 * time.Millisecond

// targets checks that each has connections of its own, and what belongs to one.
func (v *validator) targets(targets []Target) {
	seen := make(map[Pool]int, len(targets))
	for i, t := range targets {
		at := (*path)(nil).in("targets").at(i)
		p := Pool{URI: t.URI}
		if t.Profile != nil {
			p.Profile = *t.Profile
		}
		if first, twice := seen[p]; twice && t.URI != "" {
			v.wrong(at.in("uri"), t.URI, "targets[%d] has the same uri and profile, and so the same connections; declare it once and name it in both groups", first)
		} else {
			seen[p] = i
		}
		if t.Sharding != nil {
			v.header(at.in("sharding").in("keyHeader"), &t.Sharding.KeyHeader)
		}
		if r := t.ErrorRatio; r != nil && r.Hold != nil {
			full := *r
			fillOf(&full)
			if *r.Hold < *full.Window {
				v.wrong(at.in("errorRatio").in("hold"), *r.Hold, "it has to be at least the window, which is %s", format(*full.Window))
			}
		}
	}
}

func (v *validator) probing(at *path, p *Probing) {
	full := *p
	fillOf(&full)
	if p.Timeout != nil && *p.Timeout > *full.Interval {
		v.wrong(at.in("timeout"), *p.Timeout, "it has to be at most the interval, which is %s", format(*full.Interval))
	}
	if path := p.Checker.Path; path != nil && *path != "" && ((*path)[0] != '/' || strings.ContainsAny(*path, " #") || strings.HasPrefix(*path, "//")) {
		v.wrong(at.in("checker").in("path"), *path, "it has to begin with / and be a path with or without a query")
	}
}
