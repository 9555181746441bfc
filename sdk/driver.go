package sdk

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/slicewire/slicewire/balancer/failover"
	"github.com/slicewire/slicewire/balancer/health"
	"github.com/slicewire/slicewire/telemetry"
)

// Switch is one change of a group's current target.
type Switch struct {
	Group string
	// From and To are targets by name; From is "" in what Watch says first.
	From, To string
	Reason   failover.Reason
	At       time.Time
}

// group is one group for as long as topologies list it. Whoever may change it holds
// the driver's mu.
type group struct {
	name string
	// current is where RPCs go: stored under mu, loaded by calls.
	current atomic.Pointer[pool]

	machine *failover.Machine
	members map[string]*pool // by pool.id
	newest  Switch
	history []Switch // the newest ones
	total   uint64   // of all switches, and so the number of the next one
	counts  map[failover.Reason]uint64
	gone    bool // no topology lists it any more
}

// keptSwitches is how many switches of a group are remembered: who watches it and
// is further behind misses some.
const keptSwitches = 256

// driver runs the state machines of all groups of a client. Whoever learns
// something of a target steps them, under mu and within microseconds; one goroutine
// steps them when time alone changes something, and logs.
type driver struct {
	logger *slog.Logger
	began  time.Time
	shown  *telemetry.Registration // nil where nothing is shown; set before run

	mu      sync.Mutex     // guards the fields below it
	checker health.Checker // tells whether a target that failed too often works again
	groups  []*group
	untold  []Switch      // to be logged, in order
	changed chan struct{} // closed by the next switch, or end of a group

	wake   chan struct{} // capacity 1: a deadline may have changed, or something is untold
	ending chan struct{}
	done   chan struct{}
}

func newDriver(l *slog.Logger) *driver {
	return &driver{
		logger: l, began: time.Now(), changed: make(chan struct{}), wake: make(chan struct{}, 1), ending: make(chan struct{}), done: make(chan struct{}),
	}
}

// probeBy has c tell whether targets work again.
func (d *driver) probeBy(c health.Checker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.checker = c
}

// run ends with close, which waits for it.
func (d *driver) run() {
	defer close(d.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		untold, next := d.tick(time.Now())
		for _, s := range untold {
			d.logger.Warn("a group of targets switched", slog.String("group", s.Group), slog.String("from", s.From),
				slog.String("to", s.To), slog.String("reason", s.Reason.String()))
			d.shown.Switched(s.Group, s.From, s.To, s.Reason, s.At)
		}
		if next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
		select {
		case <-timer.C:
		case <-d.wake:
		case <-d.ending:
			return
		}
	}
}

func (d *driver) close() {
	d.mu.Lock()
	for _, g := range d.groups {
		g.gone = true
	}
	d.groups = nil
	d.tellChanged()
	d.mu.Unlock()
	close(d.ending)
	<-d.done
}

// tick deals with the deadlines up to now; next is the one to come, or zero.
func (d *driver) tick(now time.Time) (untold []Switch, next time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range d.groups {
		d.apply(g, g.machine.Tick(now))
		if at, ok := g.machine.Next(); ok && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	untold, d.untold = d.untold, nil
	return untold, next
}

// apply moves g to where its machine went, and remembers. The caller holds mu.
func (d *driver) apply(g *group, list []failover.Switch) {
	for _, s := range list {
		to := g.members[s.To]
		g.current.Store(to)
		from, _, _ := strings.Cut(s.From, idSeparator)
		g.newest = Switch{Group: g.name, From: from, To: to.name, Reason: s.Reason, At: s.At}
		g.history = append(slices.Clone(g.history[max(0, len(g.history)-keptSwitches+1):]), g.newest)
		g.total++
		g.counts[s.Reason]++
		d.untold = append(d.untold, g.newest)
	}
	if len(list) > 0 {
		d.tellChanged()
	}
}

// tellChanged wakes who watches. The caller holds mu.
func (d *driver) tellChanged() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// tell wakes who waits for change.
func (d *driver) tell() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tellChanged()
}

