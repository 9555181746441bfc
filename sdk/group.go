package sdk

import (
	"context"
	"fmt"
	"iter"
	"time"

	"google.golang.org/grpc"

	"github.com/slicewire/slicewire/balancer/failover"
)

// Group is a named, ordered list of targets of a Client (seed 003). It is looked up
// by name each time, so it stays right when the topology changes. All methods may be
// called concurrently.
type Group struct {
	client *Client
	name   string
}

// Group returns the group of that name, "" being the default one, or nil if there
// is none. After Close it returns what there was.
func (c *Client) Group(name string) *Group {
	t := c.seen.Load()
	if name == "" {
		return &Group{c, t.fallback.group.name}
	}
	for _, g := range t.groups {
		if g.name == name {
			return &Group{c, name}
		}
	}
	return nil
}

// Name returns the group's name.
func (g *Group) Name() string { return g.name }

// Conn returns a channel whose RPCs go to this group, whatever their context names,
// for stubs of its own. Once the group is gone its RPCs are those of a group that
// is not declared. It is closed with the Client.
func (g *Group) Conn() grpc.ClientConnInterface { return groupConn{g.client, InGroup(g.name)} }

type groupConn struct {
	client *Client
	option grpc.CallOption
}

func (c groupConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.client.Invoke(ctx, method, args, reply, append(opts[:len(opts):len(opts)], c.option)...)
}

func (c groupConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.client.NewStream(ctx, desc, method, append(opts[:len(opts):len(opts)], c.option)...)
}

// Current returns the name of the target that RPCs go to, "" once the group is gone.
func (g *Group) Current() string {
	if in := g.find(); in != nil {
		return in.current.Load().name
	}
	return ""
}

// Authority returns the :authority of RPCs to the current target, by default the
// host of its URI; "" before its name was first resolved.
func (g *Group) Authority() string {
	if in := g.find(); in != nil {
		return in.current.Load().router.Status().Authority
	}
	return ""
}

// find returns the group, or nil once it is gone.
func (g *Group) find() *group {
	g.client.driver.mu.Lock()
	defer g.client.driver.mu.Unlock()
	return g.client.driver.find(g.name)
}

// Watch yields the group's current target, as a Switch from "", and then each
// switch, once and in order, until ctx is done, the group is gone or the Client is
// closed. The loop may call whatever it likes. One that is more than 256 switches
// behind misses the oldest.
func (g *Group) Watch(ctx context.Context) iter.Seq[Switch] {
	return func(yield func(Switch) bool) {
		d := g.client.driver
		d.mu.Lock()
		in := d.find(g.name)
		if in == nil {
			d.mu.Unlock()
			return
		}
		first, next := in.newest, in.total
		d.mu.Unlock()
		first.From = ""
		if ctx.Err() != nil || !yield(first) {
			return
		}
		for ctx.Err() == nil {
			d.mu.Lock()
			news := in.since(next)
			next = in.total
			gone, changed := in.gone, d.changed
			d.mu.Unlock()
			for _, s := range news {
				if ctx.Err() != nil || !yield(s) {
					return
				}
			}
			if gone {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// since returns the switches from number n on, as far as they are remembered. They
// are not changed any more.
func (g *group) since(n uint64) []Switch {
	behind := min(g.total-n, uint64(len(g.history)))
	return g.history[len(g.history)-int(behind):]
}

// Pin sends the group's RPCs to a target, whatever its state, for ttl, for drills
// and repairs; then the group chooses by itself again. A second Pin replaces the
// first. The error says what is wrong with the arguments, or that the group is gone.
func (g *Group) Pin(target string, ttl time.Duration) error {
	if ttl <= 0 {
		return fmt.Errorf("slicewire: group %q: a pin for %v; it must be above 0", g.name, ttl)
	}
	return g.step(func(in *group) ([]failover.Switch, error) {
		for id, p := range in.members {
			if p.name == target {
				now := time.Now() // not before the wait for the driver's mu
				return in.machine.Pin(id, now.Add(ttl), now)
			}
		}
		return nil, fmt.Errorf("slicewire: group %q has no target %q; it has %v", g.name, target, in.names())
	})
}

// Unpin ends a pin. The error says that the group is gone.
func (g *Group) Unpin() error {
	return g.step(func(in *group) ([]failover.Switch, error) { return in.machine.Unpin(time.Now()), nil })
}

func (g *Group) step(event func(*group) ([]failover.Switch, error)) error {
	d := g.client.driver
	d.mu.Lock()
	defer d.mu.Unlock()
	in := d.find(g.name)
	if in == nil {
		if g.client.table.Load() == nil {
			return ErrClosed
		}
		return fmt.Errorf("slicewire: group %q is not declared any more", g.name)
	}
	list, err := event(in)
	d.apply(in, list)
	d.poke()
	return err
}

// names are the group's targets, best first.
func (g *group) names() []string {
	var names []string
	for _, t := range g.machine.Targets(time.Now()) {
		names = append(names, g.members[t.Name].name)
	}
	return names
}
