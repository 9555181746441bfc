package sdk

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/slicewire/slicewire/balancer"
	"github.com/slicewire/slicewire/balancer/failover"
)

// Status is a snapshot of a Client for operators. It holds no keys.
type Status struct {
	// Status is that of the default group's current target: of the client, where it
	// has a single target.
	balancer.Status
	// Groups are all groups, the default one first.
	Groups []GroupStatus
	// Targets are those that groups list, each once, then those that are leaving.
	Targets []TargetStatus
	// Configuration is what came from files, the environment or Apply.
	Configuration ConfigStatus
	// UnknownGroups counts RPCs that name a group which is not declared.
	UnknownGroups uint64
}

// GroupStatus is one group.
type GroupStatus struct {
	Name string
	// Current is the target that RPCs go to, Since when and Reason why.
	Current string
	Since   time.Time
	Reason  failover.Reason
	// PinnedUntil is when a pin ends, zero without one.
	PinnedUntil time.Time
	// Targets are the group's, best first, by name.
	Targets []failover.TargetState
	// Switches counts the changes of Current by reason.
	Switches map[failover.Reason]uint64
}

// TargetStatus is one target with its pool of connections.
type TargetStatus struct {
	Name, URI, Profile string
	State              connectivity.State
	// Leaving says that no group lists it any more, and that RPCs are in flight.
	Leaving bool
	// InFlight counts RPCs.
	InFlight int
	// ErrorRatio is what its RPCs say, nil if they are not judged.
	ErrorRatio *failover.RatioState
	// Disabled says why an operator took it out; "" if none did.
	Disabled string
	// Router is what is behind its channel.
	Router balancer.Status
}

// Status returns a snapshot. It works after Close as well. It costs the number of
// endpoints of all targets.
func (c *Client) Status() Status {
	s := Status{UnknownGroups: c.unknown.count.Load(), Configuration: c.configs.get()}
	now := time.Now()
	t := c.seen.Load()
	first := t.fallback.group.current.Load()
	s.Groups = c.driver.status(t, now)
	for _, p := range t.pools {
		s.Targets = append(s.Targets, c.driver.target(p, false, now))
		if p == first {
			s.Status = s.Targets[len(s.Targets)-1].Router
		}
	}
	if leaving := c.onLeave.Load(); leaving != nil {
		for _, p := range *leaving {
			s.Targets = append(s.Targets, c.driver.target(p, true, now))
		}
	}
	return s
}

func (d *driver) status(t *table, now time.Time) []GroupStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []GroupStatus
	for _, g := range t.groups {
		if !g.gone { // what time alone changes, such as credit, is not seen to by itself
			d.apply(g, g.machine.Tick(now))
		}
		s := GroupStatus{
			Name: g.name, Current: g.newest.To, Since: g.newest.At, Reason: g.newest.Reason,
			Switches: make(map[failover.Reason]uint64, len(g.counts)), Targets: g.machine.Targets(now),
		}
		for r, n := range g.counts {
			s.Switches[r] = n
		}
		if _, until, ok := g.machine.Pinned(); ok {
			s.PinnedUntil = until
		}
		for i := range s.Targets {
			s.Targets[i].Name = g.members[s.Targets[i].Name].name
		}
		all = append(all, s)
	}
	return all
}

func (d *driver) target(p *pool, leaving bool, now time.Time) TargetStatus {
	s := TargetStatus{
		Name: p.name, URI: p.uri, Profile: p.profile, State: p.cc.GetState(),
		Leaving: leaving, InFlight: p.calls.count(), Router: p.router.Status(),
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := p.verdicts.ratio.Load(); r != nil {
		state := r.State(now)
		s.ErrorRatio = &state
	}
	s.Disabled = p.verdicts.disabled
	return s
}

// String is the snapshot for logs: in one line where there is a single target, else
// with a line for each group and target.
func (s Status) String() string {
	if len(s.Groups) == 1 && len(s.Targets) == 1 {
		return s.Status.String()
	}
	var b strings.Builder
	for _, g := range s.Groups {
		fmt.Fprintf(&b, "group %q: %q since %v (%v)", g.Name, g.Current, g.Since.Format(time.RFC3339), g.Reason)
		for _, t := range g.Targets {
			fmt.Fprintf(&b, ", %q %v", t.Name, t.State)
		}
		b.WriteByte('\n')
	}
	for _, t := range s.Targets {
		fmt.Fprintf(&b, "%v, %d RPCs in flight\n", t.Router, t.InFlight)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