// change is closed by the next switch, or change of the topology.
func (d *driver) change() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// poke has run look at deadlines and log.
func (d *driver) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// step gives each group that lists p one event.
func (d *driver) step(p *pool, event func(*failover.Machine) []failover.Switch) {
	for _, g := range d.groups {
		if g.members[p.id] == p {
			d.apply(g, event(g.machine))
		}
	}
	d.poke()
}

// observe takes in the state of p's channel. It is read under mu, so that of two who
// do that nobody tells an older one last.
func (d *driver) observe(p *pool) connectivity.State {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := p.cc.GetState()
	if c, ok := seen(s); ok && p.verdicts.watched.Load() {
		now := time.Now()
		d.step(p, func(m *failover.Machine) []failover.Switch { return m.Observe(p.id, c, now) })
		p.verdicts.told.Store(int32(s)) // once groups have moved: who sees it does not wait for that
		switch c {
		case failover.Up:
			p.router.Revive(false)
		case failover.Dormant:
			// Without RPCs and with no endpoint to be kept connected, nothing else would find
			// out that it is up again, and so no RPCs would come.
			p.router.Revive(d.awaited(p, now))
		}
	}
	return s
}

// awaited says whether a group waits for p to come back. The caller holds mu.
func (d *driver) awaited(p *pool, now time.Time) bool {
	if p.verdicts.disabled != "" {
		return false
	}
	for _, g := range d.groups {
		if g.members[p.id] != p {
			continue
		}
		for _, t := range g.machine.Targets(now) {
			if t.Name == p.id && !t.State.Available() {
				return true
			}
		}
	}
	return false
}

// suspect takes in the state of p's channel for an RPC that could not be sent, before
// its caller tries again: callers are many, and may be quicker than who watches.
func (d *driver) suspect(p *pool, err error) {
	if d.doubtful(p, err) && p.cc.GetState() == connectivity.TransientFailure {
		d.observe(p)
	}
}

// awaitState gives the state of p's channel time to follow what made an RPC fail,
// before suspect looks at it: a pick fails for an endpoint's state at once, and callers
// at full speed would fail many times in between.
func (d *driver) awaitState(ctx context.Context, p *pool, err error) {
	if d.doubtful(p, err) && p.cc.GetState() != connectivity.TransientFailure {
		p.router.WaitReported(ctx)
	}
}

// doubtful says whether an RPC's error may mean that p is lost, and no group knows.
func (d *driver) doubtful(p *pool, err error) bool {
	return p.verdicts.watched.Load() && p.verdicts.told.Load() != int32(connectivity.TransientFailure) &&
		status.Code(err) == codes.Unavailable
}

func seen(s connectivity.State) (failover.Connectivity, bool) {
	switch s {
	case connectivity.Ready:
		return failover.Up, true
	case connectivity.Idle:
		return failover.Dormant, true
	case connectivity.Connecting:
		return failover.Trying, true
	case connectivity.TransientFailure:
		return failover.Failed, true
	}
	return 0, false // SHUTDOWN is our own doing
}

// judge takes in what another signal says of p. It is read under mu, so that of two
// who do that nobody tells an older one last.
func (d *driver) judge(p *pool, s failover.Signal, good func() bool) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	is := good()
	p.verdicts.bad[s] = !is
	d.step(p, func(m *failover.Machine) []failover.Switch { return m.Judge(p.id, s, is, now) })
}

// disable takes p out for a reason, or puts it back for "".
func (d *driver) disable(p *pool, reason string) {
	d.mu.Lock()
	same := p.verdicts.disabled == reason
	p.verdicts.disabled = reason
	d.mu.Unlock()
	if !same {
		d.judge(p, failover.ByOperator, func() bool { return reason == "" })
		d.observe(p) // it may be waited for now, or no more
	}
}

// watch reports the states of p's channel until ctx is done, and keeps it awake: a
// standby has to be warm when it is needed.
func (d *driver) watch(ctx context.Context, p *pool) {
	for {
		s := d.observe(p)
		if s == connectivity.Idle {
			p.cc.Connect()
		}
		if s == connectivity.Shutdown || !p.cc.WaitForStateChange(ctx, s) {
			return
		}
	}
}

