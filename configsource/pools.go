package configsource

import "slices"

// Pool is what connections belong to: a target, by its name, what is dialled and the
// profile it is dialled with. All groups that name the target share it. Another name
// is another target, with connections of its own.
type Pool struct {
	// Target is the target's name, or what is dialled if it is not declared.
	Target string
	URI    string
	// Profile is "" for the client's own credentials and options.
	Profile string
}

// Pools are the pools that the groups use, in the order in which they name them.
// Targets that no group names have none.
func (c Config) Pools() []Pool {
	byName, byPlace := make(map[string]Pool, len(c.Targets)), make(map[Pool]Pool, len(c.Targets))
	for _, t := range c.Targets {
		place := Pool{URI: t.URI}
		if t.Profile != nil {
			place.Profile = *t.Profile
		}
		p := place
		p.Target = t.Name
		byName[t.Name], byPlace[place] = p, p
	}
	var pools []Pool
	seen := make(map[Pool]bool)
	for _, g := range c.Groups {
		for _, name := range g.Targets {
			p, declared := byName[name]
			if !declared { // a dial target itself, which a declared one may have too
				if p, declared = byPlace[Pool{URI: name}]; !declared {
					p = Pool{Target: name, URI: name}
				}
			}
			if !seen[p] {
				seen[p] = true
				pools = append(pools, p)
			}
		}
	}
	return pools
}

// PoolChange is what a reload does to connections.
type PoolChange struct {
	// Stay keep their connections, Open are new, and Close are no longer used: calls
	// in flight there end, then the connections go.
	Stay, Open, Close []Pool
}

// DiffPools says what a change from one configuration to another does to
// connections.
func DiffPools(from, to Config) PoolChange {
	var change PoolChange
	before, after := from.Pools(), to.Pools()
	old, now := make(map[Pool]bool, len(before)), make(map[Pool]bool, len(after))
	for _, p := range before {
		old[p] = true
	}
	for _, p := range after {
		now[p] = true
		if old[p] {
			change.Stay = append(change.Stay, p)
		} else {
			change.Open = append(change.Open, p)
		}
	}
	change.Close = slices.DeleteFunc(before, func(p Pool) bool { return now[p] })
	return change
}