// unwatch ends what watches p, and keeps it connected for a group that waits for it.
// The caller holds the Client's mu.
func (d *driver) unwatch(p *pool) {
	if p.watching == nil {
		return
	}
	p.watching()
	p.watching = nil
	d.mu.Lock()
	defer d.mu.Unlock()
	p.verdicts.watched.Store(false)
	p.router.Revive(false)
}

// closePool closes p; nothing is begun for it afterwards.
func (d *driver) closePool(p *pool) {
	d.mu.Lock()
	p.end()
	d.mu.Unlock()
	p.close()
}

// verdicts is what is known of a pool, for groups that begin to list it. The
// driver's mu guards what is not atomic.
type verdicts struct {
	// watched says that the state of the pool's channel counts, told is the one that
	// was observed last.
	watched atomic.Bool
	told    atomic.Int32
	bad     [failover.ByOperator + 1]bool
	// ratio judges the pool's RPCs, nil if nobody asked for that: stored by updates
	// of the topology, loaded by calls.
	ratio   atomic.Pointer[failover.Ratio]
	onTrial bool // a goroutine probes it, for ratio
	// disabled is why an operator took the target out, "" if none did.
	disabled string
}

// idSeparator is in no name: what comes before it in a pool's id is the target's.
const idSeparator = "\x00"

// wanted is a group as a topology has it.
type wanted struct {
	name    string
	members []*pool
	options failover.Options
}

// update makes the groups those of list, in its order. What is known of targets
// that stay in a group stays; what is known of those that join is told.
func (d *driver) update(list []wanted, now time.Time) ([]*group, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := make([]*group, len(list))
	for i, w := range list {
		ids := make([]string, len(w.members))
		members := make(map[string]*pool, len(w.members))
		for k, p := range w.members {
			ids[k], members[p.id] = p.id, p
		}
		g := d.find(w.name)
		joined := members
		if g == nil {
			m, err := failover.New(ids, w.options, now)
			if err != nil {
				return nil, err
			}
			g = &group{name: w.name, machine: m, members: members, counts: make(map[failover.Reason]uint64)}
			first := members[m.Current()]
			g.current.Store(first)
			g.newest = Switch{Group: w.name, To: first.name, Reason: failover.Start, At: now}
		} else {
			joined = make(map[string]*pool)
			for id, p := range members {
				if g.members[id] != p {
					joined[id] = p
				}
			}
			// Nobody watched a target that was the only one of its groups.
			for _, id := range ids {
				if p := g.members[id]; p != nil && p == members[id] {
					d.tellLink(g, p, now)
				}
			}
			// A deadline that is over may still move it to a target that leaves.
			all := maps.Clone(g.members)
			maps.Copy(all, members)
			g.members = all
			moved, err := g.machine.SetTargets(ids, now)
			if err != nil {
				return nil, err
			}
			d.apply(g, moved)
			g.members = members
			if moved, err = g.machine.SetOptions(w.options, now); err != nil {
				return nil, err
			}
			d.apply(g, moved)
		}
		// The best one last, so that a group leaves it for one of which all is known.
		for _, id := range slices.Backward(ids) {
			p := joined[id]
			if p == nil {
				continue
			}
			for s, bad := range p.verdicts.bad {
				if bad {
					d.apply(g, g.machine.Judge(id, failover.Signal(s), false, now))
				}
			}
			d.tellLink(g, p, now)
		}
		next[i] = g
	}
	for _, g := range d.groups {
		if !slices.Contains(next, g) {
			g.gone = true
		}
	}
	d.groups = next
	d.tellChanged()
	d.poke()
	return next, nil
}

// tellLink tells g the state of p's channel, if that counts. The caller holds mu.
func (d *driver) tellLink(g *group, p *pool, now time.Time) {
	if link, ok := seen(p.cc.GetState()); ok && p.verdicts.watched.Load() {
		d.apply(g, g.machine.Observe(p.id, link, now))
	}
}

// find returns the group of that name. The caller holds mu.
func (d *driver) find(name string) *group {
	for _, g := range d.groups {
		if g.name == name {
			return g
		}
	}
	return nil
}
